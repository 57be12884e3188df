import { assert, ConcordError, NestedShares } from "@concord/runtime";
import { HELD_BYTES_FREE, HELD_BYTES_MAX, HELD_BYTES_STEP, HELD_RETRY_MS, type TransactionLimits } from "./limits.ts";
import type { MemoryOwner } from "./owners.ts";
import { limitExceeded } from "./transaction-limit.ts";

/**
 * Memory of all open transactions of one coordinator: rows they read under locks, their writes, the last answers. Callers and their connections share it
 * (`NestedShares`), so none keeps the others from opening transactions.
 */
export class TransactionMemory {
  readonly #bytesMax: number;
  readonly #shares: NestedShares;

  constructor(bytesMax = HELD_BYTES_MAX) {
    this.#bytesMax = bytesMax;
    this.#shares = new NestedShares(bytesMax);
  }

  get used(): number {
    return this.#shares.used;
  }

  /** OVERLOADED: all transactions together, or those of this caller, hold too much. */
  take({ name, connection }: MemoryOwner, bytes: number): void {
    assert(bytes > 0 && bytes % HELD_BYTES_STEP === 0, "memory is taken in steps");
    if (this.#shares.take(name, connection, bytes)) return;
    const text = `open transactions hold ${this.used} bytes, and this caller its share of them: repeat the transaction later, or with fewer open at a time`;
    throw new ConcordError("OVERLOADED", text, {
      retryAfterMs: HELD_RETRY_MS,
      metadata: { limit: "HELD_BYTES_MAX", value: String(this.#bytesMax) },
    });
  }

  giveBack({ name, connection }: MemoryOwner, bytes: number): void {
    this.#shares.giveBack(name, connection, bytes);
    assert(this.used >= 0, "bytes that are given back were taken");
  }
}

/** Bytes one transaction holds. Counts in steps, and the first few bytes as none: most transactions never reach the shared count. */
export class HeldBytes {
  readonly #memory: TransactionMemory;
  readonly #owner: MemoryOwner;
  readonly #limits: TransactionLimits;
  /** Bytes of the answers kept for repeats, each at its operation's number modulo as many as are kept. */
  readonly #answers: number[] = [];
  #answerAt = 0;
  #used = 0;
  #taken = 0;
  #hasEnded = false;

  constructor(memory: TransactionMemory, owner: MemoryOwner, limits: TransactionLimits) {
    this.#memory = memory;
    this.#owner = owner;
    this.#limits = limits;
  }

  get used(): number {
    return this.#used;
  }

  /** LIMIT_EXCEEDED: this transaction holds too much; OVERLOADED: all do. Nothing was added then. What an ended one reads late is not kept. */
  add(bytes: number): void {
    assert(bytes >= 0, "held bytes are not negative");
    if (this.#hasEnded) return;
    const used = this.#used + bytes;
    const { heldBytesPerTransactionMax } = this.#limits;
    if (used > heldBytesPerTransactionMax) {
      throw limitExceeded("heldBytesPerTransactionMax", heldBytesPerTransactionMax, "holds more bytes of rows and writes");
    }
    const missing = used - HELD_BYTES_FREE - this.#taken;
    if (missing > 0) {
      const step = Math.ceil(missing / HELD_BYTES_STEP) * HELD_BYTES_STEP;
      this.#memory.take(this.#owner, step);
      this.#taken += step;
    }
    this.#used = used;
    assert(used <= this.#taken + HELD_BYTES_FREE, "what is held beyond the free bytes was taken");
  }

  /** An operation begins: its answer takes the position of an older one. */
  beginAnswer(number: number): void {
    this.#answerAt = number % this.#limits.answersKeptMax;
    this.#used -= this.#answers[this.#answerAt] ?? 0;
    this.#answers[this.#answerAt] = 0;
    assert(this.#used >= 0, "an answer is dropped once");
  }

  /** As `add`, until as many later operations have begun as answers are kept. */
  addAnswer(bytes: number): void {
    this.add(bytes);
    this.#answers[this.#answerAt] = (this.#answers[this.#answerAt] ?? 0) + bytes;
  }

  end(): void {
    assert(!this.#hasEnded, "a transaction ends once");
    this.#hasEnded = true;
    if (this.#taken > 0) this.#memory.giveBack(this.#owner, this.#taken);
    this.#taken = 0;
  }
}
