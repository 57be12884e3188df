import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { loadConfig, type Loaded } from "@concord/config";
import { concordSchema, type ConcordConfig } from "./config.ts";
import { partConfigs } from "./part-configs.ts";

const KEYS = [{ accessKeyId: "CONCORD", secretAccessKey: "only-for-tests", tenant: "main" }];
const NODES = ["c", "a", "b"].map((name, at) => ({ name, address: `127.0.0.1:${7101 + at}`, datacenter: `dc${at + 1}` }));
const TOKENS = { peerToken: "peer", coordinatorToken: "coordinator" };

test("config: one access key is enough: a node alone, each part in a folder of its own", () => {
  const parts = partConfigs(
    concordSchema.parse({ accessKeys: KEYS, dataFolder: "/data", listenAddress: "127.0.0.1:7101", clientToken: "t" }),
  );
  assert.deepEqual(
    [parts.storage.dataFolder, parts.objects.dataFolder, parts.messages.dataFolder],
    ["/data/storage", "/data/objects", "/data/messages"],
  );
  assert.deepEqual([parts.storage.ring, parts.transactions.coordinators, parts.storage.schemaAuthority], [[], [], "coordinator"]);
  assert.deepEqual(parts.transactions.storageProxies, [{ name: "concord", address: "127.0.0.1:7101", datacenter: "local" }]);
  assert.deepEqual([parts.objects.coordinators, parts.objects.transactionToken], [["127.0.0.1:7101"], "t"]);
});

test("config: group count: three unless it is said, 0 is refused", () => {
  const [node, shared] = [{ accessKeys: KEYS }, { accessKeys: KEYS, nodes: NODES, ...TOKENS, nodeName: "a" }];
  const counts = [node, shared, { ...shared, groupCount: 12 }].map((one) => partConfigs(concordSchema.parse(one)).transactions.groupCount);
  assert.deepEqual(counts, [3, 3, 12]);
  const refused = concordSchema.safeParse({ ...node, groupCount: 0 }).error?.issues ?? [];
  assert.deepEqual([...new Set(refused.map(({ path }) => path.join(".")))], ["groupCount"]);
});

test("config: three nodes: ring and masters are all of them, each node makes message ids of its own", () => {
  const shared = { accessKeys: KEYS, nodes: NODES, ...TOKENS };
  const parts = NODES.map(({ name }) => partConfigs(concordSchema.parse({ ...shared, nodeName: name })));
  for (const { storage, transactions } of parts) {
    assert.deepEqual([storage.ring, transactions.coordinators, transactions.storageProxies], [NODES, NODES, NODES]);
  }
  assert.deepEqual(
    parts.map(({ messages }) => messages.snowflakeWorkerId),
    [2, 0, 1],
  );
});

test("config: a key of a part: from flags and environment, refused by that part's own rules", () => {
  const load = (...argv: string[]): Loaded<ConcordConfig> =>
    loadConfig({
      name: "concord",
      schema: concordSchema,
      argv,
      env: { CONCORD_ACCESS_KEYS: JSON.stringify(KEYS), CONCORD_LOCK_TIMEOUT_MS: "500" },
      readFile: () => "",
    });
  const loaded = load("--partitions", "8", "--batch-grace-ms", "700");
  assert.ok(loaded.kind === "config");
  const { transactions, messages, storage } = partConfigs(loaded.config);
  assert.deepEqual([transactions.lockTimeoutMs, messages.partitions, storage.batchGraceMs], [500, 8, 700]);
  const refused = load("--longest-request-ms", "10", "--gc-grace-ms", "5", "--output-retention-ms", "1");
  assert.ok(refused.kind === "invalid");
  assert.match(
    refused.problems.join("\n"),
    /--longest-request-ms: is more than gcGraceMs[^]*--output-retention-ms: is below windowMaxAgeMs/,
  );
  assert.equal(load("--help").kind, "help");
});

