/** proto <-> domain of this service. What does not fit is MALFORMED_REQUEST. */
import { readOrigin } from "@concord/dedup";
import type { LogMessage, LogTopic, MessageHeader } from "@concord/ports";
import { ConcordError } from "@concord/runtime";

export interface WireHeader {
  readonly name: string;
  readonly value: Uint8Array;
}

export interface WireMessage {
  readonly id: string;
  readonly value: Uint8Array;
  readonly key: Uint8Array;
  readonly headers: readonly WireHeader[];
  readonly timestampMs: bigint;
}

/** A message on its way out. */
export interface WireLogMessage {
  readonly offset: bigint;
  readonly id: string;
  readonly value: Uint8Array;
  readonly key: Uint8Array;
  readonly headers: readonly MessageHeader[];
  readonly timestampMs: bigint;
}

export function topicFromWire(topic: string): LogTopic {
  return topic === "TOPIC_DEAD_LETTERS" ? "dead-letters" : "output";
}

export function messageToWire(message: LogMessage): WireLogMessage {
  const { offset, value, key, headers, timestampMs } = message;
  const id = readOrigin(message)?.id;
  return { offset, id: id === undefined ? "" : new TextDecoder().decode(id), value, key, headers, timestampMs: BigInt(timestampMs) };
}

/** Not below the encoded size: tags, lengths and numbers at their largest. */
export function wireBytes({ id, value, key, headers }: WireLogMessage): number {
  return headers.reduce(
    (sum, header) => sum + 3 * header.name.length + header.value.length + 16,
    3 * id.length + value.length + key.length + 48,
  );
}

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

export function checkLimit(value: number, most: number, limit: string, what: string): void {
  if (value <= most) return;
  throw new ConcordError("LIMIT_EXCEEDED", `${what}: ${value}, at most ${most}`, { metadata: { limit, value: String(most) } });
}
