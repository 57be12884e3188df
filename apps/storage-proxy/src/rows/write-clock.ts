import { ConcordError, isTimestampUs, plusUs, TIMESTAMP_ZERO, timestampUsOf, type Clock, type TimestampUs } from "@concord/runtime";
import { TIMESTAMP_AHEAD_MS_MAX } from "../limits.ts";

/** Timestamps of plain writes: the wall clock, made strictly increasing within this node. */
export class WriteClock {
  readonly #clock: Pick<Clock, "nowUs">;
  #lastUs = TIMESTAMP_ZERO;

  constructor(clock: Pick<Clock, "nowUs">) {
    this.#clock = clock;
  }

  draw(): TimestampUs {
    const nowUs = this.#clock.nowUs();
    this.#lastUs = nowUs > this.#lastUs ? timestampUsOf(nowUs) : plusUs(this.#lastUs, 1n);
    return this.#lastUs;
  }

  /** A timestamp the client gave: above 0 and not far ahead of our clock, else TIMESTAMP_OUT_OF_RANGE. */
  check(timestampUs: bigint): TimestampUs {
    const limitUs = this.#clock.nowUs() + BigInt(TIMESTAMP_AHEAD_MS_MAX) * 1000n;
    if (timestampUs > 0n && timestampUs <= limitUs && isTimestampUs(timestampUs)) return timestampUs;
    const text = `the timestamp must be above 0 and at most ${TIMESTAMP_AHEAD_MS_MAX} ms ahead of the server's clock`;
    throw new ConcordError("TIMESTAMP_OUT_OF_RANGE", text, {
      metadata: { limit: "TIMESTAMP_AHEAD_MS_MAX", value: String(TIMESTAMP_AHEAD_MS_MAX) },
    });
  }
}
