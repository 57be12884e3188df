import { serverShape, z } from "@concord/config";
import { ringProblem, ringShape } from "./ring/ring-shape.ts";

const milliseconds = (text: string, standard: number): z.ZodDefault<z.ZodNumber> =>
  z.number().int().min(1).default(standard).describe(text);

/** Every key of a storage-proxy. */
export const storageProxySchema = z
  .strictObject({
    ...serverShape,
    nodeName: z.string().min(1).max(64).default("storage-proxy").describe("this node's name in the ring"),
    datacenter: z.string().min(1).max(64).default("local").describe("where this node stands"),
    dataFolder: z.string().min(1).default("./.concord/storage-proxy").describe("folder of this node's store"),
    ring: ringShape,
    schemaAuthority: z
      .enum(["ring", "coordinator"])
      .default("ring")
      .describe("who creates tables: this ring (plain tables) or a txn-coordinator"),
    readTimeoutMs: milliseconds("longest wait for a quorum of reads", 2000),
    writeTimeoutMs: milliseconds("longest wait for a quorum of writes", 2000),
    batchGraceMs: z.number().int().min(1).optional().describe("age at which a logged batch counts as orphaned; default 2 x writeTimeoutMs"),
    batchReplayIntervalMs: milliseconds("pause between looks through the batchlog", 10_000),
    outcomeRetentionMs: milliseconds("how long outcomes of transactions are kept", 900_000),
  })
  .superRefine((config, context) => {
    const problem = ringProblem(config.ring, config.nodeName);
    if (problem !== undefined) context.addIssue({ code: "custom", path: ["ring"], message: problem });
    if (config.ring.length > 1 && config.peerToken === undefined) {
      context.addIssue({ code: "custom", path: ["peerToken"], message: "a ring of 3 needs a peerToken: its nodes trust each other by it" });
    }
  });

export type StorageProxyConfig = z.output<typeof storageProxySchema>;
