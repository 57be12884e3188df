import { assert, ConcordError, unreachable } from "@concord/runtime";
import type { InputResult } from "./api.ts";
import type { ClassifiedPage } from "./classify-page.ts";
import { RESULTS_KEPT, WAITERS_MAX } from "./limits.ts";

/** What is kept of a page: its results, not its messages. */
interface RecordedPage extends Pick<ClassifiedPage, "from" | "next" | "offsets" | "kinds" | "positions"> {
  readonly outputFrom: bigint;
  /** Of a dead letter by its position. */
  readonly deadLetterAt: (position: number) => bigint;
}

interface Waiter {
  readonly resolve: (result: InputResult) => void;
  readonly reject: (error: ConcordError) => void;
}

/** The waiters by input offset, and the results of the newest pages for late callers. */
export class InputResults {
  readonly #waiters = new Map<bigint, Waiter[]>();
  #waiting = 0;
  #recent: RecordedPage[] = [];
  #kept = 0;
  /** Below it everything is processed. */
  #processedTo = 0n;
  #ended: ConcordError | undefined;

  get processedTo(): bigint {
    return this.#processedTo;
  }

  whenProcessed(offset: bigint): Promise<InputResult> {
    if (offset < this.#processedTo) return this.#recorded(offset);
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (this.#waiting >= WAITERS_MAX) return Promise.reject(new ConcordError("OVERLOADED", `${WAITERS_MAX} results are awaited`));
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(offset);
      if (waiters === undefined) this.#waiters.set(offset, [{ resolve, reject }]);
      else waiters.push({ resolve, reject });
      this.#waiting += 1;
    });
  }

  /** The page is durable: its results are final. */
  record(classified: ClassifiedPage, outputFrom: bigint, deadLetterAt: RecordedPage["deadLetterAt"]): void {
    const { from, next, offsets, kinds, positions } = classified;
    assert(kinds.length === offsets.length && positions.length === offsets.length, "each input offset of a page has a result");
    const page = { from, next, offsets, kinds, positions, outputFrom, deadLetterAt };
    this.#recent.push(page);
    this.#kept += offsets.length;
    while (this.#kept > RESULTS_KEPT && this.#recent.length > 1) this.#kept -= this.#recent.shift()!.offsets.length;
    assert(this.#kept >= offsets.length, "the newest page's results are kept");
    this.#processedTo = next;
    if (this.#waiting === 0) return;
    for (const [index, offset] of offsets.entries()) {
      for (const waiter of this.#take(offset)) waiter.resolve(resultOf(page, index));
    }
  }

  /** Processing goes on from here: what is before it and not recorded was done by another owner, or by this one before a crash. */
  resumeAt(acknowledgedInput: bigint): void {
    if (acknowledgedInput > this.#processedTo) this.#processedTo = acknowledgedInput;
    for (const offset of this.#waiters.keys()) {
      if (offset >= acknowledgedInput) continue;
      for (const waiter of this.#take(offset)) waiter.reject(outcomeUnknown(offset));
    }
  }

  /** Nothing is processed any more. */
  end(error: ConcordError): void {
    this.#ended = error;
    for (const offset of this.#waiters.keys()) for (const waiter of this.#take(offset)) waiter.reject(error);
    assert(this.#waiting === 0, "no waiter is left behind");
  }

  #recorded(offset: bigint): Promise<InputResult> {
    const page = this.#recent.findLast(({ from, next }) => offset >= from && offset < next);
    const index = page === undefined ? -1 : page.offsets.indexOf(offset);
    return page === undefined || index < 0 ? Promise.reject(outcomeUnknown(offset)) : Promise.resolve(resultOf(page, index));
  }

  #take(offset: bigint): readonly Waiter[] {
    const waiters = this.#waiters.get(offset) ?? [];
    this.#waiters.delete(offset);
    this.#waiting -= waiters.length;
    assert(this.#waiting >= this.#waiters.size, "who waits is counted");
    return waiters;
  }
}

function resultOf({ kinds, positions, outputFrom, deadLetterAt }: RecordedPage, index: number): InputResult {
  const kind = kinds[index]!;
  const position = positions[index]!;
  switch (kind) {
    case "accepted":
      return { kind, offset: outputFrom + BigInt(position) };
    case "duplicate":
      return { kind };
    case "dead-lettered":
      return { kind, offset: deadLetterAt(position) };
    case "rerouted":
      return { kind, partition: position };
    default:
      return unreachable(kind);
  }
}

function outcomeUnknown(offset: bigint): ConcordError {
  return new ConcordError(
    "OUTCOME_UNKNOWN",
    `input offset ${offset} was processed, its result is not kept: sending the message again is harmless`,
  );
}
