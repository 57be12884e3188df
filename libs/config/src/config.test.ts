import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import {
  buildOf,
  checkServer,
  configOfProcess,
  diskShape,
  HIDDEN,
  loadConfig,
  secret,
  serverShape,
  tlsOf,
  tokensOf,
  z,
  type Loaded,
} from "./index.ts";

const schema = z.strictObject({
  listenAddress: z.string().default("127.0.0.1:4600").describe("where it listens"),
  dataFolder: z.string().describe("where it stores"),
  timeoutMs: z.number().int().min(1).default(2000).describe("how long it waits"),
  epoch: z.bigint().default(0n).describe("first epoch"),
  fast: z.boolean().default(false).describe("without care"),
  mode: z.enum(["ring", "cassandra"]).default("ring").describe("where rows live"),
  seeds: z.array(z.string()).default([]).describe("first peers"),
  peers: z
    .array(z.strictObject({ id: z.number(), token: secret(z.string()) }))
    .default([])
    .describe("all peers"),
  password: secret(z.string().min(4)).optional().describe("of the database"),
});

interface Input {
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly file?: string;
}

function load(input: Input): Loaded<z.output<typeof schema>> {
  const argv = [...(input.argv ?? []), ...(input.file === undefined ? [] : ["--config", "c.json"])];
  return loadConfig({ name: "app", schema, argv, env: input.env ?? {}, readFile: () => input.file! });
}

function configOf(input: Input): z.output<typeof schema> {
  const loaded = load({ ...input, argv: ["--data-folder", "/d", ...(input.argv ?? [])] });
  assert.equal(loaded.kind, "config", inspect(loaded));
  return (loaded as { config: z.output<typeof schema> }).config;
}

function problemsOf(input: Input): readonly string[] {
  const loaded = load(input);
  assert.equal(loaded.kind, "invalid", inspect(loaded));
  return (loaded as { problems: readonly string[] }).problems;
}

test("config: precedence: flag before environment before file before default", () => {
  const env = { CONCORD_TIMEOUT_MS: "20", OTHER: "x" };
  const file = '{"timeoutMs": 30, "listenAddress": "a:1"}';
  assert.equal(configOf({}).timeoutMs, 2000);
  assert.equal(configOf({ file }).timeoutMs, 30);
  assert.equal(configOf({ file, env }).timeoutMs, 20);
  assert.equal(configOf({ file, env, argv: ["--timeout-ms=10"] }).timeoutMs, 10);
  assert.equal(configOf({ file, env }).listenAddress, "a:1");
  assert.equal(configOf({ env: { CONCORD_CONFIG: "c.json" }, file }).listenAddress, "a:1");
});

test("config: texts: read as the kind of their key", () => {
  const env = {
    CONCORD_EPOCH: "9007199254740993",
    CONCORD_FAST: "true",
    CONCORD_SEEDS: "a, b",
    CONCORD_PEERS: '[{"id":1,"token":"t"}]',
    CONCORD_MODE: "cassandra",
  };
  const config = configOf({ env });
  assert.deepEqual(
    [config.epoch, config.fast, config.seeds, config.peers, config.mode],
    [9007199254740993n, true, ["a", "b"], [{ id: 1, token: "t" }], "cassandra"],
  );
  assert.equal(configOf({ argv: ["--fast"] }).fast, true);
  assert.equal(configOf({ env, argv: ["--no-fast"] }).fast, false);
  assert.equal(configOf({ file: '{"epoch": "12"}' }).epoch, 12n);
});

test("[OPS10] [OPS11] config: what is kept free and reserved of a disk: 256 MiB and 64 MiB, unless it is said", () => {
  const MIB = 1024 * 1024;
  assert.deepEqual(z.strictObject(diskShape).parse({}), { lowSpaceBytes: 256 * MIB, reserveBytes: 64 * MIB });
});

test("[OPS5] config: mistakes everywhere: all reported at once, each with its source", () => {
  const problems = problemsOf({
    argv: ["stray", "--nonsense", "hunter2", "--timeout-ms", "soon", "--listen-address"],
    env: { CONCORD_MODE: "paper", CONCORD_UNKNOWN: "1" },
    file: '{"colour": "red", "peers": [{"id": "one", "token": "t"}]}',
  });
  const expected = [
    /--nonsense is unknown/,
    /argument 1 is not expected/,
    /--listen-address needs a value/,
    /CONCORD_UNKNOWN is unknown/,
    /"colour" is unknown/,
    /dataFolder is missing.*--data-folder.*CONCORD_DATA_FOLDER/,
    /^--timeout-ms: .*number/,
    /^CONCORD_MODE: /,
    /^"peers" in the file at 0\.id: /,
  ];
  assert.equal(problems.length, expected.length, problems.join("\n"));
  for (const one of expected)
    assert.ok(
      problems.some((problem) => one.test(problem)),
      `${one} in\n${problems.join("\n")}`,
    );
});

