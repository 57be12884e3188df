import type { AssertionFault } from "./assertion-fault.ts";

type Seed = readonly [message: string, file: string, search: string, replace: string, test: string];

const EXECUTE = "execute-batch";
const LANE = "holder-lane";
const LOG = "batch-log";
const REPLAY = "replay";

const SEEDS: readonly Seed[] = [
  [
    "two holders are two nodes",
    "batch-node",
    "return [...others.map((node) => node.name), ring.self];",
    "return [ring.self, ...others.map((node) => node.name), ring.self];",
    EXECUTE,
  ],
  ["LB15: the entry is the whole batch", "batch-runs", "    mutations: encoded,\n", "    mutations: encoded.slice(1),\n", EXECUTE],
  ["every loaded row is of a batch that is merged", "batch-log", "(at += rows.names.length)", "at + rows.names.length", LOG],
  ["what is counted is held", "batch-log", "    if (held !== undefined) this.#bytes -= held.bytes;\n", "", LOG],
  [
    "a read waits for every decision",
    "replay",
    "    this.#waiting.set(held, wait);\n    return wait;\n",
    "    this.#waiting.set(held, wait);\n    return Promise.resolve();\n",
    REPLAY,
  ],
  ["a decision leaves without another entry", "holder-lane", "      else this.#flushWithin(DECISION_DELAY_MS);\n", "", EXECUTE],
  ["a removal leaves without another entry", "holder-lane", "    this.#flushWithin(REMOVAL_DELAY_MS);\n", "", EXECUTE],
  [
    "a call takes at least one of what waits",
    "holder-lane",
    "count < LOG_CALL_ENTRIES_MAX && bytes < CALL_BYTES_TARGET",
    "count < LOG_CALL_ENTRIES_MAX && bytes < 0",
    EXECUTE,
  ],
  ["a batch runs once at a time (LB4)", "batch-runs", '      if (known.state.kind !== "failed") return known.state.result;\n', "", EXECUTE],
  [
    "runs follow each other",
    "replay",
    "#timer: Timer | undefined;\n  #run:",
    "#timer: Timer | undefined = { cancel: () => undefined };\n  #run:",
    REPLAY,
  ],
  [
    "only nodes of the ring confirm",
    "replay",
    "      pending.confirmed.add(node.name);\n",
    '      pending.confirmed.add(node.name).add("b").add("c").add("d").add("e");\n',
    REPLAY,
  ],
  [
    "a batch is undecided once",
    "batch-log",
    "    this.#undecided.add(summary, rows.names);\n",
    "    this.#undecided.add(summary, rows.names);\n    this.#undecided.add(summary, rows.names);\n",
    LOG,
  ],
  [
    "a row knows the undecided batches that write it",
    "undecided-rows",
    "if (batches === undefined) this.#byRow.set(name, [batch]);",
    "if (batches === undefined) this.#byRow.set(name, []);",
    LOG,
  ],
  [
    "readers wait for undecided batches alone",
    "undecided-rows",
    "      if (batches.length === 1) this.#byRow.delete(name);\n      else batches.splice(at, 1);\n",
    "      batches.splice(at, 1);\n",
    LOG,
  ],
  ["what is decided is held", "batch-log", "this.#decide(held, effects", "this.#decide({ ...held }, effects", LOG],
  ["what a read waits for is held", "batch-log", "    if (held !== undefined) this.#release(held);\n", "", LOG],
  [
    "a decision does not wait as long as a removal",
    "holder-lane",
    "this.#timer === undefined || this.#timer.dueAtMs > dueAtMs",
    "this.#timer === undefined",
    LANE,
  ],
  ["no decision or removal waits in a stopped lane", "holder-lane", "    this.#isStopped = true;\n    this.#flush();\n", "", LANE],
  [
    "a holder refuses no call for its size",
    "holder-lane",
    "count < waiting.length && count < LOG_CALL_ENTRIES_MAX && bytes",
    "count < waiting.length && bytes",
    LANE,
  ],
  [
    "each replica has the rows, or a hint, before the entry goes",
    "execute-batch",
    "  if (!areHinted.every(Boolean)) return;\n",
    "",
    EXECUTE,
  ],
  [
    "a batch is not logged only when no node may have it",
    "execute-batch",
    'acks.acked === 0 && acks.outstanding === 0 && acks.failures.every((failure) => failure.applied === "no")',
    "acks.failures.length > 0",
    EXECUTE,
  ],
  [
    "the coordinator is the last to replay",
    "batch-node",
    "return [...others.map((node) => node.name), ring.self];",
    "return [ring.self, ...others.map((node) => node.name)];",
    EXECUTE,
  ],
  [
    "each node has a lane of its own",
    "batch-executor",
    "        return [node.name, new HolderLane",
    "        return [this.#ring.self, new HolderLane",
    EXECUTE,
  ],
  [
    "a result is of its batch",
    "execute-batch",
    "return { id, timestampUs, holders: log.confirmed };",
    "return { id, timestampUs: 0n as never, holders: log.confirmed };",
    EXECUTE,
  ],
];

export const LOGGED_BATCH_FAULTS: readonly AssertionFault[] = SEEDS.map(([message, file, search, replace, test]) => ({
  message,
  file: `libs/logged-batch/src/${file}.ts`,
  search,
  replace,
  test: `libs/logged-batch/src/${test}.test.ts`,
}));
