import { clientError } from "./client-error.ts";
import { PAGE_ROWS_MAX } from "./limits.ts";

export interface RowsPage<R> {
  readonly rows: readonly R[];
  /** Empty = the end. */
  readonly next: Uint8Array;
}

/** Rows page by page: the next page is asked for when its first row is wanted. */
export async function* pagedRows<R>(
  limit: number | undefined,
  pageSize: number,
  first: Uint8Array | undefined,
  fetch: (pageSize: number, pageToken: Uint8Array) => Promise<RowsPage<R>>,
): AsyncGenerator<R, void, undefined> {
  let left = limit ?? Infinity;
  let token: Uint8Array = first ?? new Uint8Array();
  while (left > 0) {
    const page = await fetch(Math.min(pageSize, left), token);
    for (const row of page.rows.slice(0, left)) yield row;
    left -= page.rows.length;
    if (page.next.length === 0) return;
    token = page.next;
  }
}

/** All rows that are wanted in one page, which is of one state. LIMIT_EXCEEDED: there are more. */
export async function pageAtOnce<R>(
  limit: number | undefined,
  fetch: (pageSize: number, pageToken: Uint8Array) => Promise<RowsPage<R>>,
): Promise<readonly R[]> {
  const wanted = limit ?? Infinity;
  const { rows, next } = await fetch(Math.min(wanted, PAGE_ROWS_MAX), new Uint8Array());
  if (next.length === 0 || rows.length >= wanted) return rows;
  throw clientError(
    "LIMIT_EXCEEDED",
    `the range does not fit one atomic page of ${PAGE_ROWS_MAX} rows: give a limit, or read in a transaction`,
  );
}
