/** The fixed shape of session frames, as decoded objects. */

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

/**
 * Sends items as one frame; false: the transport's buffer is full. A frame that `send` throws for is sent as two halves, in their
 * order, so what cannot be sent takes nothing else with it; one item alone goes to `refused`. Sizes are not looked at beforehand:
 * frames hardly ever reach their limit, and encoding stops there.
 */
export function sendInFrames<Item>(
  items: readonly Item[],
  send: (items: readonly Item[]) => boolean,
  refused: (item: Item, thrown: unknown) => void,
): boolean {
  try {
    return send(items);
  } catch (thrown) {
    if (items.length === 1) {
      refused(items[0]!, thrown);
      return true;
    }
  }
  const half = items.length >>> 1;
  const isFree = sendInFrames(items.slice(0, half), send, refused);
  return sendInFrames(items.slice(half), send, refused) && isFree;
}
