import type { RowRange } from "@concord/ports";
import { assert, type TimeId } from "@concord/runtime";
import type { GroupContext } from "./group-context.ts";
import { OUTCOME_IDS_KEPT_MAX, OUTCOME_PAGE_ROWS } from "./limits.ts";
import { outcomeRange, outcomesIn, outcomeSliceOf, singleOutcome, singleOutcomeKey, type StoredOutcome } from "./outcome-rows.ts";
import type { RowReader } from "./row-reader.ts";

/** Bytes that an outcome takes in memory, about. */
const OUTCOME_BYTES_ABOUT = 128;

interface Slice {
  readonly loaded: Promise<ReadonlyMap<TimeId, StoredOutcome>>;
  /** Forgotten by memory since the slice was asked for. */
  readonly later: Map<TimeId, StoredOutcome>;
  /** Ids in it, as far as they are read, and itself. */
  size: number;
}

/**
 * Outcomes in their rows, read by slices of time: after a takeover many ids of one slice are looked up. A slice that is kept stays whole,
 * because what memory forgets later is added to it.
 */
export class StoredOutcomes {
  readonly #context: GroupContext;
  readonly #reader: RowReader;
  /** The newest last. */
  readonly #slices = new Map<number, Slice>();
  #ids = 0;

  constructor(context: GroupContext, reader: RowReader) {
    this.#context = context;
    this.#reader = reader;
  }

  /** What a row says about the id; undefined = none does. Errors as RowStore.read. */
  async find(id: TimeId): Promise<StoredOutcome | undefined> {
    const slice = this.#sliceOf(outcomeSliceOf(id));
    const single = this.#reader.read(singleOutcomeKey(this.#context.settings.group, id));
    const [loaded, row] = await Promise.all([slice.loaded, single]);
    return loaded.get(id) ?? slice.later.get(id) ?? singleOutcome(row);
  }

  /** Memory had the outcome until now; a quorum read sees its row. */
  forgotten(id: TimeId, outcome: StoredOutcome): void {
    const slice = this.#slices.get(outcomeSliceOf(id));
    if (slice === undefined) return;
    slice.later.set(id, outcome);
    slice.size += weightOf(outcome);
    this.#ids += weightOf(outcome);
  }

  #sliceOf(number: number): Slice {
    const known = this.#slices.get(number);
    if (known !== undefined) return known;
    const slice: Slice = { loaded: this.#load(number), later: new Map(), size: 1 };
    this.#slices.set(number, slice);
    this.#ids += 1;
    slice.loaded.then(
      (outcomes) => this.#keep(number, slice, outcomes),
      () => this.#drop(number, slice),
    );
    return slice;
  }

  async #load(number: number): Promise<ReadonlyMap<TimeId, StoredOutcome>> {
    const { rows, settings } = this.#context;
    const outcomes = new Map<TimeId, StoredOutcome>();
    const range = outcomeRange(settings.group, number, OUTCOME_PAGE_ROWS);
    let after: RowRange["after"];
    do {
      const page = await rows.readRange(after === undefined ? range : { ...range, after }, { timeoutMs: settings.storageTimeoutMs });
      for (const image of page.rows) for (const [id, outcome] of outcomesIn(image)) outcomes.set(id, outcome);
      after = page.next;
    } while (after !== undefined);
    return outcomes;
  }

  #keep(number: number, slice: Slice, outcomes: ReadonlyMap<TimeId, StoredOutcome>): void {
    if (this.#slices.get(number) !== slice) return;
    let size = 0;
    for (const outcome of outcomes.values()) size += weightOf(outcome);
    slice.size += size;
    this.#ids += size;
    for (const [oldest, other] of this.#slices) {
      if (this.#ids <= OUTCOME_IDS_KEPT_MAX) return;
      this.#drop(oldest, other);
    }
  }

  #drop(number: number, slice: Slice): void {
    if (this.#slices.get(number) !== slice) return;
    this.#slices.delete(number);
    this.#ids -= slice.size;
    assert(this.#ids >= 0, "a slice is counted once");
    assert((this.#slices.size === 0) === (this.#ids === 0), "what is counted is kept");
  }
}

/** Counts as one id, and as one more for so many bytes of a refusal as an id takes. */
function weightOf({ refusal }: StoredOutcome): number {
  return refusal === undefined ? 1 : 1 + Math.ceil(refusal.length / OUTCOME_BYTES_ABOUT);
}
