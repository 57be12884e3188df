import { assert } from "@concord/runtime";
import type { Waiter } from "./state.ts";

/** Waiting requests, earliest deadline first; each knows its place, so a granted one leaves in O(log n). */
export class DeadlineHeap {
  readonly #waiters: Waiter[] = [];

  get size(): number {
    return this.#waiters.length;
  }

  first(): Waiter | undefined {
    return this.#waiters[0];
  }

  add(waiter: Waiter): void {
    assert(waiter.heapAt === -1, "a waiter is in the heap once");
    this.#waiters.push(waiter);
    this.#up(this.#waiters.length - 1, waiter);
  }

  remove(waiter: Waiter): void {
    const at = waiter.heapAt;
    assert(this.#waiters[at] === waiter, "the waiter is in the heap");
    waiter.heapAt = -1;
    const last = this.#waiters.pop()!;
    if (last === waiter) return;
    this.#up(at, last);
    this.#down(last.heapAt, last);
  }

  #up(from: number, waiter: Waiter): void {
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >>> 1;
      const parent = this.#waiters[parentAt]!;
      if (parent.deadlineMs <= waiter.deadlineMs) break;
      this.#place(at, parent);
      at = parentAt;
    }
    this.#place(at, waiter);
  }

  #down(from: number, waiter: Waiter): void {
    const count = this.#waiters.length;
    let at = from;
    for (;;) {
      let childAt = 2 * at + 1;
      if (childAt >= count) break;
      if (childAt + 1 < count && this.#waiters[childAt + 1]!.deadlineMs < this.#waiters[childAt]!.deadlineMs) childAt += 1;
      const child = this.#waiters[childAt]!;
      if (child.deadlineMs >= waiter.deadlineMs) break;
      this.#place(at, child);
      at = childAt;
    }
    this.#place(at, waiter);
  }

  #place(at: number, waiter: Waiter): void {
    this.#waiters[at] = waiter;
    waiter.heapAt = at;
  }
}
