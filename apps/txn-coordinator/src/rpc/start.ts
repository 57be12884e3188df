import { rowToWire, type WireRowKey } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import type { SchemaCatalogue } from "@concord/schema";
import type { StartAnswer } from "@concord/transactions";
import type { Parts } from "../parts.ts";
import { catalogueFor } from "./in-transaction.ts";
import { callFromWire, checkedKey, modeFromWire, tablesOfKeys, type WireOperation } from "./wire.ts";

interface StartRequest {
  readonly operation: WireOperation | null;
  readonly key: WireRowKey | null;
  readonly mode: string;
  readonly firstStartMs: bigint;
  readonly groupMapVersion: bigint;
  readonly schemaVersion: bigint;
  readonly skipRead: boolean;
  readonly lifetimeMs: number;
}

/** Start (TX25): the row's token picks the group. NOT_MASTER, SCHEMA_BEHIND, CLOCK_SKEW, TRANSACTION_EXPIRED, LOCK_TIMEOUT ... */
export function startHandler(parts: Parts): UnaryHandler {
  return async (request: StartRequest, context) => {
    const call = callFromWire(request.operation, context, parts);
    const start = (catalogue: SchemaCatalogue): Promise<StartAnswer> => {
      const key = checkedKey(request.key, catalogue);
      return parts.groups.groupOf(key, request.groupMapVersion).startTransaction(call, {
        key,
        mode: modeFromWire(request.mode),
        read: request.skipRead ? "skip" : "read",
        firstStartMs: request.firstStartMs > 0n ? Number(request.firstStartMs) : undefined,
        lifetimeMs: request.lifetimeMs > 0 ? request.lifetimeMs : undefined,
      });
    };
    const catalogue = catalogueFor(parts, tablesOfKeys([request.key]), request.schemaVersion);
    const { row, group, epoch } = await (catalogue instanceof Promise ? startLater(parts, call.id, catalogue, start) : start(catalogue));
    return { ...(row === undefined ? {} : { row: rowToWire(row) }), group, epoch };
  };
}

/** Later operations wait until the transaction has its place, not until its row is locked. */
async function startLater(
  parts: Parts,
  id: Parameters<Parts["groups"]["opening"]>[0],
  catalogue: Promise<SchemaCatalogue>,
  start: (catalogue: SchemaCatalogue) => Promise<StartAnswer>,
): Promise<StartAnswer> {
  const placed = parts.groups.opening(
    id,
    catalogue.then((known) => ({ answer: start(known) })),
  );
  return (await placed).answer;
}
