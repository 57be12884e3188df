/** proto <-> domain of this service. What does not fit is MALFORMED_REQUEST. */
import { readOrigin } from "@concord/dedup";
import type { LogMessage, LogTopic, MessageHeader } from "@concord/ports";
import type { Header, LogMessage as WireMessage, Topic } from "@concord/protos-dedup";
import { ConcordError } from "@concord/runtime";

const NO_BYTES = new Uint8Array(0);

/** A key and a value as messages of both directions have them. */
interface WireContent {
  readonly key: Uint8Array;
  readonly emptyKey: boolean;
  readonly value: Uint8Array;
  readonly nullValue: boolean;
}

export function contentToWire(key: Uint8Array | null, value: Uint8Array | null): WireContent {
  return { key: key ?? NO_BYTES, emptyKey: key?.length === 0, value: value ?? NO_BYTES, nullValue: value === null };
}

export function headerToWire({ name, value }: MessageHeader): Header {
  return { name, value: value ?? NO_BYTES, nullValue: value === null };
}

/** An empty key without a word about it is none: producers from before `empty_key` send it so. */
export function keyFromWire({ key, emptyKey }: Pick<WireContent, "key" | "emptyKey">, what: string): Uint8Array | null {
  if (emptyKey && key.length > 0) throw malformed(`${what} has a key of ${key.length} bytes and empty_key`);
  return key.length === 0 && !emptyKey ? null : key;
}

export function valueFromWire({ value, nullValue }: Pick<WireContent, "value" | "nullValue">, what: string): Uint8Array | null {
  if (nullValue && value.length > 0) throw malformed(`${what} has a value of ${value.length} bytes and null_value`);
  return nullValue ? null : value;
}

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
    ...contentToWire(key, value),
    headers: headers.map(headerToWire),
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
