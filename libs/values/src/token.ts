import { fnv1a64Halves, joinHalves, multiplyHalves, type Halves } from "@concord/codec";
import type { CellOf, CellType } from "./model.ts";
import { TABLE } from "./table.ts";

/** Tokens are unsigned 64-bit numbers. */
export const TOKEN_MAX = (1n << 64n) - 1n;

/**
 * The token of an entity id: the same type and value give the same token in every table, so master and detail rows of one entity
 * meet in one group (TX2). FNV-1a 64 over the type's tag and the value's bytes, finished with MurmurHash3's fmix64 to spread near ids.
 */
export function tokenOf<Kind extends CellType>({ kind, value }: CellOf<Kind>): bigint {
  const type = TABLE[kind];
  return joinHalves(finish(fnv1a64Halves(type.tag, type.tokenBytes(value))));
}

const FIRST: Halves = { high: 0xff51afd7, low: 0xed558ccd };
const SECOND: Halves = { high: 0xc4ceb9fe, low: 0x1a85ec53 };

function finish(hash: Halves): Halves {
  return shifted(multiplyHalves(shifted(multiplyHalves(shifted(hash), FIRST)), SECOND));
}

/** hash ^ (hash >> 33). */
function shifted({ high, low }: Halves): Halves {
  return { high, low: (low ^ (high >>> 1)) >>> 0 };
}
