// Secrets of every program's configuration, found by its schema: in no log line, no printed configuration and no problem.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { loadConfig, z } from "@concord/config";
import { dedupWorkerSchema } from "@concord/dedup-worker";
import { objectGatewaySchema } from "@concord/object-gateway";
import { RowsService } from "@concord/protos-storage";
import { bearer, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import { storageProxySchema } from "@concord/storage-proxy";
import { txnCoordinatorSchema } from "@concord/txn-coordinator";
import { concordSchema } from "./config.ts";

const SCHEMAS: Readonly<Record<string, z.ZodObject>> = {
  concord: concordSchema,
  "storage-proxy": storageProxySchema,
  "txn-coordinator": txnCoordinatorSchema,
  "object-gateway": objectGatewaySchema,
  "dedup-worker": dedupWorkerSchema,
};

/** In every secret of these tests, and nowhere else. */
const MARKER = "Zq9Hush";
let secrets = 0;
/** Valid as each kind of secret, also as 32 bytes in base64; no two are equal. */
function newSecret(): string {
  secrets += 1;
  return `${`${MARKER}${secrets}x`.padEnd(43, "A")}=`;
}

/** Complete values of the keys that have a secret inside, by key. A key that is not here is a secret itself. */
const AROUND: Readonly<Record<string, (secret: string) => unknown>> = {
  callers: (token) => [{ name: "ann", role: "operator", token }],
  traceHeaders: (authorization) => ({ authorization }),
  accessKeys: (secretAccessKey) => [{ accessKeyId: "ANN", secretAccessKey, tenant: "ann" }],
  encryptionKeys: (key) => [{ id: "k", key }],
  kmsKeys: (key) => [{ id: "k", key }],
};

/** Secrets that go with other settings. */
const WITH: Readonly<Record<string, object>> = {
  cassandraPassword: { cassandraUsername: "ann" },
  kafkaPassword: { kafkaUser: "ann" },
  traceHeaders: { traceEndpoint: "http://127.0.0.1:1/v1/traces", traceSampleRatio: 1 },
};

const NEEDED: Readonly<Record<string, object>> = {
  concord: { accessKeys: [{ accessKeyId: "BEN", secretAccessKey: "only-for-tests", tenant: "main" }] },
  "object-gateway": { accessKeys: [{ accessKeyId: "BEN", secretAccessKey: "only-for-tests", tenant: "main" }] },
  "txn-coordinator": { storageProxies: [{ name: "a", address: "127.0.0.1:1", datacenter: "local" }] },
};

const isSecret = (type: z.ZodType): boolean => type.meta()?.["secret"] === true;

/** The paths of the secrets in a type: "clientToken", "callers[].token". */
function secretPaths(type: z.ZodType, path = ""): readonly string[] {
  if (isSecret(type)) return [path];
  if (type instanceof z.ZodDefault || type instanceof z.ZodOptional) return secretPaths(type.def.innerType as z.ZodType, path);
  if (type instanceof z.ZodArray) return secretPaths(type.element as z.ZodType, `${path}[]`);
  if (type instanceof z.ZodRecord) return secretPaths(type.valueType as z.ZodType, `${path}{}`);
  if (!(type instanceof z.ZodObject)) return [];
  return Object.entries(type.shape).flatMap(([key, one]) => secretPaths(one as z.ZodType, path === "" ? key : `${path}.${key}`));
}

/** All paths, for the names in them. */
function allPaths(type: z.ZodType, path = ""): readonly string[] {
  if (type instanceof z.ZodDefault || type instanceof z.ZodOptional) return allPaths(type.def.innerType as z.ZodType, path);
  if (type instanceof z.ZodArray) return allPaths(type.element as z.ZodType, `${path}[]`);
  if (!(type instanceof z.ZodObject)) return [path];
  return Object.entries(type.shape).flatMap(([key, one]) => allPaths(one as z.ZodType, path === "" ? key : `${path}.${key}`));
}

/** Top-level keys with a secret. */
function secretKeys(program: string): readonly string[] {
  return [...new Set(secretPaths(SCHEMAS[program]!).map((path) => /^\w+/.exec(path)![0]))];
}

const valueWith = (key: string, secret: string): unknown => AROUND[key]?.(secret) ?? secret;

/** A configuration with every secret there is. */
function fullConfig(program: string): object {
  const keys = secretKeys(program);
  return {
    ...NEEDED[program],
    ...Object.assign({}, ...keys.map((key) => WITH[key])),
    ...Object.fromEntries(keys.map((key) => [key, valueWith(key, newSecret())])),
  };
}

type Input = Pick<Parameters<typeof loadConfig>[0], "argv" | "env"> & { readonly file?: string };

/** Output of the program for this input. */
function printed(program: string, { argv, env, file }: Input): { readonly kind: string; readonly text: string } {
  const from = file === undefined ? argv : [...argv, "--config", "c.json"];
  const loaded = loadConfig({ name: program, schema: SCHEMAS[program]!, argv: from, env, readFile: () => file ?? "" });
  return { kind: loaded.kind, text: JSON.stringify(loaded.kind === "config" ? "" : loaded) };
}

function assertSilent(text: string, what: string): void {
  const at = text.indexOf(MARKER);
  assert.ok(at < 0, `${what}: a secret in ...${text.slice(Math.max(0, at - 200), at + 60)}`);
}

const words = (key: string): string => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** Mistakes around one secret of each source. */
function mistakes(program: string, key: string): readonly (readonly [string, Input])[] {
  const secret = newSecret();
  const none: Input = { argv: [], env: {} };
  const file = (value: unknown): Input => ({ ...none, file: JSON.stringify({ ...fullConfig(program), [key]: value }) });
  const text = typeof valueWith(key, secret) === "string" ? secret : JSON.stringify(valueWith(key, secret));
  const whole = JSON.stringify({ ...fullConfig(program), [key]: valueWith(key, secret) });
  const broken = [0, 1, 2, 3].flatMap((off) => {
    const at = whole.indexOf(secret) + 9 * off;
    return [`${whole.slice(0, at)}\u0000${whole.slice(at)}`, `${whole.slice(0, at)}"${whole.slice(at)}`, whole.slice(0, at + 9)];
  });
  return [
    ["another type", file({ [secret]: [secret] })],
    ["in a list", file([secret])],
    ["too long", file(valueWith(key, secret.repeat(300)))],
    ["with line ends", file(valueWith(key, `${secret}\r\n${secret}`))],
    ["too short", file(valueWith(key, MARKER))],
    ["a misspelt key of the file", { ...none, file: JSON.stringify({ ...fullConfig(program), [`${key}s`]: text }) }],
    ["a misspelt option", { ...none, argv: [`--${words(key)}s`, text] }],
    ["a misspelt option with =", { ...none, argv: [`--${words(key)}s=${text}`] }],
    ["an option with another sign", { ...none, argv: [`--${words(key)}:${secret}`] }],
    ["an option with one dash", { ...none, argv: [`-${words(key)}`, text] }],
    ["no option", { ...none, argv: [text] }],
    ["two values of an option", { ...none, argv: [`--${words(key)}`, text, secret] }],
    ["a misspelt variable", { ...none, env: { [`CONCORD_${words(key).replaceAll("-", "_").toUpperCase()}S`]: text } }],
    ["half of a variable", { ...none, env: { [`CONCORD_${words(key).replaceAll("-", "_").toUpperCase()}`]: text.slice(0, -1) } }],
    ...broken.map((content, at): readonly [string, Input] => [`a file that is no JSON, ${at}`, { ...none, file: content }]),
  ];
}

for (const program of Object.keys(SCHEMAS)) {
  test(`[SEC4] secrets: ${program}: what is named like a secret is one by the schema`, () => {
    const marked = new Set(secretPaths(SCHEMAS[program]!));
    const named = allPaths(SCHEMAS[program]!).filter((path) => /(token|password|secret|secretAccessKey|\.key)$/i.test(path));
    assert.ok(named.length > 4);
    assert.deepEqual(
      named.filter((path) => !marked.has(path)),
      [],
    );
  });

  test(`[SEC4] secrets: ${program}: each secret: not in the printed configuration`, () => {
    const config = fullConfig(program);
    const text = JSON.stringify(config);
    const { kind, text: shown } = printed(program, { argv: ["--print-config"], env: {}, file: text });
    assert.equal(kind, "printed", shown);
    assert.equal(text.split(MARKER).length - 1, secretPaths(SCHEMAS[program]!).length, "each secret is set once");
    assertSilent(shown, "the printed configuration");
  });

  test(`[SEC4] secrets: ${program}: mistakes around each secret: not in any problem`, () => {
    for (const key of secretKeys(program)) {
      for (const [what, input] of mistakes(program, key)) {
        const { text } = printed(program, input);
        assertSilent(text, `${key}, ${what}`);
      }
    }
  });
}

/** Both outputs of a program with a configuration, to its end. `onLine` may end it. */
async function outputOf(
  program: string,
  config: object,
  more: readonly string[] = [],
  onLine: (line: string, child: ChildProcess) => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "concord-secrets-"));
  const path = join(folder, "config.json");
  const data = "dataFolder" in SCHEMAS[program]!.shape ? { dataFolder: join(folder, "data") } : {};
  await writeFile(path, JSON.stringify({ logLevel: "debug", drainGraceMs: 500, ...data, ...config }));
  const main = join(import.meta.dirname, `../../${program}/src/main.ts`);
  const child = spawn(process.execPath, [main, "--config", path, ...more], { stdio: ["ignore", "pipe", "pipe"] });
  try {
    const lines: string[] = [];
    const closed = once(child, "close");
    child.stderr.on("data", (bytes: Buffer) => void lines.push(bytes.toString()));
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      await onLine(line, child);
    }
    await closed;
    return lines.join("\n");
  } finally {
    child.kill("SIGKILL");
    await rm(folder, { recursive: true });
  }
}

