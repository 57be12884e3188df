import { assert, timestampUsOf, type TimestampUs } from "@concord/runtime";

/**
 * Write timestamps of one group (TX7, TXD4): each is above every earlier one and above what its transaction has read, by two, so that the
 * tick below it is unused too. A takeover starts it at the log's ceiling.
 */
export class Timestamps {
  #last: TimestampUs;

  constructor(ceilingUs: TimestampUs) {
    this.#last = ceilingUs;
  }

  get last(): TimestampUs {
    return this.#last;
  }

  draw(nowUs: bigint, newestReadUs: TimestampUs): TimestampUs {
    let drawnUs: bigint = this.#last + 2n;
    if (newestReadUs + 2n > drawnUs) drawnUs = newestReadUs + 2n;
    if (nowUs > drawnUs) drawnUs = nowUs;
    assert(drawnUs >= this.#last + 2n && drawnUs >= newestReadUs + 2n, "TX7, TXD4: two ticks above everything before");
    this.#last = timestampUsOf(drawnUs);
    return this.#last;
  }
}
