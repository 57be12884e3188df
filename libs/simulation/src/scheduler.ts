import { assert } from "@concord/runtime";
import type { SeededRandom } from "./seeded-random.ts";

export interface ScheduledEvent {
  readonly atUs: number;
  readonly tie: number;
  readonly sequence: number;
  /** Undefined once cancelled: it is skipped when its time comes. */
  action: (() => void) | undefined;
}

/**
 * Virtual time and everything that is going to happen in it. Events are ordered by (time, tie key, insertion): the tie key is
 * drawn from the seed, so things that happen in the same microsecond happen in a different order under another seed.
 */
export class Scheduler {
  readonly #heap: ScheduledEvent[] = [];
  readonly #random: SeededRandom;
  #nowUs = 0;
  #sequence = 0;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  get nowUs(): number {
    return this.#nowUs;
  }

  /** Time of the next event, or undefined when nothing is left. */
  get nextAtUs(): number | undefined {
    this.#dropCancelled();
    return this.#heap[0]?.atUs;
  }

  /** Runs `action` at `atUs`, never before now. Ordered things must use strictly increasing times: ties are random. */
  at(atUs: number, action: () => void): ScheduledEvent {
    assert(Number.isFinite(atUs), "an event needs a finite time");
    const whole = Math.max(this.#nowUs, Math.ceil(atUs));
    const event: ScheduledEvent = { atUs: whole, tie: this.#random.below(65_536), sequence: this.#sequence, action };
    this.#sequence += 1;
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
    return event;
  }

  after(delayUs: number, action: () => void): ScheduledEvent {
    return this.at(this.#nowUs + delayUs, action);
  }

  /** Takes the next event and moves time to it. */
  next(): (() => void) | undefined {
    this.#dropCancelled();
    const event = this.#take();
    if (event === undefined) return undefined;
    this.#nowUs = event.atUs;
    const action = event.action;
    event.action = undefined;
    return action;
  }

  /** Moves time forward over a stretch in which nothing happens. */
  skipTo(atUs: number): void {
    const next = this.nextAtUs;
    assert(next === undefined || next >= atUs, "time may not jump over an event");
    this.#nowUs = Math.max(this.#nowUs, atUs);
  }

  #dropCancelled(): void {
    while (this.#heap.length > 0 && this.#heap[0]!.action === undefined) this.#take();
  }

  #take(): ScheduledEvent | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) return undefined;
    if (first !== last) {
      heap[0] = last;
      this.#sink(0);
    }
    return first;
  }

  #rise(start: number): void {
    const heap = this.#heap;
    const event = heap[start]!;
    let index = start;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = event;
  }

  #sink(start: number): void {
    const heap = this.#heap;
    const event = heap[start]!;
    let index = start;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, event)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = event;
  }
}

function isBefore(left: ScheduledEvent, right: ScheduledEvent): boolean {
  if (left.atUs !== right.atUs) return left.atUs < right.atUs;
  if (left.tie !== right.tie) return left.tie < right.tie;
  return left.sequence < right.sequence;
}
