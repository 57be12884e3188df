/** A message with its id: however often it is sent, it comes out once within the window of the service behind the sink. */
export interface SinkMessage {
  readonly id: string;
  /** Of what it is about: messages of one key belong together. */
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly timestampMs: number;
}

/**
 * `accepted`: durable, and out for the first time. `duplicate`: it was out before. `open`: neither is known; it may be sent again. `refused`: it is
 * durable elsewhere than in the output, for reasons that its service knows; it did not come out.
 */
export type SinkAnswer = "accepted" | "duplicate" | "open" | "refused";

/** Where messages go that each come out once: a dedup-worker. */
export interface MessageSink {
  /**
   * Answers in the order of `messages`, at least one and at most SINK_MESSAGES_MAX. Rejects when it is not known of all of them what became of
   * them: any of them may be sent again, and those that came out are then duplicates.
   */
  send(
    messages: readonly SinkMessage[],
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<readonly SinkAnswer[]>;
}

/** Messages of one call. */
export const SINK_MESSAGES_MAX = 100;
