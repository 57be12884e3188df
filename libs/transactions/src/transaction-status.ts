import type { LockMode, LockSummary } from "@concord/locks";
import { assert } from "@concord/runtime";
import type { Transaction } from "./transaction.ts";

/** A locked key without its values: `table#number`. */
export type RedactedKey = string;

/**
 * Names for the keys of one page: equal keys have equal names, and no value can be guessed from one. A hash could be compared with those of
 * guessed values.
 */
export class KeyNames {
  readonly #names = new Map<string, RedactedKey>();

  of(key: string): RedactedKey {
    let name = this.#names.get(key);
    if (name === undefined) {
      name = `${key.slice(0, key.indexOf("/"))}#${this.#names.size + 1}`;
      this.#names.set(key, name);
    }
    return name;
  }
}

/** An open transaction as operators see it: no value of a row or key is in it. */
export interface TransactionStatus {
  readonly id: string;
  readonly state: "open" | "committing";
  /** Since it was opened here. */
  readonly ageMs: number;
  /** Since its client's last operation. */
  readonly idleMs: number;
  readonly heldBytes: number;
  readonly writes: number;
  readonly rowsRead: number;
  readonly locks: number;
  /** The first ones of them. */
  readonly locked: readonly { readonly key: RedactedKey; readonly mode: LockMode }[];
  /** The lock it waits for, with one transaction that holds it. */
  readonly waitsFor?: { readonly key: RedactedKey; readonly mode: LockMode; readonly holder: string; readonly waitedMs: number };
}

export function statusOf(
  transaction: Transaction,
  { held, keys, waits, waitsSinceMs }: LockSummary & { readonly waitsSinceMs: number | undefined },
  nowMs: number,
  names: KeyNames,
): TransactionStatus {
  const [wait] = waits;
  assert(waits.length <= 1, "TX4: a transaction waits for one lock at a time");
  const { id, state, openedAtMs, lastHeardMs, heldBytes, writeCount, rowsRead } = transaction;
  const status: TransactionStatus = {
    id,
    state: state.kind === "committing" ? "committing" : "open",
    ageMs: Math.round(nowMs - openedAtMs),
    idleMs: Math.round(nowMs - lastHeardMs),
    heldBytes: heldBytes.used,
    writes: writeCount,
    rowsRead,
    locks: held,
    locked: keys.map(({ key, mode }) => ({ key: names.of(key), mode })),
  };
  if (wait === undefined) return status;
  const { key, mode, holder } = wait;
  return { ...status, waitsFor: { key: names.of(key), mode, holder, waitedMs: Math.round(nowMs - (waitsSinceMs ?? nowMs)) } };
}
