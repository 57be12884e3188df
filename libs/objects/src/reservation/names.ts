// The names of one epoch as data: which are reserved, which are taken and not resolved. No clock, no I/O.
import { assert } from "@concord/runtime";

/** Sequences `from` (inclusive) to `to` (exclusive). */
export interface NameBlock {
  readonly from: number;
  readonly to: number;
}

/** Reserved names in order, and the unresolved ones (OGD7). */
export class EpochNames {
  readonly #blocks: { next: number; readonly to: number }[] = [];
  /** Taken in ascending order, so the first of the set is the lowest. */
  readonly #unresolved = new Set<number>();
  /** All sequences below were taken, or never will be. */
  #next = 0;

  /** A block that is certainly reserved: durable in the epoch's row and in the journal (I10). */
  add(block: NameBlock): void {
    assert(block.from >= (this.#blocks.at(-1)?.to ?? this.#next) && block.to > block.from, "blocks ascend");
    this.#blocks.push({ next: block.from, to: block.to });
  }

  get available(): number {
    return this.#blocks.reduce((sum, block) => sum + block.to - block.next, 0);
  }

  get unresolvedCount(): number {
    return this.#unresolved.size;
  }

  /** Ascending. */
  unresolved(): readonly number[] {
    return [...this.#unresolved];
  }

  /** Undefined: nothing is reserved. Every sequence is given out once. */
  take(): number | undefined {
    const block = this.#blocks[0];
    if (block === undefined) return undefined;
    const sequence = block.next;
    assert(sequence >= this.#next && sequence < block.to, "OGD6: a reserved name is given out once");
    block.next += 1;
    if (block.next === block.to) this.#blocks.shift();
    this.#next = sequence + 1;
    this.#unresolved.add(sequence);
    return sequence;
  }

  resolve(sequence: number): void {
    const held = this.#unresolved.delete(sequence);
    assert(held, `name ${sequence} is resolved once`);
  }

  /** The lowest sequence that may have an unreferenced blob: the lowest unresolved one, or the next one. */
  get lowWater(): number {
    for (const lowest of this.#unresolved) {
      assert(lowest < this.#next, "OGD7: the low-water mark is not above a name that was never taken");
      return lowest;
    }
    return this.#next;
  }
}
