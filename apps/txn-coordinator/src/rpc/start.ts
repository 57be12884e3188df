import type { TransactionService } from "@concord/protos-txn";
import { rowToWire } from "@concord/rows-wire";
import type { AnswerOf, Handler } from "@concord/rpc";
import { ConcordError, type Epoch } from "@concord/runtime";
import { groupIdOf, type SchemaCatalogue } from "@concord/schema";
import type { StartAnswer } from "@concord/transactions";
import type { Context } from "../context.ts";
import { ANSWER_MARGIN_MS, QUEUED_OPEN_MS_MAX } from "../limits.ts";
import { catalogueFor } from "./in-transaction.ts";
import { callFromWire, checkedKey, modeFromWire, tablesOfKeys, type CallFromWire } from "./wire.ts";

/** Start (TX25): the row's token picks the group. NOT_MASTER, SCHEMA_BEHIND, CLOCK_SKEW, TRANSACTION_EXPIRED, LOCK_TIMEOUT ... */
export function startHandler(coordinator: Context): Handler<TransactionService, "Start"> {
  return (request, context) => {
    const call = callFromWire(request.operation, context, coordinator);
    const start = (catalogue: SchemaCatalogue): Answer | Promise<Answer> => {
      const key = checkedKey(request.key, catalogue);
      if (request.queueMs > 0) return queued(coordinator, call, groupIdOf(coordinator.groups.map, key), request.queueMs);
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

/** What a transaction's start answers, or the group that is served here now. */
type Answer = StartAnswer | { readonly row: undefined; readonly group: string; readonly epoch: Epoch; readonly queued: true };

/** TX19, TXD8: waits until this coordinator serves the group, and takes no lock then either. NOT_MASTER, STARTING when it does not in time. */
async function queued({ groups, environment }: Context, call: CallFromWire, group: string, forMs: number): Promise<Answer> {
  const leftMs = call.deadlineAtMs - environment.clock.monotonicMs() - ANSWER_MARGIN_MS;
  const waitMs = Math.min(forMs, QUEUED_OPEN_MS_MAX, leftMs);
  const mustWait = groups.epochOf(group) === undefined && waitMs > 0;
  if (mustWait) call.onWait?.();
  const outcome = mustWait ? await groups.queued.wait({ group, id: call.id, identity: call.owner.identity }, waitMs) : "served";
  if (outcome === "withdrawn") throw new ConcordError("TRANSACTION_ABORTED", "the queued start was withdrawn by its client");
  const epoch = groups.epochOf(group);
  if (epoch !== undefined) return { row: undefined, group, epoch, queued: true };
  groups.groupById(group);
  throw new ConcordError("STARTING", `group ${group} is not served here yet; try again`);
}

function answerToWire(answer: Answer): AnswerOf<TransactionService, "Start"> {
  const { row, group, epoch } = answer;
  return { row: row === undefined ? undefined : rowToWire(row), group, epoch, queued: "queued" in answer };
}

/** Later operations wait until the transaction has its place, not until its row is locked. */
async function startLater(
  coordinator: Context,
  id: Parameters<Context["groups"]["opening"]>[0],
  catalogue: Promise<SchemaCatalogue>,
  start: (catalogue: SchemaCatalogue) => Answer | Promise<Answer>,
): Promise<Answer> {
  const placed = coordinator.groups.opening(
    id,
    catalogue.then((known) => ({ answer: start(known) })),
  );
  return (await placed).answer;
}
