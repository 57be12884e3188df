import { checkServer, serverShape, z } from "@concord/config";
import { dedupWorkerSchema } from "@concord/dedup-worker";
import { objectGatewaySchema } from "@concord/object-gateway";
import { storageProxySchema } from "@concord/storage-proxy";
import { txnCoordinatorSchema } from "@concord/txn-coordinator";
import { PART_SCHEMAS, partValues, type PartName, type SharedConfig } from "./part-configs.ts";

const node = z.strictObject({
  name: z.string().min(1).max(64),
  address: z.string().regex(/^.+:\d+$/, "expected host:port"),
  datacenter: z.string().min(1).max(64).default("local"),
});

const { dataStoreFolder, metadata } = objectGatewaySchema.shape;
const { logFolder } = dedupWorkerSchema.shape;
const { groupCount } = txnCoordinatorSchema.shape;

/** The keys of the four parts that do not follow from others: see `partValues`. */
const PART_SHAPES = {
  ...z.object(storageProxySchema.shape).omit({ nodeName: true, ring: true, schemaAuthority: true }).shape,
  ...z.object(txnCoordinatorSchema.shape).omit({ coordinators: true, storageProxies: true }).shape,
  ...z.object(objectGatewaySchema.shape).omit({ coordinators: true, storageProxies: true, transactionToken: true, dedupWorkerToken: true })
    .shape,
  ...z.object(dedupWorkerSchema.shape).omit({
    snowflakeWorkerId: true,
    workers: true,
    workerToken: true,
    snapshotEndpoint: true,
    snapshotRegion: true,
    snapshotAccessKeyId: true,
    snapshotSecretAccessKey: true,
  }).shape,
};

const SHAPE = {
  ...PART_SHAPES,
  ...serverShape,
  snowflakeWorkerId: txnCoordinatorSchema.shape.snowflakeWorkerId,
  groupCount: groupCount
    .unwrap()
    .default(3)
    .describe(
      "transaction groups, counted once, when the data folder is first used: the fewer, the more commits share a flush. Three are one for each node of three; a node alone has as many, so that a program meets GROUP_MISMATCH there already",
    ),
  nodeName: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected 1 to 64 letters, digits, -, _ or .")
    .default("concord")
    .describe("this node's name, unlike any other's"),
  datacenter: z.string().min(1).max(64).default("local").describe("where this node stands"),
  dataFolder: z.string().min(1).default("./.concord/concord").describe("folder of everything this node keeps; one process at a time"),
  nodes: z
    .array(node)
    .default([])
    .describe(
      "all nodes with name, address and datacenter, this one included; 1 or 3, for ever. Each keeps all rows and is the master of its share of the groups. Empty = this one alone",
    ),
  metadata: metadata.describe(
    "where rows of objects are: in dataFolder (buckets of this node), in transactions (buckets of all nodes), or in the storage itself (the same; backend cassandra)",
  ),
  dataStoreFolder: dataStoreFolder.describe("folder of the objects' data, shared by nodes that share buckets; default in dataFolder"),
  logFolder: logFolder.describe(
    "folder of the messages' logs, shared by all nodes: each owns its share of the partitions. Default in dataFolder: each node has messages of its own",
  ),
};

export type ConcordConfig = z.output<z.ZodObject<typeof SHAPE>>;

/** Every key of the one program: those of its four parts, and once what they have in common. */
export const concordSchema = z
  .strictObject(SHAPE)
  .superRefine(checkServer)
  .superRefine((config, context) => {
    const refuse = (key: string, message: string): void => context.addIssue({ code: "custom", path: [key], message });
    const problems = nodeProblems(config);
    for (const [key, message] of problems) refuse(key, message);
    if (problems.length === 0) for (const [key, message] of partProblems(config)) refuse(key, message);
  });

type Problem = readonly [key: string, message: string];

function nodeProblems(config: ConcordConfig): readonly Problem[] {
  const { nodes, nodeName, peerToken, coordinatorToken } = config;
  const names = new Set(nodes.map(({ name }) => name));
  const problems: Problem[] = [];
  if (nodes.length !== 0 && nodes.length !== 1 && nodes.length !== 3)
    problems.push(["nodes", `there are 1 or 3 nodes, not ${nodes.length}`]);
  else if (names.size !== nodes.length) problems.push(["nodes", "two have the same name"]);
  else if (nodes.length > 0 && !names.has(nodeName))
    problems.push(["nodes", `this one, ${nodeName}, is not among ${[...names].join(", ")}`]);
  if (config.metadata === "storage" && config.backend === "ring")
    problems.push(["metadata", "storage needs backend cassandra; on the ring transactions keep rows of objects"]);
  if (nodes.length < 2) return problems;
  for (const [key, token] of Object.entries({ peerToken, coordinatorToken })) {
    if (token === undefined) problems.push([key, "several nodes trust each other by it"]);
  }
  if (config.metadata !== "local" && config.objects === "filesystem" && config.dataStoreFolder === undefined) {
    problems.push(["dataStoreFolder", "nodes that share buckets share the folder of the objects' data too, or a pool: objects rados"]);
  }
  return problems;
}

/** What the parts refuse in keys of theirs; each key once, as several parts may have it. */
function partProblems(config: SharedConfig): ReadonlyMap<string, string> {
  const problems = new Map<string, string>();
  for (const [part, schema] of Object.entries(PART_SCHEMAS)) {
    const issues = schema.safeParse(partValues(part as PartName, config)).error?.issues ?? [];
    for (const { path, message } of issues) problems.set(String(path[0]), message);
  }
  return problems;
}
