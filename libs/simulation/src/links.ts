import type { SeededRandom } from "./seeded-random.ts";

/** How long messages take and how often a call is lost, for one seed. */
export interface NetworkProfile {
  /** Each directed link draws its own base delay up to this. */
  readonly baseDelayUs: number;
  /** Mean of the exponential tail on top. */
  readonly tailUs: number;
  readonly spikeRate: number;
  readonly spikeUs: number;
}

export const CALM_NETWORK: NetworkProfile = { baseDelayUs: 400, tailUs: 100, spikeRate: 0, spikeUs: 0 };

const LOOPBACK_DELAY_US = 15;

/** Directed links that are closed. Blocks nest: a link is open when nothing blocks it. */
export class Blocks {
  readonly #blocks = new Map<string, number>();

  isBlocked(from: string, to: string): boolean {
    return from !== to && (this.#blocks.get(`${from}>${to}`) ?? 0) > 0;
  }

  block(from: string, to: string): void {
    const key = `${from}>${to}`;
    this.#blocks.set(key, (this.#blocks.get(key) ?? 0) + 1);
  }

  unblock(from: string, to: string): void {
    const key = `${from}>${to}`;
    this.#blocks.set(key, Math.max(0, (this.#blocks.get(key) ?? 0) - 1));
  }

  clear(): void {
    this.#blocks.clear();
  }
}

/** The state of every directed link between two nodes. */
export class Links {
  readonly #profile: NetworkProfile;
  readonly #random: SeededRandom;
  readonly #base = new Map<string, number>();
  readonly #blocks = new Blocks();
  readonly #slow = new Map<string, number>();
  dropRate = 0;

  constructor(profile: NetworkProfile, random: SeededRandom) {
    this.#profile = profile;
    this.#random = random;
  }

  delayUs(from: string, to: string): number {
    if (from === to) return LOOPBACK_DELAY_US;
    const { tailUs, spikeRate, spikeUs } = this.#profile;
    let delay = this.#baseOf(`${from}>${to}`) + this.#random.exponential(tailUs);
    if (spikeRate > 0 && this.#random.chance(spikeRate)) delay += this.#random.below(spikeUs);
    return Math.ceil(delay * (this.#slow.get(`${from}>${to}`) ?? 1));
  }

  isBlocked(from: string, to: string): boolean {
    return this.#blocks.isBlocked(from, to);
  }

  /** Whether a single call or answer gets lost although the link is open. */
  isLost(from: string, to: string): boolean {
    return this.dropRate > 0 && from !== to && this.#random.chance(this.dropRate);
  }

  block(from: string, to: string): void {
    this.#blocks.block(from, to);
  }

  unblock(from: string, to: string): void {
    this.#blocks.unblock(from, to);
  }

  slow(from: string, to: string, factor: number): void {
    this.#slow.set(`${from}>${to}`, factor);
  }

  heal(): void {
    this.#blocks.clear();
    this.#slow.clear();
    this.dropRate = 0;
  }

  #baseOf(key: string): number {
    const known = this.#base.get(key);
    if (known !== undefined) return known;
    const drawn = 50 + this.#random.below(this.#profile.baseDelayUs);
    this.#base.set(key, drawn);
    return drawn;
  }
}
