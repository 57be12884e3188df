import { randomBytes, randomInt } from "node:crypto";
import type { Random } from "@concord/runtime";

/** The largest limit `randomInt` draws below, without bias. */
const LIMIT_MAX = 2 ** 48 - 1;

/** The operating system's randomness. */
export const nodeRandom: Random = {
  bytes: (length) => new Uint8Array(randomBytes(length)),
  below: (limit) => {
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) throw new RangeError(`limit ${limit} is not in 1..${LIMIT_MAX}`);
    return limit === 1 ? 0 : randomInt(limit);
  },
  float: () => randomInt(LIMIT_MAX) / LIMIT_MAX,
};
