import type { Checksum, ConcordError } from "@concord/runtime";
import type { JournalRecord } from "./api.ts";
import { FRAME_HEADER_BYTES, writeFrameHeader } from "./format.ts";
import { COPIED_PAYLOAD_BYTES } from "./limits.ts";

/** A record on its way to the disk. */
export interface Pending {
  readonly kind: JournalRecord["kind"];
  readonly payload: Uint8Array;
  readonly count: number;
  readonly resolve: (sequence: bigint) => void;
  readonly reject: (error: ConcordError) => void;
}

/** One write: records that become durable by the same sync. */
export interface EncodedGroup {
  readonly parts: readonly Uint8Array[];
  readonly bytes: number;
  readonly frames: readonly { readonly offset: number; readonly sequence: bigint }[];
  /** Sequence behind the group. */
  readonly next: bigint;
}

export function groupBytes(group: readonly Pending[]): number {
  return group.reduce((sum, { payload }) => sum + FRAME_HEADER_BYTES + payload.length, 0);
}

/** Headers and short payloads go into one buffer, long payloads stay where they are: few parts, little copying. */
export function encodeGroup(group: readonly Pending[], id: Uint8Array, offset: number, sequence: bigint, checksum: Checksum): EncodedGroup {
  const copied = group.reduce((sum, { payload }) => sum + FRAME_HEADER_BYTES + (isCopied(payload) ? payload.length : 0), 0);
  const buffer = new Uint8Array(copied);
  const view = new DataView(buffer.buffer);
  const parts: Uint8Array[] = [];
  const frames: { offset: number; sequence: bigint }[] = [];
  let [at, begun, place, next] = [0, 0, offset, sequence];
  for (const { kind, payload, count } of group) {
    const header = { kind, length: payload.length, sequence: next, count, groupOffset: offset };
    writeFrameHeader(buffer, view, at, id, header, payload, checksum);
    frames.push({ offset: place, sequence: next });
    at += FRAME_HEADER_BYTES;
    if (isCopied(payload)) {
      buffer.set(payload, at);
      at += payload.length;
    } else {
      parts.push(buffer.subarray(begun, at), payload);
      begun = at;
    }
    place += FRAME_HEADER_BYTES + payload.length;
    next += BigInt(count);
  }
  if (at > begun) parts.push(buffer.subarray(begun, at));
  return { parts, bytes: place - offset, frames, next };
}

function isCopied(payload: Uint8Array): boolean {
  return payload.length < COPIED_PAYLOAD_BYTES;
}
