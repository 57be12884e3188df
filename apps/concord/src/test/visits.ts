// A counter that transactions raise: what was acknowledged is in it.
import type { ConcordClient, Transaction, TransactionOptions } from "@concord/client";

export const where = { table: "visits", key: { page: "/cats" } };

export function visit(db: ConcordClient, options: TransactionOptions = {}): Promise<number> {
  const raise = async (txn: Transaction): Promise<number> => {
    const found = await txn.lock<{ visits: number }>("visits", where.key);
    const visits = (found?.visits ?? 0) + 1;
    txn.insert("visits", { ...where.key, visits });
    return visits;
  };
  return db.runTransaction(where, raise, options);
}
