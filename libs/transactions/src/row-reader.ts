import type { RowImage, RowKey, RowStore } from "@concord/ports";
import { assert, ConcordError, type Clock } from "@concord/runtime";

interface WaitingRead {
  readonly key: RowKey;
  readonly resolve: (image: RowImage | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** Row reads of one turn leave as one RowStore.read, so that many transactions cost one round to storage. */
export class RowReader {
  readonly #store: RowStore;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #keysMax: number;
  #waiting: WaitingRead[] = [];

  constructor(store: RowStore, clock: Clock, timeoutMs: number, keysMax: number) {
    assert(keysMax > 0, "a read has a key");
    this.#store = store;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#keysMax = keysMax;
  }

  /** The stored image; undefined = never written. Rejects as RowStore.read. */
  read(key: RowKey): Promise<RowImage | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject });
      if (this.#waiting.length === 1) this.#clock.defer(() => this.#send());
    });
  }

  #send(): void {
    const all = this.#waiting;
    assert(all.length > 0, "the reads of a turn leave once");
    this.#waiting = [];
    for (let from = 0; from < all.length; from += this.#keysMax) this.#sendPart(all.slice(from, from + this.#keysMax));
  }

  #sendPart(part: readonly WaitingRead[]): void {
    assert(part.length > 0 && part.length <= this.#keysMax, "keys of one read are bounded");
    this.#store
      .read(
        part.map((read) => read.key),
        { timeoutMs: this.#timeoutMs },
      )
      .then((images) => {
        assert(images.length === part.length, "a read answers for every key");
        part.forEach((read, at) => read.resolve(images[at]));
      })
      .catch((error: unknown) => this.#failed(part, error));
  }

  /** Rows of different transactions may be too large together: no transaction fails for another's size. */
  #failed(part: readonly WaitingRead[], error: unknown): void {
    if (part.length > 1 && error instanceof ConcordError && error.code === "LIMIT_EXCEEDED") {
      const middle = Math.ceil(part.length / 2);
      this.#sendPart(part.slice(0, middle));
      this.#sendPart(part.slice(middle));
      return;
    }
    for (const read of part) read.reject(error);
  }
}
