/** proto <-> domain of this service. What does not fit is MALFORMED_REQUEST. */
import { readOrigin } from "@concord/dedup";
import type { LogMessage, LogTopic } from "@concord/ports";
import type { LogMessage as WireMessage, Topic } from "@concord/protos-dedup";
import { ConcordError } from "@concord/runtime";

export function topicFromWire(topic: Topic): LogTopic {
  return topic === "TOPIC_DEAD_LETTERS" ? "dead-letters" : "output";
}

export function messageToWire(message: LogMessage): WireMessage {
  const { offset, value, key, headers, timestampMs } = message;
  const origin = readOrigin(message);
  const id = origin?.id;
  return {
    offset,
    id: id === undefined ? "" : new TextDecoder("utf-8", { ignoreBOM: true }).decode(id),
    value,
    key,
    headers,
    timestampMs: BigInt(timestampMs),
    source: origin?.source === undefined ? "" : new TextDecoder().decode(origin.source),
  };
}

/** Not below the encoded size: tags, lengths and numbers at their largest. */
export function wireBytes({ id, value, key, headers, source }: WireMessage): number {
  return headers.reduce(
    (sum, header) => sum + 3 * header.name.length + header.value.length + 16,
    3 * (id.length + source.length) + value.length + key.length + 48,
  );
}

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

export function checkLimit(value: number, most: number, limit: string, what: string): void {
  if (value <= most) return;
  throw new ConcordError("LIMIT_EXCEEDED", `${what}: ${value}, at most ${most}`, { metadata: { limit, value: String(most) } });
}
