import type { AtomicRows, ReadOptions, RowImage, RowKey, RowPage, RowRange } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { tableOf, type SchemaCatalogue } from "@concord/schema";
import type { Context } from "../context.ts";

/** Rows of one group as they are between two commits (TXD5); the keys are checked against the catalogue. */
export async function readAtOnce(
  context: Context,
  catalogue: SchemaCatalogue,
  keys: readonly RowKey[],
  options: ReadOptions,
): Promise<(RowImage | undefined)[]> {
  for (const { table } of keys) refusePlain(catalogue, table);
  const atomicRows = atomicRowsOf(context);
  return atomicRows.read(await context.rowGroups.groupOf(keys), keys, options);
}

/** One page of a partition likewise; the range is checked against the catalogue. */
export async function readPageAtOnce(
  context: Context,
  catalogue: SchemaCatalogue,
  range: RowRange,
  options: ReadOptions,
): Promise<RowPage> {
  refusePlain(catalogue, range.table);
  const atomicRows = atomicRowsOf(context);
  const group = await context.rowGroups.groupOf([{ table: range.table, partition: range.partition, clustering: [] }]);
  return atomicRows.readRange(group, range, options);
}

function atomicRowsOf({ atomicRows, config }: Context): AtomicRows {
  if (atomicRows !== undefined) return atomicRows;
  throw new ConcordError("UNIMPLEMENTED", `backend ${config.backend} has no read mode ATOMIC: read in a transaction`);
}

function refusePlain(catalogue: SchemaCatalogue, table: string): void {
  if (tableOf(catalogue, table).kind === "transactional") return;
  throw new ConcordError("MALFORMED_REQUEST", `rows of the plain table ${table} belong to no group: read them with mode FAST`, {
    metadata: { table },
  });
}