describe("config: targets of events", () => {
  const shared = { accessKeys: KEYS, nodes: NODES, ...TOKENS, nodeName: "a", clientToken: "t" };
  const targetsOf = (config: object): unknown => partConfigs(concordSchema.parse(config)).objects.eventTargets;
  const all = NODES.map(({ address }) => address);

  test("of one tenant: its own messages, at the nodes that share a log with it", () => {
    const one = partConfigs(concordSchema.parse({ accessKeys: KEYS, listenAddress: "127.0.0.1:7101", clientToken: "t" })).objects;
    assert.deepEqual(one.eventTargets, [{ name: "messages", tenant: "main", workers: ["127.0.0.1:7101"] }]);
    assert.equal(one.dedupWorkerToken, "t");
    assert.deepEqual(targetsOf({ ...shared, logFolder: "/logs" }), [{ name: "messages", tenant: "main", workers: all }]);
    // Each node has buckets and messages of its own.
    assert.deepEqual(targetsOf(shared), [{ name: "messages", tenant: "main", workers: [NODES[1]!.address] }]);
  });

  test("several tenants, or nodes that share buckets but no log: none, until they are configured", () => {
    const others = [...KEYS, { ...KEYS[0]!, accessKeyId: "OTHER", tenant: "other" }];
    assert.deepEqual(targetsOf({ accessKeys: others }), []);
    const target = { name: "q", tenant: "other" };
    const listenAddress = "127.0.0.1:7101";
    assert.deepEqual(targetsOf({ accessKeys: others, listenAddress, eventTargets: [target] }), [{ ...target, workers: [listenAddress] }]);
    const buckets = { ...shared, metadata: "transactions", dataStoreFolder: "/data" };
    assert.deepEqual(targetsOf(buckets), []);
    assert.match(concordSchema.safeParse({ ...buckets, eventTargets: [{ name: "q", tenant: "main" }] }).error!.message, /dedup-workers/);
    const elsewhere = { name: "q", tenant: "main", workers: ["worker:1"] };
    assert.deepEqual(targetsOf({ ...buckets, eventTargets: [elsewhere] }), [elsewhere]);
  });

  test("events are overdue well before the messages forget an id", () => {
    const ageOf = (config: object): number => partConfigs(concordSchema.parse({ accessKeys: KEYS, ...config })).objects.eventsMaxAgeMs;
    assert.deepEqual([ageOf({}), ageOf({ windowMaxAgeMs: 1001 }), ageOf({ eventsMaxAgeMs: 7 })], [604_800_000, 500, 7]);
  });
});

const REFUSED: readonly (readonly [string, object, string])[] = [
  ["no access key", {}, "accessKeys"],
  ["two nodes", { accessKeys: KEYS, ...TOKENS, nodeName: "a", nodes: NODES.slice(1) }, "nodes"],
  ["this node is not among them", { accessKeys: KEYS, ...TOKENS, nodes: NODES }, "nodes"],
  ["two nodes of one name", { accessKeys: KEYS, ...TOKENS, nodeName: "a", nodes: [NODES[1], NODES[1], NODES[2]] }, "nodes"],
  ["three nodes without a peer token", { accessKeys: KEYS, nodeName: "a", nodes: NODES, coordinatorToken: "c" }, "peerToken"],
  ["three nodes without a coordinator token", { accessKeys: KEYS, nodeName: "a", nodes: NODES, peerToken: "p" }, "coordinatorToken"],
  [
    "shared buckets without a shared folder",
    { accessKeys: KEYS, ...TOKENS, nodeName: "a", nodes: NODES, metadata: "transactions" },
    "dataStoreFolder",
  ],
  ["rows of objects in the storage of a ring", { accessKeys: KEYS, metadata: "storage" }, "metadata"],
  ["a key of one service alone", { accessKeys: KEYS, storageProxies: [] }, ""],
];

for (const [what, config, key] of REFUSED) {
  test(`config: ${what}: refused at its key`, () => {
    const issues = concordSchema.safeParse(config).error?.issues ?? [];
    assert.deepEqual(
      issues.map(({ path }) => path.join(".")),
      [key],
    );
  });
}
