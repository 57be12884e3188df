// Who may come in, and the file of users that is read again and again.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ListBucketsCommand, PutObjectCommand, CreateBucketCommand } from "@aws-sdk/client-s3";
import { nodeClock } from "@concord/adapter-node-runtime";
import { TEXT_READ_EVERY_MS } from "@concord/config";
import { silentLog, type Clock } from "@concord/runtime";
import { objectGatewaySchema, type ObjectGatewayConfig } from "./config.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";
import { Users } from "./users.ts";

const NEW: AccessKey = { accessKeyId: "ANNSNEWKEY", secretAccessKey: "ann-has-a-new-secret", tenant: "ann" };

/** A file of users, and time that moves when the test says so. */
class Files {
  text = "";
  #due: () => void = () => assert.fail("a timer is set");
  timers = 0;
  readonly clock: Clock = {
    ...nodeClock,
    setTimer: (delayMs: number, action: () => void) => {
      if (delayMs !== TEXT_READ_EVERY_MS) return nodeClock.setTimer(delayMs, action);
      [this.#due, this.timers] = [action, this.timers + 1];
      return { cancel: () => void (this.timers = 0) };
    },
  };

  /** Resolves when what was due has been done. */
  async tick(): Promise<void> {
    this.#due();
    await new Promise(setImmediate);
  }

  put(...accessKeys: readonly AccessKey[]): void {
    this.text = JSON.stringify({ accessKeys });
  }

  readonly readFile = (path: string): string => {
    assert.equal(path, "users.json");
    return this.text;
  };
}

const configOf = (more: object): ObjectGatewayConfig => objectGatewaySchema.parse({ accessKeys: [BOB], usersFile: "users.json", ...more });

function usersOf(files: Files, lines: unknown[] = [], config: object = {}): Users {
  const log = { ...silentLog, info: (...line: unknown[]) => void lines.push(line), warn: (...line: unknown[]) => void lines.push(line) };
  return new Users({ config: configOf(config), readFile: files.readFile, clock: files.clock, log });
}

test("[OPS23] users: the file is replaced: new keys count, removed ones no longer, those of the configuration always", async () => {
  assert.equal(TEXT_READ_EVERY_MS, 30_000);
  const files = new Files();
  files.put(ANN);
  const users = usersOf(files);
  assert.equal(users.credential(ANN.accessKeyId), undefined);
  users.open();
  assert.deepEqual(users.credential(ANN.accessKeyId), { secret: ANN.secretAccessKey, tenant: "ann" });
  files.put(NEW);
  assert.equal(users.credential(NEW.accessKeyId), undefined);
  await files.tick();
  assert.deepEqual(users.credential(NEW.accessKeyId), { secret: NEW.secretAccessKey, tenant: "ann" });
  assert.equal(users.credential(ANN.accessKeyId), undefined);
  assert.deepEqual(users.credential(BOB.accessKeyId), { secret: BOB.secretAccessKey, tenant: "bob" });
  assert.deepEqual([users.isTenant("ann"), users.isTenant("bob"), users.isTenant("eve")], [true, true, false]);
  files.put();
  await files.tick();
  assert.equal(users.isTenant("ann"), false);
  users.close();
  assert.equal(files.timers, 0);
});

const UNUSABLE: Readonly<Record<string, string>> = {
  "half written": '{"accessKeys":[{"accessKeyId":"ANNSKEY","secretAccessKey":"ann-has-a-secret"',
  "an unknown field": '{"accessKeys":[],"secrets":["ann-has-a-secret"]}',
  "a secret that is too short": '{"accessKeys":[{"accessKeyId":"ANNSKEY","secretAccessKey":"short","tenant":"ann"}]}',
  "two keys with one id": JSON.stringify({ accessKeys: [ANN, { ...ANN, secretAccessKey: "another-secret" }] }),
  "the id of a configured key": JSON.stringify({ accessKeys: [{ ...BOB, tenant: "ann" }] }),
  "a limit that is no number": '{"tenantLimits":[{"tenant":"ann","bytesMax":"many"}]}',
  "two limits of one tenant": '{"tenantLimits":[{"tenant":"ann","bytesMax":1},{"tenant":"ann","bytesMax":2}]}',
  empty: "",
};

for (const [what, text] of Object.entries(UNUSABLE)) {
  test(`[OPS23] users: the file is ${what}: refused at the start; later those before stay, said once and without a secret`, async () => {
    const files = new Files();
    files.text = text;
    assert.throws(() => usersOf(files).open(), /usersFile/);
    files.put(ANN);
    const lines: unknown[] = [];
    const users = usersOf(files, lines);
    users.open();
    files.text = text;
    await files.tick();
    await files.tick();
    assert.ok(users.credential(ANN.accessKeyId));
    assert.equal(lines.length, 1);
    assert.match(JSON.stringify(lines), /users cannot be replaced; those before stay/);
    assert.doesNotMatch(JSON.stringify(lines), /secret"|has-a|short|another-secret/);
    files.put(ANN, NEW);
    await files.tick();
    assert.ok(users.credential(NEW.accessKeyId));
    users.close();
  });
}

test("users: limits in the configuration and in the file: the file's replace those of the same tenant", () => {
  const files = new Files();
  files.text = JSON.stringify({ tenantLimits: [{ tenant: "ann", bytesMax: 5 }] });
  const users = usersOf(files, [], {
    tenantLimits: [
      { tenant: "ann", objectsMax: 1 },
      { tenant: "bob", objectsMax: 2 },
    ],
  });
  users.open();
  assert.deepEqual(users.limitsOf("ann"), { tenant: "ann", bytesMax: 5 });
  assert.deepEqual(users.limitsOf("bob"), { tenant: "bob", objectsMax: 2 });
  assert.equal(users.limitsOf("eve"), undefined);
  users.close();
});

test("config: no key at all: refused without a file of users, accepted with one", () => {
  assert.equal(objectGatewaySchema.safeParse({ accessKeys: [] }).success, false);
  assert.equal(objectGatewaySchema.safeParse({ accessKeys: [], usersFile: "users.json" }).success, true);
});

const files = new Files();
let gateway: TestGateway;
before(async () => {
  files.put(ANN);
  const environment = { clock: files.clock };
  gateway = await TestGateway.start({ config: { accessKeys: [BOB], usersFile: "users.json" }, environment, readFile: files.readFile });
});
after(() => gateway.remove());

const list = async (key: AccessKey): Promise<string> => {
  const host = gateway.address;
  const { status, code } = await send(host, sign({ method: "GET", path: "/" }, { key, host }));
  return code === "" ? String(status) : `${status} ${code}`;
};

test("users: a tenant with two keys: each sees and changes what the other made; after the rotation only the new one", async () => {
  files.put(ANN, NEW);
  await files.tick();
  const [before, now] = [gateway.client(ANN), gateway.client(NEW)];
  await before.send(new CreateBucketCommand({ Bucket: "of-both" }));
  await now.send(new PutObjectCommand({ Bucket: "of-both", Key: "k", Body: "by the new key" }));
  assert.deepEqual(
    (await now.send(new ListBucketsCommand({}))).Buckets?.map(({ Name }) => Name),
    ["of-both"],
  );
  assert.deepEqual([await list(ANN), await list(NEW), await list(BOB)], ["200", "200", "200"]);
  files.put(NEW);
  assert.equal(await list(ANN), "200", "until the file is read again");
  await files.tick();
  const contents = await gateway.contents();
  assert.deepEqual([await list(ANN), await list(NEW)], ["403 InvalidAccessKeyId", "200"]);
  await assert.rejects(before.send(new PutObjectCommand({ Bucket: "of-both", Key: "late", Body: "x" })), { name: "InvalidAccessKeyId" });
  assert.deepEqual(await gateway.contents(), contents);
});

test("users: a key keeps its id and gets another secret: the former one is refused at once", async () => {
  const renewed = { ...NEW, secretAccessKey: "ann-has-yet-another" };
  files.put(renewed);
  await files.tick();
  assert.deepEqual([await list(NEW), await list(renewed)], ["403 SignatureDoesNotMatch", "200"]);
});
