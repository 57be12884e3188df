import type { MessageHeader, NewMessage } from "@concord/ports";
import type { Header, Message } from "@concord/protos-dedup";
import { ConcordError } from "@concord/runtime";
import {
  HEADER_NAME_BYTES_MAX,
  HEADER_VALUE_BYTES_MAX,
  HEADERS_MAX,
  ID_BYTES_MAX,
  INGEST_BYTES_MAX,
  INGEST_MESSAGES_MAX,
  KEY_BYTES_MAX,
  RESERVED_HEADER_PREFIX,
  TIMESTAMP_MS_MAX,
} from "../limits.ts";
import { checkLimit, keyFromWire, malformed, valueFromWire } from "../rpc/wire.ts";

/** A message that may be ingested. */
export interface CheckedMessage extends NewMessage {
  /** Undefined: it came without one. */
  readonly id: Uint8Array | undefined;
  /** Instead of an id that would be made, or of none; undefined: as configured. */
  readonly fallbackId?: Uint8Array;
  readonly bytes: number;
}

/** MALFORMED_REQUEST, LIMIT_EXCEEDED, TIMESTAMP_OUT_OF_RANGE: then no message of the call is taken. */
export function checkedMessages(messages: readonly Message[], nowMs: number): CheckedMessage[] {
  if (messages.length === 0) throw malformed("there are no messages");
  checkLimit(messages.length, INGEST_MESSAGES_MAX, "INGEST_MESSAGES_MAX", "messages");
  let bytes = 0;
  return messages.map((message, at) => {
    const checked = checkedMessage(message, at, nowMs);
    bytes += checked.bytes;
    checkLimit(bytes, INGEST_BYTES_MAX, "INGEST_BYTES_MAX", "bytes of all messages");
    return checked;
  });
}

/** An id's bytes. */
export function checkedId(id: string): Uint8Array {
  const bytes = new TextEncoder().encode(checkedText(id, "the id"));
  checkLimit(bytes.length, ID_BYTES_MAX, "ID_BYTES_MAX", "bytes of an id");
  return bytes;
}

function checkedMessage(message: Message, at: number, nowMs: number): CheckedMessage {
  const { id, fallbackId, headers, timestampMs } = message;
  const key = keyFromWire(message, `message ${at}`);
  const value = valueFromWire(message, `message ${at}`);
  checkLimit(message.key.length, KEY_BYTES_MAX, "KEY_BYTES_MAX", `bytes of the key of message ${at}`);
  checkLimit(headers.length, HEADERS_MAX, "HEADERS_MAX", `headers of message ${at}`);
  if (timestampMs < 0n || timestampMs > TIMESTAMP_MS_MAX) {
    throw new ConcordError("TIMESTAMP_OUT_OF_RANGE", `the timestamp of message ${at} is no time`);
  }
  const idBytes = id === "" ? undefined : checkedId(id);
  const fallback = fallbackId === "" ? {} : { fallbackId: checkedId(fallbackId) };
  const checked = headers.map((header) => checkedHeader(header, at));
  const idsBytes = (idBytes?.length ?? 0) + (fallback.fallbackId?.length ?? 0);
  const bytes = checked.reduce((sum, header) => sum + header.bytes, idsBytes + message.value.length + message.key.length);
  const time = timestampMs === 0n ? Math.floor(nowMs) : Number(timestampMs);
  return { id: idBytes, ...fallback, value, key, headers: checked, timestampMs: time, bytes };
}

function checkedHeader(header: Header, at: number): MessageHeader & { readonly bytes: number } {
  const { name } = header;
  if (name === "") throw malformed(`a header of message ${at} has no name`);
  const nameBytes = new TextEncoder().encode(checkedText(name, "a header's name")).length;
  checkLimit(nameBytes, HEADER_NAME_BYTES_MAX, "HEADER_NAME_BYTES_MAX", `bytes of a header's name of message ${at}`);
  checkLimit(header.value.length, HEADER_VALUE_BYTES_MAX, "HEADER_VALUE_BYTES_MAX", `bytes of a header of message ${at}`);
  if (name.startsWith(RESERVED_HEADER_PREFIX)) throw malformed(`headers that begin with ${RESERVED_HEADER_PREFIX} are the pipeline's`);
  return { name, value: valueFromWire(header, `header ${name} of message ${at}`), bytes: nameBytes + header.value.length };
}

/** Bytes that are no UTF-8 arrive as replacement characters: two ids that differ there would be one, and a message would be lost. */
function checkedText(text: string, what: string): string {
  if (!text.isWellFormed() || text.includes("\uFFFD")) throw malformed(`${what} is no valid UTF-8`);
  return text;
}
