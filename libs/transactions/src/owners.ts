import { assert, ConcordError, type Applied } from "@concord/runtime";
import { hashOfText } from "./digest.ts";

/** Whose share of the memory a transaction takes: a caller, and its connection. */
export interface MemoryOwner {
  readonly name: string;
  readonly connection: string;
}

/** The caller that began a transaction. */
export interface TransactionOwner extends MemoryOwner {
  /** Role, or role/name: the same over every connection. Only this caller may use the transaction (SEC13). */
  readonly identity: string;
}

/** Concord's own transactions: schema, lists and group map. */
export const OWN_TRANSACTIONS: TransactionOwner = { name: "concord", connection: "own", identity: "concord" };

/** Owner of an outcome that any caller may ask for. */
export const NO_OWNER = 0n;

/** Owner as outcomes keep it: a hash. Callers without a name are none, as are those of outcomes that were written without an owner. */
export function ownerHash(identity: string | undefined): bigint {
  if (identity?.includes("/") !== true) return NO_OWNER;
  const hash = hashOfText(identity);
  assert(hash !== NO_OWNER, "SEC13: a caller with a name is an owner");
  return hash;
}

/** PERMISSION_DENIED unless `identity` is the owner's; undefined: an operator, or Concord itself. */
export function requireOwner(owner: TransactionOwner, identity: string | undefined): void {
  if (identity !== undefined && identity !== owner.identity) throw notTheOwner("no");
}

export function isOwnedBy(owner: bigint, identity: string | undefined): boolean {
  return owner === NO_OWNER || identity === undefined || owner === ownerHash(identity);
}

/** The same for a transaction that has ended. A repeat may be of its owner under another name, so its commit is not denied. */
export function requireOutcomeOwner(owner: bigint, identity: string | undefined): void {
  if (!isOwnedBy(owner, identity)) throw notTheOwner("unknown");
}

function notTheOwner(applied: Applied): ConcordError {
  return new ConcordError(
    "PERMISSION_DENIED",
    "the transaction was begun by another caller: use an id of your own, with the token it began with",
    {
      applied,
    },
  );
}
