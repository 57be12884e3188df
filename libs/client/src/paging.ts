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
