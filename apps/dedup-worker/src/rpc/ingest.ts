import type { UnaryHandler } from "@concord/rpc";
import { checkedMessages } from "../ingest/check-message.ts";
import type { IngestResult } from "../ingest/ingest.ts";
import type { Parts } from "../parts.ts";
import type { WireMessage } from "./wire.ts";

interface IngestRequest {
  readonly messages: readonly WireMessage[];
  readonly acknowledge: string;
}

const VERDICTS = {
  accepted: "VERDICT_ACCEPTED",
  duplicate: "VERDICT_DUPLICATE",
  "dead-lettered": "VERDICT_DEAD_LETTERED",
  queued: "VERDICT_QUEUED",
} as const;

/**
 * Ingest (DD1, DD14, DDD12): one durable input record per message, then what became of each. DEADLINE_EXCEEDED and every other error with
 * `applied: unknown`: messages may be on their way; sending the same ids again is harmless.
 */
export function ingestHandler({ ingest, environment }: Parts): UnaryHandler {
  return async (request: IngestRequest, context) => {
    const messages = checkedMessages(request.messages, environment.clock.nowMs());
    const acknowledge = request.acknowledge === "ACKNOWLEDGE_INPUT" ? "input" : "output";
    const results = await ingest().ingest(messages, acknowledge, context.signal);
    return { results: results.map(resultToWire) };
  };
}

function resultToWire({ verdict, partition, offset, id }: IngestResult): object {
  return { verdict: VERDICTS[verdict], partition, offset: offset ?? -1n, id };
}
