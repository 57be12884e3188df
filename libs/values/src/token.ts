import { fnv1a64 } from "@concord/codec";
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
  return finish(fnv1a64(type.tag, type.tokenBytes(value)));
}

function finish(hash: bigint): bigint {
  let mixed = hash ^ (hash >> 33n);
  mixed = BigInt.asUintN(64, mixed * 0xff51afd7ed558ccdn);
  mixed ^= mixed >> 33n;
  mixed = BigInt.asUintN(64, mixed * 0xc4ceb9fe1a85ec53n);
  return mixed ^ (mixed >> 33n);
}
