/** What the main loop and the worker write for each other without a message: a message would wait for the loop it is about. */
const LEASE_END_US = 0;
const PROGRESS = 1;
const SLOTS = 2;
const US_PER_MS = 1_000;
const FOREVER_US = 2n ** 62n;

/** Each slot has one writer. */
export class SharedMemory {
  readonly buffer: SharedArrayBuffer;
  readonly #slots: BigInt64Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(SLOTS * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#slots = new BigInt64Array(buffer);
  }

  /** On the main thread's monotonic clock. 0 before the first lease. */
  get leaseEndMs(): number {
    return Number(Atomics.load(this.#slots, LEASE_END_US)) / US_PER_MS;
  }

  setLeaseEndMs(endMs: number): void {
    const endUs = endMs === Number.POSITIVE_INFINITY ? FOREVER_US : BigInt(Math.max(0, Math.floor(endMs * US_PER_MS) || 0));
    Atomics.store(this.#slots, LEASE_END_US, endUs);
  }

  get progress(): bigint {
    return Atomics.load(this.#slots, PROGRESS);
  }

  /** The main loop turned. */
  addProgress(): void {
    Atomics.add(this.#slots, PROGRESS, 1n);
  }
}
