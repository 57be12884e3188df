import type { IngestResultInit, IngestService, IngestResult as WireResult } from "@concord/protos-dedup";
import { remainingMs, type Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { checkedMessages } from "../ingest/check-message.ts";
import type { IngestResult } from "../ingest/ingest.ts";
import type { Context } from "../context.ts";

const STATUSES = {
  accepted: "VERDICT_ACCEPTED",
  duplicate: "VERDICT_DUPLICATE",
  "dead-lettered": "VERDICT_DEAD_LETTERED",
  queued: "VERDICT_QUEUED",
} as const;

/**
 * Ingest (DD1, DD14, DDD12): one durable input record per message, then what became of each. DEADLINE_EXCEEDED and every other error with
 * `applied: unknown`: messages may be on their way; sending the same ids again is harmless. Messages of a partition that another worker owns
 * are passed on to it. MALFORMED_REQUEST and PERMISSION_DENIED: a source of ids that the caller may not use (DDD13).
 */
export function ingestHandler({ ingest, environment, sources }: Context): Handler<IngestService, "Ingest"> {
  return async (request, context) => {
    const source = sources.sourceFor(context.caller, request.source, request.forwarded);
    const messages = checkedMessages(request.messages, environment.clock.nowMs());
    const acknowledge = request.acknowledge === "ACKNOWLEDGE_INPUT" ? "input" : "output";
    const { signal } = context;
    const timeoutMs = remainingMs(context, environment.clock);
    const call = { signal, timeoutMs, source, isForwarded: request.forwarded, span: context.span };
    const results = await ingest().ingest(messages, acknowledge, call);
    return { results: results.map(resultToWire) };
  };
}

const RESULTS: Readonly<Record<string, IngestResult["status"]>> = {
  VERDICT_ACCEPTED: "accepted",
  VERDICT_DUPLICATE: "duplicate",
  VERDICT_DEAD_LETTERED: "dead-lettered",
  VERDICT_QUEUED: "queued",
};

/** What another worker answered. */
export function resultFromWire(result: WireResult): IngestResult {
  const { partition, offset, id } = result;
  const status = RESULTS[result.verdict];
  if (status === undefined) throw new ConcordError("INTERNAL", `another worker answered ${result.verdict}: it has another version`);
  return { status, partition, offset: offset < 0n ? undefined : offset, id };
}

function resultToWire({ status, partition, offset, id }: IngestResult): IngestResultInit {
  return { verdict: STATUSES[status], partition, offset: offset ?? -1n, id };
}