test("config: Services of Kubernetes whose names begin with concord: their variables are no mistakes; others still are", () => {
  const env = {
    CONCORD_STORAGE_PROXY_SERVICE_HOST: "10.0.0.1",
    CONCORD_STORAGE_PROXY_SERVICE_PORT_GRPC: "7101",
    CONCORD_STORAGE_PROXY_PORT: "tcp://10.0.0.1:7101",
    CONCORD_STORAGE_PROXY_PORT_7101_TCP_ADDR: "10.0.0.1",
    CONCORD_SERVICE_HOST: "10.0.0.2",
    CONCORD_PORT: "tcp://10.0.0.2:7101",
  };
  assert.equal(configOf({ env }).mode, configOf({}).mode);
  assert.match(problemsOf({ env: { ...env, CONCORD_GATEWAY_PORT: "7101" } })[0]!, /CONCORD_GATEWAY_PORT is unknown/);
  assert.match(problemsOf({ env: { CONCORD_PORT: "7101" } })[0]!, /CONCORD_PORT is unknown/);
});

test("config: a secret from a file: its text without the last line break; both forms, or no such file: a problem", () => {
  const files: Readonly<Record<string, string>> = { "/run/peers": '[{"id":1,"token":"from a file"}]\n' };
  const readFile = (path: string): string => files[path] ?? assert.fail("ENOENT");
  const load = (env: Readonly<Record<string, string>>) => loadConfig({ name: "app", schema, argv: ["--data-folder", "d"], env, readFile });
  const loaded = load({ CONCORD_PEERS_FILE: "/run/peers" });
  assert.deepEqual(loaded.kind === "config" ? loaded.config.peers : loaded, [{ id: 1, token: "from a file" }]);
  const both = load({ CONCORD_PEERS_FILE: "/run/peers", CONCORD_PEERS: "[]" });
  assert.match(both.kind === "invalid" ? both.problems[0]! : "", /both given/);
  const absent = load({ CONCORD_PEERS_FILE: "/run/none" });
  assert.match(absent.kind === "invalid" ? absent.problems[0]! : "", /cannot be read/);
  const plain = load({ CONCORD_MODE_FILE: "/run/peers" });
  assert.match(plain.kind === "invalid" ? plain.problems[0]! : "", /is unknown/);
});

test("config: a file that is missing or no object: a problem, not a crash", () => {
  assert.match(problemsOf({ file: "{" })[0]!, /cannot be read as JSON/);
  assert.match(problemsOf({ file: "[]" })[0]!, /not one JSON object/);
});

test("[OPS5] config: a process: its configuration, or its texts and the right exit code", () => {
  const build = buildOf("/app", "v26.10.0", () => '{"version": "1.2.3", "commit": "0123456789ab"}');
  const run = (...argv: string[]): readonly [unknown, string, string] => {
    let code: number | undefined;
    const texts = { stdout: "", stderr: "" };
    const write = (stream: "stdout" | "stderr") => ({ write: (text: string) => void (texts[stream] += text) });
    const process = { argv: ["node", "main.ts", ...argv], env: {}, stdout: write("stdout"), stderr: write("stderr") };
    const exit = (given: number): never => {
      code = given;
      throw new Error("exit");
    };
    try {
      return [configOfProcess("app", schema, { ...process, exit }, () => "", build).dataFolder, texts.stdout, texts.stderr];
    } catch {
      return [code, texts.stdout, texts.stderr];
    }
  };
  assert.deepEqual(run("--data-folder", "/d"), ["/d", "", ""]);
  const [helpCode, help] = run("--help");
  assert.ok(helpCode === 0 && help.startsWith("usage: app"));
  assert.match(String(help), /--version\n/);
  assert.deepEqual(run("--version", "--nonsense"), [0, "app 1.2.3 (commit 0123456789ab, Node v26.10.0)\n", ""]);
  assert.deepEqual(run(), [2, "", 'app: dataFolder is missing: give --data-folder, CONCORD_DATA_FOLDER or "dataFolder" in the file\n']);
});