/** The log of a program that comes to a line, is used then, and stopped. */
async function logOf(program: string, config: object, until: RegExp, use: (address: string) => Promise<void>): Promise<string> {
  let [address, isUsed] = ["", false];
  const log = await outputOf(program, config, [], async (line, child) => {
    const entry = JSON.parse(line) as { readonly message: string; readonly address: string };
    if (entry.message === "listening") ({ address } = entry);
    if (isUsed || !until.test(line)) return;
    isUsed = true;
    await use(address);
    child.kill("SIGTERM");
  });
  assert.ok(isUsed, `${program} did not come to ${String(until)}:\n${log}`);
  return log;
}

/** Calls with a token that is known, with one that is nearly known, and without the method. */
async function called(address: string, token: string): Promise<void> {
  const channel = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics }).connect(address);
  for (const one of [token, `${token}x`])
    await channel.unary(RowsService.methods.Read, {}, { timeoutMs: 10_000, metadata: bearer(one) }).catch(() => undefined);
  channel.close();
}

const CASSANDRA = { backend: "cassandra", cassandraContactPoints: ["127.0.0.1:1"] };
const KAFKA = { log: "kafka", kafkaBrokers: ["127.0.0.1:1"], idSource: "key" };
/** Programs and what they wait for, or serve: the log has that line then. */
const STARTS: readonly (readonly [program: string, what: string, settings: object, until: RegExp])[] = [
  ["concord", "serving", {}, /"message":"ready"/],
  ["storage-proxy", "serving", {}, /"message":"serving"/],
  ["storage-proxy", "its Cassandra does not answer", CASSANDRA, /127\.0\.0\.1:1\b/],
  ["txn-coordinator", "its storage does not answer", {}, /"message":"listening"/],
  ["object-gateway", "serving", {}, /"message":"serving"/],
  ["dedup-worker", "serving", {}, /"message":"serving"/],
  ["dedup-worker", "its Kafka does not answer", KAFKA, /127\.0\.0\.1:1\b/],
];

for (const [program, what, settings, until] of STARTS) {
  test(`[SEC4] secrets: ${program}, ${what}: in no line of its log, calls with right and wrong tokens included`, async () => {
    const config = { ...fullConfig(program), ...settings } as { readonly operatorToken: string; readonly clientToken: string };
    const log = await logOf(program, config, until, async (address) => {
      if (address === "") return;
      for (const token of [config.operatorToken, config.clientToken]) await called(address, token);
    });
    assertSilent(log, program);
  });
}

for (const program of Object.keys(SCHEMAS)) {
  test(`[SEC4] secrets: ${program}: ends for a mistake: its output has the mistake and no secret`, async () => {
    const output = await outputOf(program, { ...fullConfig(program), listenAddress: "nowhere" }, ["--nonsense", newSecret()]);
    assert.match(output, /listenAddress[^]*expected host:port/);
    assertSilent(output, program);
  });
}
