import { checkServer, serverShape, z } from "@concord/config";
import { BACKEND_SHAPES, BACKENDS, DEFAULT_BACKEND } from "./backends.ts";

const milliseconds = (text: string, standard: number): z.ZodDefault<z.ZodNumber> =>
  z.number().int().min(1).default(standard).describe(text);

const backendNames = Object.keys(BACKENDS) as (keyof typeof BACKENDS)[];

/** Every key of a storage-proxy. */
export const storageProxySchema = z
  .strictObject({
    ...serverShape,
    nodeName: z.string().min(1).max(64).default("storage-proxy").describe("this node's name, unlike any other's"),
    datacenter: z.string().min(1).max(64).default("local").describe("where this node stands"),
    backend: z.enum(backendNames).default(DEFAULT_BACKEND).describe("the engine that keeps the data"),
    ...BACKEND_SHAPES,
    schemaAuthority: z
      .enum(["ring", "coordinator"])
      .default("ring")
      .describe('what creates tables: this service ("ring": plain tables) or a txn-coordinator'),
    readTimeoutMs: milliseconds("longest wait for a quorum of reads; large rows have the time of their bytes besides", 2000),
    writeTimeoutMs: milliseconds("longest wait for a quorum of writes", 2000),
    outcomeRetentionMs: milliseconds("how long outcomes of transactions are kept", 900_000),
  })
  .superRefine(checkServer)
  .superRefine((config, context) => {
    for (const { key, message } of BACKENDS[config.backend].problems(config)) context.addIssue({ code: "custom", path: [key], message });
  });

export type StorageProxyConfig = z.output<typeof storageProxySchema>;