test("config: build: read beside the program, else from the project around it, whose commit is not known", () => {
  const files: Record<string, string> = {
    "/dist/package.json": '{"version":"1.0.0","commit":"abc"}',
    "/app/src/../package.json": '{"version":"2.0.0"}',
  };
  const readFile = (path: string): string => {
    if (path === "/locked/package.json") throw Object.assign(new Error("not allowed"), { code: "EACCES" });
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error(`no ${path}`), { code: "ENOENT" });
    return text;
  };
  assert.deepEqual(buildOf("/dist", "v26", readFile), { version: "1.0.0", commit: "abc", node: "v26" });
  assert.deepEqual(buildOf("/app/src", "v26", readFile), { version: "2.0.0", commit: "unknown", node: "v26" });
  assert.throws(() => buildOf("/locked", "v26", readFile), /not allowed/);
  assert.throws(() => buildOf("/nowhere", "v26", readFile), /no .nowhere/);
});

test("[OPS5] config: secrets: in no printed text and in no problem", () => {
  const printed = load({
    argv: ["--print-config", "--data-folder", "/d", "--password", "hunter2", "--peers", '[{"id":1,"token":"hunter2"}]', "--epoch", "5"],
  });
  assert.equal(printed.kind, "printed");
  const { text } = printed as { text: string };
  assert.doesNotMatch(text, /hunter2/);
  const content = JSON.parse(text) as { password: string; peers: object[]; epoch: string; timeoutMs: number };
  assert.deepEqual([content.password, content.peers, content.epoch, content.timeoutMs], [HIDDEN, [{ id: 1, token: HIDDEN }], "5", 2000]);
  assert.doesNotMatch(problemsOf({ argv: ["--data-folder", "/d", "--password", "hun"] }).join(), /hun(?!d)/);
});

test("config: help: every key with names, default, choices and description, and it wins over mistakes", () => {
  const help = load({ argv: ["--help", "--nonsense"] });
  assert.equal(help.kind, "help");
  const { text } = help as { text: string };
  for (const part of [
    "--listen-address TEXT",
    "CONCORD_LISTEN_ADDRESS",
    "default: 127.0.0.1:4600",
    "--mode ring|cassandra",
    "--[no-]fast",
    "where it stores",
    "required",
    "default: 0",
    "optional",
  ]) {
    assert.ok(text.includes(part), `${part} in\n${text}`);
  }
});

test("config: a server's keys: tokens by role and TLS texts, halves of pairs refused", () => {
  const server = z
    .strictObject({ ...serverShape, dataFolder: z.string().default("./data").describe("where it stores") })
    .superRefine(checkServer);
  const read = (argv: readonly string[]) =>
    loadConfig({ name: "app", schema: server, argv, env: {}, readFile: (path) => `pem of ${path}` });
  const plain = read([]);
  assert.ok(plain.kind === "config");
  assert.equal(plain.config.dataFolder, "./data");
  assert.equal(tlsOf(plain.config, String), undefined);
  assert.deepEqual(tokensOf(plain.config), []);
  const full = read([
    "--peer-token",
    "p",
    "--tls-certificate-file",
    "c",
    "--tls-key-file",
    "k",
    "--tls-client-ca-file",
    "a",
    "--tls-server-ca-file",
    "s",
    "--tls-server-name",
    "n",
  ]);
  assert.ok(full.kind === "config");
  assert.deepEqual(tokensOf(full.config), [{ role: "peer", token: "p" }]);
  assert.deepEqual(
    tlsOf(full.config, (path) => path),
    { server: { certificate: "c", key: "k", clientCa: "a" }, channel: { serverCa: "s", serverName: "n", certificate: "c", key: "k" } },
  );
  const half = read(["--tls-key-file", "k", "--listen-address", "nowhere"]);
  assert.ok(half.kind === "invalid");
  assert.match(half.problems.join("\n"), /--listen-address: expected host:port/);
  const pairOnly = read(["--tls-key-file", "k"]);
  assert.ok(pairOnly.kind === "invalid" && /needs tlsCertificateFile too/.test(pairOnly.problems[0]!));
  const nameOnly = read(["--tls-server-name", "n"]);
  assert.ok(nameOnly.kind === "invalid" && /needs tlsServerCaFile too/.test(nameOnly.problems[0]!));
});

