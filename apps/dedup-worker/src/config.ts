import { checkServer, diskShape, secret, serverShape, z } from "@concord/config";
import { memberShape } from "@concord/member-lists";
import { SNAPSHOT_EVERY_MS_MIN, SNAPSHOTS_KEPT_MAX } from "@concord/dedup";
import { WORKER_ID_MAX } from "@concord/snowflake";
import { ID_SOURCE_PATTERN } from "./ingest/id-source.ts";
import {
  OUTPUT_BYTES_MIN,
  OUTPUT_BYTES_PER_ID,
  PARTITIONS_MAX,
  SOURCE_PATTERN,
  SOURCES_MAX,
  WINDOW_IDS_MAX,
  WINDOW_IDS_MIN,
  WORKERS_MAX,
} from "./limits.ts";

const kafkaName = (kind: string): z.ZodString => z.string().regex(/^[a-zA-Z0-9._-]{1,200}$/, `expected the name of a Kafka ${kind}`);
/** "" reserves ids without a source. */
const source = z.strictObject({
  name: z.union([z.literal(""), z.string().regex(SOURCE_PATTERN, "expected 1 to 64 letters, digits, -, _, . or @")]),
  callers: z.array(z.string().min(1)).min(1).max(SOURCES_MAX),
});
const topic = (name: string, text: string, kind = "topic"): z.ZodDefault<z.ZodString> => kafkaName(kind).default(name).describe(text);

