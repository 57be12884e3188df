// Leader epochs of what was read from the input. A log that has the record before an offset in another epoch lost what was read there.
import { EPOCHS_KEPT } from "./limits.ts";

/** Batches from this offset on were taken by the leader of this epoch. */
export interface EpochStart {
  readonly offset: bigint;
  readonly epoch: number;
}

/** Part of a log that was read without a gap: it ends before `end`. */
interface ReadPart {
  readonly starts: readonly EpochStart[];
  readonly end: bigint;
}

export class LeaderEpochs {
  readonly #parts = new Map<number, ReadPart>();
  #isUnknownReported = false;

  /** Replaces what is known of a partition by the epoch of the record before `offset`; undefined: it is unknown. */
  begin(partition: number, offset: bigint, epoch: number | undefined): void {
    if (epoch === undefined) this.#parts.delete(partition);
    else this.#parts.set(partition, { starts: [{ offset: offset - 1n, epoch }], end: offset });
  }

  /** Adds the batches of a fetch from `from` up to `end`. */
  add(partition: number, from: bigint, fetched: readonly EpochStart[], end: bigint): void {
    const known = this.#parts.get(partition);
    const starts = known === undefined || known.end < from ? [] : known.starts.filter(({ offset }) => offset < from);
    for (const start of fetched) if (starts.at(-1)?.epoch !== start.epoch) starts.push(start);
    this.#parts.set(partition, { starts: starts.slice(-EPOCHS_KEPT), end });
  }

  /** Epoch of the record before `offset`; undefined when it was not read, or is not kept any more. */
  before(partition: number, offset: bigint): number | undefined {
    const known = this.#parts.get(partition);
    if (known === undefined || offset > known.end) return undefined;
    const epoch = known.starts.findLast((start) => start.offset < offset)?.epoch;
    return epoch === undefined || epoch < 0 ? undefined : epoch;
  }

  /** True once: one line of log is enough for all partitions whose committed offset names no epoch. */
  isFirstUnknown(): boolean {
    const isFirst = !this.#isUnknownReported;
    this.#isUnknownReported = true;
    return isFirst;
  }
}