test("config: traces: off by default; an endpoint without credentials, a share, and headers that are secret", () => {
  const shape = z.strictObject(serverShape).superRefine(checkServer);
  const server = { listenAddress: "127.0.0.1:1", adminAddress: "127.0.0.1:2" };
  const loadServer = (keys: object): Loaded<z.output<typeof shape>> =>
    loadConfig({ name: "app", schema: shape, argv: ["--config", "c"], env: {}, readFile: () => JSON.stringify({ ...server, ...keys }) });
  const problemOf = (keys: object): string => {
    const loaded = loadServer(keys);
    assert.equal(loaded.kind, "invalid", inspect(loaded));
    return loaded.kind === "invalid" ? loaded.problems.join() : "";
  };
  const off = loadServer({});
  assert.ok(off.kind === "config" && off.config.traceEndpoint === undefined, inspect(off));
  const on = loadServer({
    traceEndpoint: "https://collector:4318/v1/traces",
    traceSampleRatio: 1,
    traceHeaders: { Authorization: "Bearer x" },
  });
  assert.equal(on.kind, "config", inspect(on));
  assert.match(problemOf({ traceEndpoint: "collector:4318" }), /expected an address of http or https/);
  assert.match(problemOf({ traceEndpoint: "nothing" }), /expected an address of http or https/);
  assert.match(problemOf({ traceEndpoint: "http://user:word@collector/" }), /belong into traceHeaders/);
  assert.match(problemOf({ traceSampleRatio: 1.1 }), /traceSampleRatio/);
  const broken = problemOf({ traceHeaders: { Authorization: "key-in-parts\nX: y" } });
  assert.match(broken, /traceHeaders/);
  assert.ok(!broken.includes("key-in-parts"), "no secret in a problem");
  assert.match(problemOf({ traceHeaders: { "a b": "x" } }), /traceHeaders/);
});

test("[SEC1] config: an address that every network reaches: refused while any caller is a client, unless said twice", () => {
  const server = z.strictObject(serverShape).superRefine(checkServer);
  const problemsOf = (...argv: string[]): readonly string[] => {
    const loaded = loadConfig({ name: "app", schema: server, argv, env: {}, readFile: () => "pem" });
    return loaded.kind === "invalid" ? loaded.problems : [];
  };
  const pair = ["--tls-certificate-file", "c", "--tls-key-file", "k"];
  for (const address of ["0.0.0.0:7100", "0:7100", "[::]:7100", ":::7100", "[::0]:7100", "[::ffff:0.0.0.0]:7100", "*:7100"]) {
    assert.match(problemsOf("--listen-address", address).join(), /set clientToken or tlsClientCaFile, or say openToAll/);
    assert.match(problemsOf("--listen-address", address, ...pair).join(), /openToAll/);
    assert.deepEqual(problemsOf("--listen-address", address, "--client-token", "t"), []);
    assert.deepEqual(problemsOf("--listen-address", address, ...pair, "--tls-client-ca-file", "a"), []);
    assert.deepEqual(problemsOf("--listen-address", address, "--open-to-all"), []);
  }
  for (const address of ["127.0.0.1:7100", "[::1]:7100", "db.internal:7100", "10.0.0.7:7100"]) {
    assert.deepEqual(problemsOf("--listen-address", address), []);
  }
});

test("[SEC3] config: callers with tokens of their own: their roles and names; what could be confused is refused", () => {
  const server = z.strictObject(serverShape).superRefine(checkServer);
  const read = (callers: readonly object[], ...argv: string[]) =>
    loadConfig({ name: "app", schema: server, argv: ["--callers", JSON.stringify(callers), ...argv], env: {}, readFile: String });
  const ann = { name: "ann", role: "operator", token: "token-of-ann" };
  const good = read([ann], "--operator-token", "for-all-operators");
  assert.ok(good.kind === "config");
  assert.deepEqual(tokensOf(good.config), [{ role: "operator", token: "for-all-operators" }, ann]);
  const problems = (loaded: Loaded<unknown>): string => (loaded.kind === "invalid" ? loaded.problems.join() : "");
  assert.match(problems(read([ann, { ...ann, token: "another-token" }])), /same name/);
  assert.match(problems(read([ann, { ...ann, name: "bob" }])), /also another's/);
  assert.match(problems(read([ann], "--operator-token", ann.token)), /also another's or a role's/);
  assert.match(problems(read([{ ...ann, role: "client" }])), /set clientToken too/);
  assert.equal(problems(read([{ ...ann, role: "client" }], "--client-token", "for-clients")), "");
  assert.match(problems(read([{ ...ann, token: "short" }])), /at least 8/);
});
