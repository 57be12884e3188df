import { randomFillSync, randomInt } from "node:crypto";
import type { Random } from "@concord/runtime";

/** The largest limit `randomInt` draws below, without bias. */
const LIMIT_MAX = 2 ** 48 - 1;

/** Drawn at once: a call of the generator costs as much as thousands of bytes of it. */
const POOL_BYTES = 4096;
const pool = new Uint8Array(POOL_BYTES);
let used = POOL_BYTES;

/** Each byte is given out once and cleared here. */
function bytes(length: number): Uint8Array {
  if (length > POOL_BYTES) return randomFillSync(new Uint8Array(length));
  if (used + length > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  const drawn = pool.slice(used, used + length);
  pool.fill(0, used, used + length);
  used += length;
  return drawn;
}

/** The operating system's randomness. */
export const nodeRandom: Random = {
  bytes,
  below: (limit) => {
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) throw new RangeError(`limit ${limit} is not in 1..${LIMIT_MAX}`);
    return limit === 1 ? 0 : randomInt(limit);
  },
  float: () => randomInt(LIMIT_MAX) / LIMIT_MAX,
};
