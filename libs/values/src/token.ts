import { Hash64 } from "@concord/codec";
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
  hash.reset().byte(type.tag).bytes(type.tokenBytes(value));
  return hash.shift().multiply(0xff51afd7, 0xed558ccd).shift().multiply(0xc4ceb9fe, 0x1a85ec53).shift().value();
}

/** One for all: it is reset for each token. */
const hash = new Hash64();
