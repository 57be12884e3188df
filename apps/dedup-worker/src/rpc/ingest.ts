import type { IngestResultInit, IngestService } from "@concord/protos-dedup";
import type { Handler } from "@concord/rpc";
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
 * `applied: unknown`: messages may be on their way; sending the same ids again is harmless.
 */
export function ingestHandler({ ingest, environment }: Context): Handler<IngestService, "Ingest"> {
  return async (request, context) => {
    const messages = checkedMessages(request.messages, environment.clock.nowMs());
    const acknowledge = request.acknowledge === "ACKNOWLEDGE_INPUT" ? "input" : "output";
    const results = await ingest().ingest(messages, acknowledge, context.signal);
    return { results: results.map(resultToWire) };
  };
}

function resultToWire({ status, partition, offset, id }: IngestResult): IngestResultInit {
  return { verdict: STATUSES[status], partition, offset: offset ?? -1n, id };
}
