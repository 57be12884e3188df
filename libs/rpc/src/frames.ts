/** The fixed shape of session frames, as decoded objects, and the grouping of calls or replies into frames. */

/** `{ callId, timeoutMs, operation: "read", read: {...} }` */
export interface CallMessage {
  readonly callId: bigint;
  readonly timeoutMs: number;
  /** The oneof's set case; undefined when none is. */
  readonly operation?: string;
  readonly [operation: string]: unknown;
}

/** `{ callId, outcome: "read", read: {...} }` or `{ callId, outcome: "error", error: {...} }` */
export interface ReplyMessage {
  readonly callId: bigint;
  readonly outcome?: string;
  readonly [outcome: string]: unknown;
}

export interface RequestFrame {
  readonly calls: readonly CallMessage[];
  readonly credits: number;
}

export interface ResponseFrame {
  readonly replies: readonly ReplyMessage[];
  readonly credits: number;
}

export interface FrameLimits {
  readonly itemsMax: number;
  readonly bytesTarget: number;
}

/** How many of the first items fit into one frame: at least one, however large. */
export function frameLength(items: readonly object[], available: number, limits: FrameLimits): number {
  const most = Math.min(items.length, available, limits.itemsMax);
  let bytes = 0;
  for (let length = 0; length < most; length += 1) {
    bytes += estimateBytes(items[length]);
    if (bytes > limits.bytesTarget && length > 0) return length;
  }
  return most;
}

/** About the encoded size; never less than a third of it (a character takes at most three bytes). */
export function estimateBytes(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value === "bigint") return 11;
  if (typeof value !== "object") return 9;
  if (value === null) return 0;
  if (value instanceof Uint8Array) return value.length + 4;
  let bytes = 4;
  if (Array.isArray(value)) {
    for (const item of value) bytes += estimateBytes(item);
    return bytes;
  }
  const record = value as Record<string, unknown>;
  for (const key in record) bytes += 1 + estimateBytes(record[key]);
  return bytes;
}
