import type { TransactionService } from "@concord/protos-txn";
import { rowToWire } from "@concord/rows-wire";
import type { AnswerOf, Handler } from "@concord/rpc";
import type { SchemaCatalogue } from "@concord/schema";
import type { StartAnswer } from "@concord/transactions";
import type { Context } from "../context.ts";
import { catalogueFor } from "./in-transaction.ts";
import { callFromWire, checkedKey, modeFromWire, tablesOfKeys } from "./wire.ts";

/** Start (TX25): the row's token picks the group. NOT_MASTER, SCHEMA_BEHIND, CLOCK_SKEW, TRANSACTION_EXPIRED, LOCK_TIMEOUT ... */
export function startHandler(coordinator: Context): Handler<TransactionService, "Start"> {
  return (request, context) => {
    const call = callFromWire(request.operation, context, coordinator);
    const start = (catalogue: SchemaCatalogue): StartAnswer | Promise<StartAnswer> => {
      const key = checkedKey(request.key, catalogue);
      return coordinator.groups
        .groupOf(key, request.groupMapVersion)
        .serving()
        .start(call, {
          key,
          mode: modeFromWire(request.mode),
          read: request.skipRead ? "skip" : "read",
          firstStartMs: request.firstStartMs > 0n ? Number(request.firstStartMs) : undefined,
          lifetimeMs: request.lifetimeMs > 0 ? request.lifetimeMs : undefined,
        });
    };
    const catalogue = catalogueFor(coordinator, tablesOfKeys([request.key]), request.schemaVersion);
    const answer = catalogue instanceof Promise ? startLater(coordinator, call.id, catalogue, start) : start(catalogue);
    return answer instanceof Promise ? answer.then(answerToWire) : answerToWire(answer);
  };
}

function answerToWire({ row, group, epoch }: StartAnswer): AnswerOf<TransactionService, "Start"> {
  return { row: row === undefined ? undefined : rowToWire(row), group, epoch };
}

/** Later operations wait until the transaction has its place, not until its row is locked. */
async function startLater(
  coordinator: Context,
  id: Parameters<Context["groups"]["opening"]>[0],
  catalogue: Promise<SchemaCatalogue>,
  start: (catalogue: SchemaCatalogue) => StartAnswer | Promise<StartAnswer>,
): Promise<StartAnswer> {
  const placed = coordinator.groups.opening(
    id,
    catalogue.then((known) => ({ answer: start(known) })),
  );
  return (await placed).answer;
}
