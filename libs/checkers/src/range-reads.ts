import type { Element, MicroOperation, PointOperation, Transaction } from "./list-append-history.ts";

/** A transaction whose reads are all of single keys. */
export interface PointTransaction extends Transaction {
  readonly operations: readonly PointOperation[];
}

/**
 * Each range read as reads of every key in it that any transaction appends to or finds: a key that it did not find was read as absent. So
 * a phantom closes the same cycles as any other version that was missed.
 */
export function withoutRangeReads(transactions: readonly Transaction[]): readonly PointTransaction[] {
  const keys = new Set<string>();
  for (const { operations } of transactions) for (const operation of operations) addKeys(keys, operation);
  const sorted = [...keys].toSorted();
  return transactions.map((transaction) => ({
    ...transaction,
    operations: transaction.operations.flatMap((operation) => (operation.kind === "read-range" ? readsOf(operation, sorted) : operation)),
  }));
}

function addKeys(keys: Set<string>, operation: MicroOperation): void {
  switch (operation.kind) {
    case "append":
      keys.add(operation.key);
      return;
    case "read-range":
      for (const key of operation.found.keys()) keys.add(key);
      return;
    case "read":
  }
}

function readsOf(
  { prefix, found }: { readonly prefix: string; readonly found: ReadonlyMap<string, readonly Element[]> },
  keys: readonly string[],
): PointOperation[] {
  const inRange = keys.filter((key) => key.startsWith(prefix));
  return inRange.map((key) => ({ kind: "read", key, elements: found.get(key) ?? [] }));
}
