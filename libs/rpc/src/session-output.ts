/** The memory that one session takes of the process's output budget, from the moment its client's transport is full until the client has taken all. */
import { assert, type ConcordError, type MessageStream, type OutputBudget, type OutputShare } from "@concord/runtime";
import type { EncodedReply, OutgoingReply } from "./frames.ts";
import { ANSWER_COUNTED_BYTES } from "./limits.ts";

export class SessionOutput {
  readonly #budget: OutputBudget;
  readonly #stream: MessageStream;
  readonly #evict: (reason: ConcordError) => void;
  #share: OutputShare | undefined;
  #bytes = 0;

  constructor(budget: OutputBudget, stream: MessageStream, evict: (reason: ConcordError) => void) {
    this.#budget = budget;
    this.#stream = stream;
    this.#evict = evict;
  }

  /**
   * The transport is full: what it keeps counts, and those of the replies that wait which are encoded. False: there is no memory for that. Once for
   * every time that the transport becomes full; again before any reply waits it changes nothing.
   */
  begin(waiting: readonly OutgoingReply[]): boolean {
    this.#share ??= this.#budget.open();
    this.#share.unread(this.#evict);
    let bytes = this.#stream.unsentBytes ?? 0;
    for (const reply of waiting) if (reply.kind === "encoded") bytes += reply.bytes.length;
    if (bytes > this.#bytes) return this.#grow(this.#share, bytes - this.#bytes, true);
    this.#share.resize(bytes);
    this.#bytes = bytes;
    return true;
  }

  /** One more reply waits. False: there is no memory for it. */
  add(reply: EncodedReply): boolean {
    assert(this.#share !== undefined, "replies wait while the transport is full");
    return this.#grow(this.#share, reply.bytes.length, !this.isLarge(reply));
  }

  /** A large reply gives way to an error; a small one is hardly larger than that. */
  isLarge(reply: EncodedReply): boolean {
    return reply.bytes.length > ANSWER_COUNTED_BYTES;
  }

  full(): ConcordError {
    return this.#budget.full();
  }

  /** The client took what the transport kept. */
  taken(): void {
    this.#share?.taken();
  }

  /** Nothing waits any more, or the session is over. */
  release(): void {
    this.#share?.release();
    this.#share = undefined;
    this.#bytes = 0;
  }

  #grow(share: OutputShare, bytes: number, needed: boolean): boolean {
    if (!share.grow(bytes, needed)) return false;
    this.#bytes += bytes;
    return true;
  }
}
