import { assert } from "./assert.ts";

/** An owner may have so many times what stays free: alone four fifths of all, beside a first one four fifths of what that one leaves, and so on. */
export const FREE_FACTOR = 4;

/** A common amount (places, bytes) that no owner can use up: there is always something left for one that has nothing. */
export class FairShares {
  readonly #max: number;
  readonly #isShared: boolean;
  readonly #owned = new Map<string, number>();
  #used = 0;

  /** Not shared: one owner may have all. */
  constructor(max: number, isShared = true) {
    assert(max > 0, "there is something to share");
    this.#max = max;
    this.#isShared = isShared;
  }

  get used(): number {
    return this.#used;
  }

  /** False: nothing was taken; `owner` has too much, or too little is left. An owner that has nothing takes whatever is free. */
  take(owner: string, amount: number): boolean {
    assert(amount >= 0, "an amount is not negative");
    const owned = (this.#owned.get(owner) ?? 0) + amount;
    const free = this.#max - this.#used - amount;
    if (free < 0 || (this.#isShared && owned > amount && owned > FREE_FACTOR * free)) return false;
    this.#owned.set(owner, owned);
    this.#used += amount;
    return true;
  }

  giveBack(owner: string, amount: number): void {
    const left = (this.#owned.get(owner) ?? 0) - amount;
    assert(left >= 0 && this.#used >= amount, "what is given back was taken");
    this.#used -= amount;
    if (left === 0) this.#owned.delete(owner);
    else this.#owned.set(owner, left);
  }
}
