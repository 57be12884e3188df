/** One logged batch: the same token into every row of `puts`, and a deletion of every row of `deletes`, all at one timestamp. */
export interface BatchFact {
  readonly token: string;
  readonly timestampUs: bigint;
  readonly puts: readonly string[];
  readonly deletes: readonly string[];
  /** `ok` = acknowledged; `fail` = certainly nothing was written; `info` = unknown, or a time-out that promises completion later. */
  readonly outcome: "ok" | "fail" | "info";
  /** The service said that the batch is logged and will be completed (LB6): then it counts as acknowledged for the final state. */
  readonly willComplete: boolean;
  /** Undefined: not acknowledged. */
  readonly acknowledgedAtMs?: number;
}

/** A token read from a row, at any time. */
export interface Sighting {
  readonly row: string;
  readonly token: string;
}

/** One read at a quorum: what it found of the rows it asked for. */
export interface BatchRead {
  /** When it was sent; the clock of `BatchFact.acknowledgedAtMs`. */
  readonly startedAtMs: number;
  readonly rows: readonly string[];
  /** Rows that do not exist are absent. */
  readonly found: ReadonlyMap<string, string>;
}

export type BatchAnomaly =
  | { readonly kind: "lost"; readonly token: string; readonly row: string; readonly found: string | undefined }
  | { readonly kind: "torn"; readonly token: string; readonly row: string; readonly found: string | undefined; readonly seenIn: string }
  | { readonly kind: "stale"; readonly token: string; readonly row: string; readonly found: string | undefined }
  | { readonly kind: "failed-batch-visible"; readonly token: string; readonly row: string }
  | { readonly kind: "garbage"; readonly token: string; readonly row: string };

/**
 * The final state against all batches: an acknowledged batch has every row at its token or at something newer; a batch that was
 * seen anywhere is complete (LB11); one that certainly failed was never seen. `final` has each row's token once all is quiet; rows
 * that do not exist are absent.
 */
export function checkBatches(
  batches: readonly BatchFact[],
  sightings: readonly Sighting[],
  final: ReadonlyMap<string, string>,
): BatchAnomaly[] {
  const byToken = new Map(batches.map((batch) => [batch.token, batch]));
  const seenIn = new Map<string, string>();
  const anomalies: BatchAnomaly[] = [];
  const allSightings = [...sightings, ...[...final].map(([row, token]) => ({ row, token }))];
  for (const { row, token } of allSightings) {
    const batch = byToken.get(token);
    if (batch === undefined || !batch.puts.includes(row)) anomalies.push({ kind: "garbage", token, row });
    else if (batch.outcome === "fail") anomalies.push({ kind: "failed-batch-visible", token, row });
    else seenIn.set(token, row);
  }
  const newestDelete = newestDeletes(batches);
  for (const batch of batches) {
    const where = seenIn.get(batch.token);
    const isPromised = batch.outcome === "ok" || batch.willComplete;
    if (!isPromised && where === undefined) continue;
    for (const row of [...batch.puts, ...batch.deletes]) {
      const found = final.get(row);
      if (isSettled(batch, row, found, byToken, newestDelete)) continue;
      if (isPromised) anomalies.push({ kind: "lost", token: batch.token, row, found });
      else anomalies.push({ kind: "torn", token: batch.token, row, found, seenIn: where! });
    }
  }
  return anomalies;
}

/** A read that began after a batch was acknowledged shows it in each of its rows, or something newer (LB5). */
export function checkBatchReads(batches: readonly BatchFact[], reads: readonly BatchRead[]): BatchAnomaly[] {
  const byToken = new Map(batches.map((batch) => [batch.token, batch]));
  const newestDelete = newestDeletes(batches);
  const anomalies: BatchAnomaly[] = [];
  for (const batch of batches) {
    const since = batch.acknowledgedAtMs;
    if (since === undefined) continue;
    const written = [...batch.puts, ...batch.deletes];
    for (const read of reads.filter(({ startedAtMs }) => startedAtMs > since)) {
      for (const row of written.filter((one) => read.rows.includes(one))) {
        const found = read.found.get(row);
        if (!isSettled(batch, row, found, byToken, newestDelete)) anomalies.push({ kind: "stale", token: batch.token, row, found });
      }
    }
  }
  return anomalies;
}

/** Does the row show the batch, or something that may rightly stand in its place? */
function isSettled(
  batch: BatchFact,
  row: string,
  found: string | undefined,
  byToken: ReadonlyMap<string, BatchFact>,
  newestDelete: ReadonlyMap<string, bigint>,
): boolean {
  if (found === undefined) return (newestDelete.get(row) ?? -1n) >= batch.timestampUs;
  const present = byToken.get(found);
  if (present === undefined || found === batch.token) return true;
  // On a tie the larger value stands, and a deletion beats any value.
  if (present.timestampUs !== batch.timestampUs) return present.timestampUs > batch.timestampUs;
  return batch.puts.includes(row) && found > batch.token;
}

/** The newest deletion of each row that may have happened. */
function newestDeletes(batches: readonly BatchFact[]): Map<string, bigint> {
  const newest = new Map<string, bigint>();
  for (const { outcome, deletes, timestampUs } of batches) {
    if (outcome === "fail") continue;
    for (const row of deletes) if ((newest.get(row) ?? -1n) < timestampUs) newest.set(row, timestampUs);
  }
  return newest;
}
