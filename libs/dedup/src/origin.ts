import { ByteReader, ByteWriter } from "@concord/codec";
import type { MessageHeader, NewMessage } from "@concord/ports";
import { assert } from "@concord/runtime";
import type { MessageOrigin } from "./api.ts";
import type { MessageId } from "./extract-id.ts";

/** The id as it was given. */
export const ID_HEADER = "concord-id";
/** Whose id it is: left out, or empty, for ids without a source (DDD13). It goes from the input to the output as it is. */
export const SOURCE_HEADER = "concord-source";
/** Where a message comes from: format version, what it is compared by, input offset, time of the publish (golden bytes are tested). */
export const ORIGIN_HEADER = "concord-origin";
/** Why it is a dead letter. */
export const REASON_HEADER = "concord-reason";

const ORIGIN_FORMAT_VERSION = 1;
const ORIGIN_BYTES = 18;
const KINDS = ["none", "given", "content"] as const;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An origin as the window needs it. */
export interface StoredOrigin {
  readonly kind: (typeof KINDS)[number];
  readonly inputOffset: bigint;
  readonly publishedMs: number;
}

/** The message as it goes to the output: headers of this pipeline that came in with it are replaced, a producer cannot forge them. */
export function withOrigin(message: NewMessage, id: MessageId, inputOffset: bigint, publishedMs: number): NewMessage {
  const kind = id.kind === "dead-letter" ? "none" : id.kind;
  const value = new ByteWriter(ORIGIN_BYTES)
    .u8(ORIGIN_FORMAT_VERSION)
    .u8(KINDS.indexOf(kind))
    .u64(inputOffset)
    .u64(BigInt(publishedMs))
    .finish();
  assert(value.length === ORIGIN_BYTES, "DD9: an origin that is written is one that is read");
  const headers: MessageHeader[] = message.headers.filter((header) => !isOurs(header.name));
  const shown = id.kind === "given" ? id.id : id.kind === "none" ? id.made : undefined;
  if (shown !== undefined) headers.push({ name: ID_HEADER, value: shown });
  headers.push({ name: ORIGIN_HEADER, value });
  if (id.kind === "dead-letter") headers.push({ name: REASON_HEADER, value: encoder.encode(id.reason) });
  return { key: message.key, value: message.value, headers, timestampMs: message.timestampMs };
}

/** Undefined: not published by this pipeline. */
export function readStoredOrigin(message: NewMessage): StoredOrigin | undefined {
  const value = headerOf(message, ORIGIN_HEADER);
  if (value === undefined || value.length !== ORIGIN_BYTES) return undefined;
  const reader = new ByteReader(value);
  if (reader.u8() !== ORIGIN_FORMAT_VERSION) return undefined;
  const kind = KINDS[reader.u8()];
  return kind === undefined ? undefined : { kind, inputOffset: reader.u64(), publishedMs: Number(reader.u64()) };
}

/** What the pipeline says about a message of the output or the dead letters; undefined when it was not published by it. */
export function readOrigin(message: NewMessage): MessageOrigin | undefined {
  const origin = readStoredOrigin(message);
  if (origin === undefined) return undefined;
  const reason = headerOf(message, REASON_HEADER);
  return {
    inputOffset: origin.inputOffset,
    id: headerOf(message, ID_HEADER),
    source: headerOf(message, SOURCE_HEADER),
    reason: reason === undefined ? undefined : decoder.decode(reason),
  };
}

export function headerOf(message: NewMessage, name: string): Uint8Array | undefined {
  return message.headers.findLast((header) => header.name === name)?.value ?? undefined;
}

function isOurs(name: string): boolean {
  return name === ID_HEADER || name === ORIGIN_HEADER || name === REASON_HEADER;
}
