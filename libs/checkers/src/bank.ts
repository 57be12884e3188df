/** One consistent look at all accounts: what a committed read-only transaction, or the final read, answered. */
export interface BankRead {
  readonly name: string;
  readonly balances: ReadonlyMap<string, bigint>;
}

export interface BankRules {
  readonly accounts: readonly string[];
  readonly total: bigint;
  readonly mayBeNegative: boolean;
}

export type BankAnomaly =
  | { readonly kind: "wrong-total"; readonly read: string; readonly total: bigint; readonly expected: bigint }
  | { readonly kind: "negative-balance"; readonly read: string; readonly account: string; readonly balance: bigint }
  | { readonly kind: "missing-account"; readonly read: string; readonly account: string };

/** Transfers move money and never make it: every committed read must show all accounts with the same total. */
export function checkBank(rules: BankRules, reads: readonly BankRead[]): BankAnomaly[] {
  const anomalies: BankAnomaly[] = [];
  for (const { name, balances } of reads) {
    let total = 0n;
    for (const account of rules.accounts) {
      const balance = balances.get(account);
      if (balance === undefined) anomalies.push({ kind: "missing-account", read: name, account });
      else if (balance < 0n && !rules.mayBeNegative) anomalies.push({ kind: "negative-balance", read: name, account, balance });
      total += balance ?? 0n;
    }
    if (total !== rules.total) anomalies.push({ kind: "wrong-total", read: name, total, expected: rules.total });
  }
  return anomalies;
}
