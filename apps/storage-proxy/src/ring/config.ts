import { diskShape, z } from "@concord/config";
import { PENDING_ENTRIES_MAX } from "@concord/logged-batch";
import { HINT_BYTES_MAX } from "@concord/repair";

const node = z.strictObject({
  name: z.string().min(1).max(64),
  address: z.string().regex(/^.+:\d+$/, "expected host:port"),
  datacenter: z.string().min(1).max(64).default("local"),
});

/** The keys that only a ring reads. */
export const RING_SHAPE = {
  ...diskShape,
  dataFolder: z.string().min(1).default("./.concord/storage-proxy").describe("folder of this node's store"),
  ring: z
    .array(node)
    .default([])
    .describe("all nodes of the ring with name, address and datacenter, this one included; 1 or 3, for ever; empty = this node alone"),
  batchGraceMs: z.number().int().min(1).optional().describe("age at which a logged batch counts as orphaned; default 2 x writeTimeoutMs"),
  batchReplayIntervalMs: z.number().int().min(1).default(10_000).describe("pause between looks through the batchlog"),
  repairIntervalMs: z
    .number()
    .int()
    .min(1)
    .default(600_000)
    .describe("pause between two comparisons of all plain rows with a peer; one begins at once when a node was away"),
  hintBytesMax: z
    .number()
    .int()
    .min(1024)
    .default(HINT_BYTES_MAX)
    .describe("bytes of hints kept here for one peer that is away; without space for more a comparison of all rows follows its return"),
  batchLogEntriesMax: z
    .number()
    .int()
    .min(10)
    .max(PENDING_ENTRIES_MAX)
    .default(PENDING_ENTRIES_MAX)
    .describe("logged batches that this node keeps until every replica has their rows, a hint or a comparison; one more is OVERLOADED"),
  tombstoneIntervalMs: z
    .number()
    .int()
    .min(1)
    .default(6 * 3600 * 1000)
    .describe("pause before and between passes over all plain rows that drop deletions older than ten days which every node holds"),
};

/** What a ring reads of the configuration. */
export interface RingConfig extends z.output<z.ZodObject<typeof RING_SHAPE>> {
  readonly nodeName: string;
  readonly listenAddress: string;
  readonly writeTimeoutMs: number;
  readonly peerToken?: string | undefined;
}

/** Mistakes in the configuration of a ring: which key, and why. */
export function ringProblems(config: RingConfig): readonly { readonly key: string; readonly message: string }[] {
  const { ring } = config;
  const names = new Set(ring.map((member) => member.name));
  const problems: { key: string; message: string }[] = [];
  const ringIsWrong = (message: string): void => void problems.push({ key: "ring", message });
  if (ring.length !== 0 && ring.length !== 1 && ring.length !== 3) ringIsWrong(`a ring has 1 or 3 nodes, not ${ring.length}`);
  else if (names.size !== ring.length) ringIsWrong("two nodes have the same name");
  else if (ring.length > 0 && !names.has(config.nodeName)) {
    ringIsWrong(`this node, ${config.nodeName}, is not among ${[...names].join(", ")}`);
  }
  if (ring.length > 1 && config.peerToken === undefined) {
    problems.push({ key: "peerToken", message: "a ring of 3 needs a peerToken: its nodes trust each other by it" });
  }
  return problems;
}
