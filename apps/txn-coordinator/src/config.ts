import { checkServer, serverShape, z } from "@concord/config";
import { MEMBERS_MAX, MESH_MEMBERS_MAX } from "@concord/failure-detection";
import { memberShape } from "@concord/member-lists";
import { WORKER_ID_MAX } from "@concord/snowflake";
import { ID_LEASE_WORKERS } from "./limits.ts";

const milliseconds = (text: string, standard: number): z.ZodDefault<z.ZodNumber> =>
  z.number().int().min(1).default(standard).describe(text);

/** Every key of a txn-coordinator. */
export const txnCoordinatorSchema = z
  .strictObject({
    ...serverShape,
    nodeName: z.string().min(1).max(64).default("txn-coordinator").describe("this coordinator's name"),
    datacenter: z.string().min(1).max(64).default("local").describe("where this coordinator stands"),
    coordinators: z
      .array(memberShape)
      .max(MEMBERS_MAX)
      .default([])
      .describe(
        "the coordinators as they first were, with name, address and datacenter, the same at each; the first serves the system group. Where the list was changed since, the changed one counts; one that is not in it waits until it is added. Empty = this one alone",
      ),
    storageProxies: z
      .array(memberShape)
      .min(1)
      .describe("the storage-proxies with name, address and datacenter; those of the own datacenter are asked first"),
    groupCount: z
      .number()
      .int()
      .min(1)
      .max(1024)
      .default(6)
      .describe("transaction groups, counted once, when the constellation is first started"),
    masters: z
      .enum(["spread", "together"])
      .default("spread")
      .describe(
        "where the groups' masters are while all coordinators work: spread over them, or together at the first one, which costs less where they share a machine; the same at every coordinator",
      ),
    lockTimeoutMs: milliseconds("longest wait for a lock", 2_000),
    idleTimeoutMs: milliseconds("a transaction without an operation for so long is aborted", 5_000),
    lifetimeMs: milliseconds("longest life of a transaction", 30_000),
    clockSkewMaxMs: milliseconds("how far a client's clock may be off", 5_000),
    outcomeRetentionMs: milliseconds("how long outcomes of transactions are kept", 900_000),
    snowflakeWorkerId: z
      .number()
      .int()
      .min(ID_LEASE_WORKERS)
      .max(WORKER_ID_MAX)
      .optional()
      .describe(`worker id of the id service, ${ID_LEASE_WORKERS} to ${WORKER_ID_MAX}, no other coordinator's; left out = one is leased`),
    storageTimeoutMs: milliseconds("longest wait for one call to the storage-proxies", 3_000),
  })
  .superRefine(checkServer)
  .superRefine(({ coordinators, nodeName, coordinatorToken }, context) => {
    const names = coordinators.map((coordinator) => coordinator.name);
    const refuse = (key: string, message: string): void => context.addIssue({ code: "custom", path: [key], message });
    const mayBeAdded = names.length > 1 && names.length < MESH_MEMBERS_MAX;
    if (names.length > 0 && !names.includes(nodeName) && !mayBeAdded)
      refuse("coordinators", `this one, ${nodeName}, is not among ${names.join(", ")}`);
    if (new Set(names).size !== names.length) refuse("coordinators", "two have the same name");
    if (names.length > 1 && coordinatorToken === undefined) refuse("coordinatorToken", "several coordinators trust each other by it");
  });

export type TxnCoordinatorConfig = z.output<typeof txnCoordinatorSchema>;