/** Every key of a dedup-worker. */
export const dedupWorkerSchema = z
  .strictObject({
    ...serverShape,
    ...diskShape,
    nodeName: z.string().min(1).max(64).default("dedup-worker").describe("this worker's name"),
    dataFolder: z.string().min(1).default("./.concord/dedup-worker").describe("folder of the logs and the window; one process at a time"),
    partitions: z
      .number()
      .int()
      .min(1)
      .max(PARTITIONS_MAX)
      .default(4)
      .describe("partitions of input and output; fixed when the data folder is made, since an id's partition follows from it"),
    workers: z
      .array(memberShape)
      .max(WORKERS_MAX)
      .default([])
      .describe(
        "the workers that share a log as they first were, with name, address and datacenter, the same at each; empty = this one alone. Each owns its share of the partitions; another one goes on when it dies. Where the list was changed since, the changed one counts; one that is not in it waits until it is added",
      ),
    logFolder: z
      .string()
      .min(1)
      .optional()
      .describe("folder of input, output and dead letters that the workers share; default in dataFolder, for one worker"),
    workerToken: secret(z.string().min(1)).optional().describe("secret of the workers among themselves: signs their heartbeats"),
    log: z
      .enum(["embedded", "kafka"])
      .default("embedded")
      .describe("where input, output and dead letters are: in the data folder, or in three topics of Kafka"),
    kafkaBrokers: z
      .array(z.string().regex(/^.+:\d+$/, "expected host:port"))
      .default([])
      .describe("brokers to begin with, host:port"),
    kafkaInputTopic: topic("concord-input", "what producers append to"),
    kafkaOutputTopic: topic("concord-output", "each message once; written by this pipeline alone, to be read committed"),
    kafkaDeadLettersTopic: topic("concord-dead-letters", "what cannot be processed"),
    kafkaWorkersTopic: kafkaName("topic")
      .optional()
      .describe(
        "one partition, kept for ever: versions of the list of workers; left out = the configured workers, for as long as they run",
      ),
    kafkaPipeline: topic(
      "concord-dedup",
      "group of the committed offsets, and beginning of the transactional ids: one pipeline, one name",
      "name",
    ),
    kafkaMode: z
      .enum(["transactional", "single-owner"])
      .default("transactional")
      .describe(
        "output, dead letters and offset in one transaction; or one after the other, with less latency, by a producer that a newer owner fences",
      ),
    kafkaReplicasMin: z
      .number()
      .int()
      .min(1)
      .max(9)
      .default(3)
      .describe("replicas that each topic must have; below 3 for tests and trials"),
    kafkaTls: z.boolean().default(false).describe("connect to the brokers by TLS; kafkaTlsCaFile turns it on too"),
    kafkaTlsCaFile: z.string().optional().describe("PEM file: authority of the brokers' certificates"),
    kafkaSasl: z.enum(["plain", "scram-sha-256", "scram-sha-512"]).default("scram-sha-512").describe("how kafkaUser logs in"),
    kafkaUser: z.string().min(1).optional().describe("name to log in with at the brokers; left out = no log-in"),
    kafkaPassword: secret(z.string().min(1)).optional().describe("password of kafkaUser"),
    windowIdsMax: z
      .number()
      .int()
      .min(WINDOW_IDS_MIN)
      .max(WINDOW_IDS_MAX)
      .default(4_000_000)
      .describe("ids a partition remembers, oldest forgotten first; 16 bytes on disk and 2 to 8 in memory each"),
    windowMaxAgeMs: z
      .number()
      .int()
      .min(0)
      .default(28 * 86_400_000)
      .describe("ids older than this are forgotten; 0 = only windowIdsMax counts"),
    outputRetentionMs: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe(
        "output older than this is removed, by whole segments; left out = by outputRetentionBytes alone. Not below windowMaxAgeMs: the window is rebuilt from it",
      ),
    outputRetentionBytes: z
      .number()
      .int()
      .min(64 * 1024 * 1024)
      .optional()
      .describe(
        "bytes of a partition's output that are kept, older output is removed; left out = 4096 for each of windowIdsMax, at least 256 MiB. What the window needs is never removed: where it needs more, new messages are refused (dedup_output_full)",
      ),
    idSource: z
      .string()
      .regex(ID_SOURCE_PATTERN, "expected none, key, content, header:NAME or json:NAME.NAME")
      .default("none")
      .describe(
        "where the id of a message without one is found: none, key, content, header:NAME or json:NAME.NAME; on Kafka also of messages that producers write to the input topic, where the header concord-id counts first",
      ),
    missingId: z
      .enum(["make", "pass", "hash", "dead-letter"])
      .default("make")
      .describe(
        "a message whose id is not found gets a new one (in the input topic of Kafka: PARTITION-OFFSET), is passed on, is known by its content, or goes to the dead letters",
      ),
    sources: z
      .array(source)
      .max(SOURCES_MAX)
      .default([])
      .describe(
        "sources of ids that are for some callers alone, with name and callers (names of the setting callers): equal ids of two sources are two messages. A caller that is named here uses these sources only, any other caller those that are not here; an empty name stands for ids without a source",
      ),
    snapshotsKept: z
      .number()
      .int()
      .min(0)
      .max(SNAPSHOTS_KEPT_MAX)
      .default(0)
      .describe(
        "snapshots of each partition's window that are kept in an object store: a worker without its window begins with the newest; 0 = none, windows are rebuilt from the output",
      ),
    snapshotEveryMs: z
      .number()
      .int()
      .min(SNAPSHOT_EVERY_MS_MIN)
      .max(86_400_000)
      .default(60_000)
      .describe("pause between two snapshots of a window; only segments that are new are uploaded"),
    snapshotBucket: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, "expected a bucket's name: 3 to 63 small letters, digits, - or .")
      .default("concord-snapshots")
      .describe("bucket of the snapshots, made when there is none; it holds the key of the ids' hash: private, of one pipeline alone"),
    snapshotEndpoint: z
      .string()
      .regex(/^https?:\/\/[^/]+:\d+$/, "expected http://HOST:PORT or https://HOST:PORT")
      .optional()
      .describe("S3 endpoint of the snapshots, of an object-gateway for example"),
    snapshotRegion: z.string().min(1).max(64).default("us-east-1").describe("region that requests to snapshotEndpoint are signed for"),
    snapshotAccessKeyId: z.string().min(1).max(128).optional().describe("access key for snapshotEndpoint"),
    snapshotSecretAccessKey: secret(z.string().min(8).max(256)).optional().describe("secret of snapshotAccessKeyId"),
    snowflakeWorkerId: z
      .number()
      .int()
      .min(0)
      .max(WORKER_ID_MAX)
      .default(0)
      .describe("worker id in the ids made here; several workers differ"),
  })
  .superRefine(checkServer)
  .superRefine((config, context) => {
    const refuse = (path: string, message: string): void => context.addIssue({ code: "custom", path: [path], message });
    if (config.log === "kafka" && config.kafkaBrokers.length === 0) refuse("kafkaBrokers", "needs at least one broker when log is kafka");
    if ((config.kafkaUser === undefined) !== (config.kafkaPassword === undefined)) refuse("kafkaPassword", "goes with kafkaUser");
    for (const key of ["outputRetentionMs", "outputRetentionBytes"] as const) {
      if (config.log === "kafka" && config[key] !== undefined)
        refuse(key, "is the embedded log's: on Kafka set retention.ms of the output topic");
    }
    // Producers of the topic do not pass Ingest, which makes ids: every repetition of theirs would come through as a new message.
    if (config.log === "kafka" && config.idSource === "none" && config.missingId === "make")
      refuse(
        "idSource",
        "say where messages that producers write to kafkaInputTopic have their ids: key, json:NAME, content or header:NAME, " +
          "or header:concord-id when all come by Ingest or with that header; or set missingId to what happens to those without that header",
      );
    for (const message of sourceProblems(config)) refuse("sources", message);
    if (config.workers.length > 1) for (const [key, message] of sharingProblems(config)) refuse(key, message);
    const topics = new Set([config.kafkaInputTopic, config.kafkaOutputTopic, config.kafkaDeadLettersTopic]);
    if (topics.size < 3) refuse("kafkaOutputTopic", "input, output and dead letters are three topics");
  })
  .superRefine(({ outputRetentionMs, windowMaxAgeMs }, context) => {
    // DDD10: ids of removed output could not be found again.
    if (outputRetentionMs === undefined || (windowMaxAgeMs > 0 && windowMaxAgeMs <= outputRetentionMs)) return;
    const message = `is below windowMaxAgeMs (${windowMaxAgeMs === 0 ? "no bound" : windowMaxAgeMs}): the window could not be rebuilt from the output`;
    context.addIssue({ code: "custom", path: ["outputRetentionMs"], message });
  });

