/** Randomness as an argument: production draws from the operating system, the simulator from the seed. */
export interface Random {
  /** `length` random bytes. */
  bytes(length: number): Uint8Array;
  /** An integer, 0 <= n < limit. */
  below(limit: number): number;
  /** A number, 0 <= x < 1. */
  float(): number;
}
