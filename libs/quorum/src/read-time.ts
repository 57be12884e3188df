import { READ_MORE_MS_MAX, readMs, type ReadOptions } from "@concord/ports";
import { assert, type Clock } from "@concord/runtime";

/** Time of one exchange with the replicas; it grows while calls are under way. */
export interface ExchangeTime {
  /** Milliseconds that are left now. */
  readonly leftMs: number;
  /** The most that can be left now, however many bytes are announced. */
  readonly longestMs: number;
  /** A replica has so many bytes for this exchange: they are on their way, or other replicas have as many. The largest number counts. */
  announce(bytes: number): void;
}

/**
 * Time of one read. Its time-out is for small rows; what a replica announces adds the time of those bytes (`readMs`), once for each exchange. Without
 * it a row that was written within `writeMs` could never be read over the same network. Bounded by READ_MORE_MS_MAX and by the caller's own time.
 */
export class ReadTime {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #beganMs: number;
  readonly #timeoutMs: number;
  readonly #longestMs: number;
  #bytes = 0;
  /** Sizes to be looked up at the time-out, and not before: few reads reach it. */
  #lookUps: (() => void)[] = [];

  constructor(clock: Pick<Clock, "monotonicMs">, { timeoutMs, longestMs }: Pick<ReadOptions, "timeoutMs" | "longestMs">) {
    assert(timeoutMs > 0, "a read has time");
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
    this.#timeoutMs = timeoutMs;
    this.#longestMs = Math.max(timeoutMs, Math.min(longestMs ?? Number.POSITIVE_INFINITY, timeoutMs + READ_MORE_MS_MAX));
    assert(this.#longestMs >= timeoutMs && this.#longestMs <= timeoutMs + READ_MORE_MS_MAX, "I14: announced bytes add a bounded time");
  }

  get leftMs(): number {
    const leftMs = this.#leftMs();
    if (leftMs > 0 || this.#lookUps.length === 0) return leftMs;
    for (const lookUp of this.#lookUps.splice(0)) lookUp();
    assert(this.#lookUps.length === 0, "each size is looked up once");
    return this.#leftMs();
  }

  get longestMs(): number {
    return this.#longestMs - this.#passedMs();
  }

  /** The time of bytes does not count. */
  get isHalfUsed(): boolean {
    return this.#passedMs() > this.#timeoutMs / 2;
  }

  /** `sizeOf`: bytes that this node knows of without a replica's answer. */
  exchange(sizeOf?: () => number): ExchangeTime {
    let announced = 0;
    const announce = (bytes: number): void => {
      if (bytes <= announced) return;
      this.#bytes += bytes - announced;
      announced = bytes;
      assert(this.#bytes >= announced, "I14: the bytes of a read hold those of each exchange");
    };
    if (sizeOf !== undefined) this.#lookUps.push(() => announce(sizeOf()));
    return new Exchange(this, announce);
  }

  #leftMs(): number {
    return Math.min(readMs(this.#timeoutMs, this.#bytes), this.#longestMs) - this.#passedMs();
  }

  #passedMs(): number {
    return this.#clock.monotonicMs() - this.#beganMs;
  }
}

class Exchange implements ExchangeTime {
  readonly #read: ReadTime;
  readonly announce: (bytes: number) => void;

  constructor(read: ReadTime, announce: (bytes: number) => void) {
    this.#read = read;
    this.announce = announce;
  }

  get leftMs(): number {
    return this.#read.leftMs;
  }

  get longestMs(): number {
    return this.#read.longestMs;
  }
}
