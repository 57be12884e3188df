import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "@concord/config";
import { objectGatewaySchema, type ObjectGatewayConfig } from "./config.ts";
import { OBJECT_LIMITS } from "@concord/objects";
import { PACK_BYTES_MAX } from "./limits.ts";

const KEY = { accessKeyId: "AKEY", secretAccessKey: "a-long-secret", tenant: "t" };
const load = (file: object, argv: readonly string[] = []): ReturnType<typeof loadConfig<typeof objectGatewaySchema>> =>
  loadConfig({
    name: "object-gateway",
    schema: objectGatewaySchema,
    argv: ["--config", "c.json", ...argv],
    env: {},
    readFile: () => JSON.stringify(file),
  });

function problemsOf(file: object): string {
  const loaded = load(file);
  assert.equal(loaded.kind, "invalid");
  return loaded.problems.join("\n");
}

test("config: one key is enough; defaults", () => {
  const loaded = load({ accessKeys: [KEY] });
  assert.equal(loaded.kind, "config");
  const { journal, metadata, region, gcGraceMs, longestRequestMs, httpAddress, partBytesMax }: ObjectGatewayConfig = loaded.config;
  assert.deepEqual(
    { journal, metadata, region, gcGraceMs, longestRequestMs, httpAddress, partBytesMax },
    {
      journal: "reservation",
      metadata: "local",
      region: "us-east-1",
      gcGraceMs: 3_600_000,
      longestRequestMs: 3_600_000,
      httpAddress: "127.0.0.1:0",
      partBytesMax: 5 * 1024 ** 3,
    },
  );
});

test("config: mistakes: each is reported", () => {
  assert.match(problemsOf({}), /at least one key/);
  assert.match(problemsOf({ accessKeys: [KEY, KEY] }), /same accessKeyId/);
  assert.match(problemsOf({ accessKeys: [KEY], longestRequestMs: 2000, gcGraceMs: 1000 }), /cut off/);
  assert.match(problemsOf({ accessKeys: [KEY], metadata: "transactions" }), /needs at least one/);
  assert.match(problemsOf({ accessKeys: [KEY], metadata: "storage" }), /storageProxies[^]*needs at least one/);
  assert.match(problemsOf({ accessKeys: [KEY], metadata: "transactions", coordinators: ["nowhere"] }), /host:port/);
  assert.match(problemsOf({ accessKeys: [KEY], partBytesMax: 5 * 1024 ** 3 + 1 }), /partBytesMax/);
  assert.match(problemsOf({ accessKeys: [KEY], packBytesMax: PACK_BYTES_MAX + 1 }), /packBytesMax/);
  for (const packBytesMax of [0, PACK_BYTES_MAX]) assert.equal(load({ accessKeys: [KEY], packBytesMax }).kind, "config");
  const { inlineBytesMax } = OBJECT_LIMITS;
  assert.match(problemsOf({ accessKeys: [KEY], headBytesMax: inlineBytesMax + 1 }), /headBytesMax/);
  for (const headBytesMax of [0, inlineBytesMax]) assert.equal(load({ accessKeys: [KEY], headBytesMax }).kind, "config");
  assert.match(problemsOf({ accessKeys: [KEY], journal: "never" }), /journal/);
});

test("config: targets of events: each has workers, and a name of its own in its tenant", () => {
  const target = { name: "q", tenant: "ann", workers: ["worker:1"] };
  const withTargets = (...eventTargets: readonly object[]): object => ({ accessKeys: [KEY], eventTargets });
  assert.equal(load(withTargets(target, { ...target, tenant: "bob" })).kind, "config");
  assert.match(problemsOf(withTargets(target, target)), /same name/);
  assert.match(problemsOf(withTargets({ ...target, workers: [] })), /addresses of dedup-workers/);
  assert.match(problemsOf(withTargets({ ...target, workers: ["nowhere"] })), /host:port/);
  assert.match(problemsOf(withTargets({ ...target, name: "a:b" })), /letters/);
  assert.match(problemsOf({ accessKeys: [KEY], eventsOverdue: "forget" }), /eventsOverdue/);
});

test("[SEC4] config: secrets are not printed", () => {
  const printed = load({ accessKeys: [KEY], transactionToken: "a-token", dedupWorkerToken: "b-token" }, ["--print-config"]);
  assert.equal(printed.kind, "printed");
  assert.match(printed.text, /AKEY/);
  assert.ok(!printed.text.includes(KEY.secretAccessKey) && !/[ab]-token/.test(printed.text));
});

const MASTER = { id: "m", key: Buffer.alloc(32, 1).toString("base64") };
const OTHER = { id: "m", key: Buffer.alloc(32, 2).toString("base64") };

test("config: keys of encryption: from files that variables name; in no printed text", () => {
  const env = { CONCORD_ENCRYPTION_KEYS_FILE: "/run/keys", CONCORD_KMS_KEYS_FILE: "/run/keys" };
  const files: Readonly<Record<string, string>> = {
    "c.json": JSON.stringify({ accessKeys: [KEY] }),
    "/run/keys": `${JSON.stringify([MASTER, OTHER])}\n`,
  };
  const given = (argv: readonly string[]) =>
    loadConfig({
      name: "object-gateway",
      schema: objectGatewaySchema,
      argv: ["--config", "c.json", ...argv],
      env,
      readFile: (path) => files[path]!,
    });
  const loaded = given([]);
  assert.equal(loaded.kind, "config");
  assert.deepEqual(
    [loaded.config.encryptionKeys, loaded.config.kmsKeys],
    [
      [MASTER, OTHER],
      [MASTER, OTHER],
    ],
  );
  const printed = given(["--print-config"]);
  assert.equal(printed.kind, "printed");
  assert.ok(!printed.text.includes(MASTER.key) && !printed.text.includes(OTHER.key));
});

test("config: keys of encryption: mistakes: each is reported, without the key", () => {
  for (const keys of ["encryptionKeys", "kmsKeys"] as const) {
    assert.match(problemsOf({ accessKeys: [KEY], [keys]: [MASTER, { ...MASTER, id: "n" }] }), /same key/);
    for (const key of ["", "short", MASTER.key.slice(1), `${MASTER.key}AAAA`, "%".repeat(44)]) {
      const problems = problemsOf({ accessKeys: [KEY], [keys]: [{ id: "m", key }] });
      assert.match(problems, /32 bytes in base64/);
      assert.ok(key === "" || !problems.includes(key));
    }
    assert.match(problemsOf({ accessKeys: [KEY], [keys]: [{ ...MASTER, id: "a b" }] }), /letters/);
    assert.match(problemsOf({ accessKeys: [KEY], [keys]: Array.from({ length: 101 }, () => MASTER) }), new RegExp(keys));
  }
});
