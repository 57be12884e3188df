import {
  ConcordError,
  isTimestampUs,
  plusUs,
  TIMESTAMP_ZERO,
  timestampUsOf,
  type Clock,
  type Log,
  type Metrics,
  type TimestampUs,
} from "@concord/runtime";
import type { WriteMark } from "@concord/ports";
import { TIMESTAMP_AHEAD_MS_MAX, WRITE_CLOCK_AHEAD_SAID_MS, WRITE_MARK_AHEAD_US } from "../limits.ts";

export interface WriteClockOptions {
  readonly clock: Pick<Clock, "nowUs">;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Timestamps of plain writes: the wall clock, made strictly increasing within this node and over its restarts. No write is acknowledged before a mark
 * above its timestamp is durable (I8): a start goes on above the mark, whatever the clock shows.
 */
export class WriteClock {
  readonly #clock: Pick<Clock, "nowUs">;
  readonly #log: Log;
  readonly #metrics: Metrics;
  #lastUs = TIMESTAMP_ZERO;
  #mark: WriteMark | undefined;
  /** Durable: this node acknowledged nothing that it drew above it. */
  #raisedToUs = TIMESTAMP_ZERO;
  /** There is one at a time. */
  #raising: Promise<void> | undefined;

  constructor({ clock, log, metrics }: WriteClockOptions) {
    this.#clock = clock;
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Before the first draw. Without a mark, on an engine that keeps none, timestamps increase within this process only. */
  async open(mark: WriteMark | undefined): Promise<void> {
    this.#mark = mark;
    if (mark === undefined) return;
    this.#raisedToUs = await mark.load();
    this.saw(this.#raisedToUs);
    const { aheadMs, warning } = this;
    if (warning !== undefined) this.#log.warn(warning, { aheadMs });
  }

  /** The clock is behind what this node or a peer drew; undefined: by no more than a restart leaves. */
  get warning(): string | undefined {
    const { aheadMs } = this;
    if (aheadMs <= WRITE_CLOCK_AHEAD_SAID_MS) return undefined;
    return (
      `rows have timestamps ${Math.round(aheadMs / 1000)} s ahead of this clock: new ones go on above them until the clock has caught up; ` +
      "check the clocks of this machine and of its peers"
    );
  }

  /** The next timestamp is above this one, which another node of the ring drew or may have drawn. */
  saw(timestampUs: TimestampUs): void {
    if (timestampUs > this.#lastUs) this.#lastUs = timestampUs;
    this.#report();
  }

  /** How far the next timestamp is ahead of the clock. */
  get aheadMs(): number {
    return Math.max(0, Number((this.#lastUs - this.#clock.nowUs()) / 1000n));
  }

  /** What other nodes of the ring are to draw above: no acknowledged timestamp of this node is higher. */
  get markUs(): TimestampUs {
    return this.#raisedToUs > this.#lastUs ? this.#raisedToUs : this.#lastUs;
  }

  /** `whenDurable` must resolve before anything that has this timestamp is acknowledged. */
  draw(): TimestampUs {
    const nowUs = this.#clock.nowUs();
    this.#lastUs = nowUs > this.#lastUs ? timestampUsOf(nowUs) : plusUs(this.#lastUs, 1n);
    return this.#lastUs;
  }

  /** STORE_FAILED: the mark could not be written. Raises it early, while writes go on; a timestamp that was not drawn here is no matter of the mark. */
  async whenDurable(timestampUs: TimestampUs): Promise<void> {
    if (this.#mark === undefined || timestampUs > this.#lastUs) return;
    if (this.#raisedToUs - timestampUs < WRITE_MARK_AHEAD_US / 2n) void this.#raise().catch(() => undefined);
    while (timestampUs > this.#raisedToUs) await this.#raise();
  }

  /** A timestamp the client gave: above 0 and not far ahead of our clock, else TIMESTAMP_OUT_OF_RANGE. */
  check(timestampUs: bigint): TimestampUs {
    const nowUs = this.#clock.nowUs();
    if (timestampUs > 0n && timestampUs <= nowUs + BigInt(TIMESTAMP_AHEAD_MS_MAX) * 1000n && isTimestampUs(timestampUs)) return timestampUs;
    const aheadMs = (timestampUs - nowUs) / 1000n;
    const text = `the timestamp must be above 0 and at most ${TIMESTAMP_AHEAD_MS_MAX} ms ahead of the server's clock; it is ${aheadMs} ms ahead`;
    throw new ConcordError("TIMESTAMP_OUT_OF_RANGE", text, {
      metadata: { limit: "TIMESTAMP_AHEAD_MS_MAX", value: String(TIMESTAMP_AHEAD_MS_MAX), aheadMs: String(aheadMs) },
    });
  }

  #raise(): Promise<void> {
    if (this.#mark === undefined) return Promise.resolve();
    const toUs = plusUs(this.#lastUs, WRITE_MARK_AHEAD_US);
    this.#raising ??= this.#mark
      .raise(toUs)
      .then(() => {
        if (toUs > this.#raisedToUs) this.#raisedToUs = toUs;
        this.#report();
      })
      .finally(() => (this.#raising = undefined));
    return this.#raising;
  }

  #report(): void {
    this.#metrics.gauge("storage_write_clock_ahead_seconds", this.aheadMs / 1000);
  }
}