interface Sourced {
  readonly sources: readonly { readonly name: string; readonly callers: readonly string[] }[];
  readonly callers: readonly { readonly name: string; readonly role: string }[];
}

function sourceProblems({ sources, callers }: Sourced): readonly string[] {
  const names = new Set(sources.map(({ name }) => name));
  const known = new Set(callers.flatMap(({ name, role }) => (role === "client" || role === "operator" ? [name] : [])));
  const unknown = sources.flatMap((one) => one.callers).filter((name) => !known.has(name));
  return [
    ...(names.size === sources.length ? [] : ["two have the same name"]),
    ...[...new Set(unknown)].map((name) => `${name} is no client or operator among callers`),
  ];
}

/** Of the embedded log: bytes of a partition's output that are kept. */
export function outputBytesOf({
  outputRetentionBytes,
  windowIdsMax,
}: Pick<DedupWorkerConfig, "outputRetentionBytes" | "windowIdsMax">): number {
  return outputRetentionBytes ?? Math.max(OUTPUT_BYTES_MIN, windowIdsMax * OUTPUT_BYTES_PER_ID);
}

/** The list of workers may be changed while they run (TX32). */
export function isListed({ log, kafkaWorkersTopic }: Pick<DedupWorkerConfig, "log" | "kafkaWorkersTopic">): boolean {
  return log === "embedded" || kafkaWorkersTopic !== undefined;
}

interface Sharing {
  readonly workers: readonly { readonly name: string }[];
  readonly nodeName: string;
  readonly log: string;
  readonly logFolder?: string | undefined;
  readonly kafkaWorkersTopic?: string | undefined;
}

function sharingProblems({
  workers,
  nodeName,
  log,
  logFolder,
  kafkaWorkersTopic,
}: Sharing): readonly (readonly [key: string, message: string])[] {
  const names = new Set(workers.map(({ name }) => name));
  const problems: [string, string][] = [];
  if (names.size !== workers.length) problems.push(["workers", "two have the same name"]);
  if (log === "kafka" && kafkaWorkersTopic === undefined && !names.has(nodeName))
    problems.push([
      "workers",
      `this one, ${nodeName}, is not among ${[...names].join(", ")}, whose list changes only with kafkaWorkersTopic`,
    ]);
  if (log === "embedded" && logFolder === undefined) problems.push(["logFolder", "several workers share one"]);
  return problems;
}

export type DedupWorkerConfig = z.output<typeof dedupWorkerSchema>;
