import { HELD_BYTES_MAX, KeyNames, STATUS_TRANSACTIONS_MAX, type TransactionGroup, type TransactionStatus } from "@concord/transactions";

/** The admin page /transactions: totals of each group that this coordinator serves, and the oldest open transactions of all. */
export interface TransactionsPage {
  readonly groups: readonly { readonly group: string; readonly open: number; readonly locks: number; readonly lockWaits: number }[];
  readonly heldBytes: number;
  readonly heldBytesMax: number;
  readonly transactions: readonly (TransactionStatus & { readonly group: string })[];
  /** Open transactions that are not listed. */
  readonly more: number;
}

export function transactionsPage(own: readonly TransactionGroup[], heldBytes: number): TransactionsPage {
  const groups: TransactionsPage["groups"][number][] = [];
  const listed: TransactionsPage["transactions"][number][] = [];
  const names = new KeyNames();
  let all = 0;
  for (const { group, state } of own) {
    if (state.kind !== "serving") continue;
    const { open, locks, lockWaits } = state.master.stats();
    groups.push({ group, open, locks, lockWaits });
    listed.push(...state.master.statuses(STATUS_TRANSACTIONS_MAX, names).map((status) => ({ group, ...status })));
    all += open;
  }
  const transactions = listed.toSorted((left, right) => right.ageMs - left.ageMs).slice(0, STATUS_TRANSACTIONS_MAX);
  return { groups, heldBytes, heldBytesMax: HELD_BYTES_MAX, transactions, more: all - transactions.length };
}
