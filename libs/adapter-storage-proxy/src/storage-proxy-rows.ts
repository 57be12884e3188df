import type { Mutation, RowImage, RowKey, RowOptions, RowPage, RowRange, RowStore } from "@concord/ports";
import { RowsService, type MutationInit, type ReadRangeRequestInit, type ReadRequestInit } from "@concord/protos-storage";
import { ConcordError } from "@concord/runtime";
import { imageFromWire, keyToWire, rangeToWire } from "@concord/rows-wire";
import { cellToWire } from "@concord/values";
import { PAGE_ROWS_MAX, READ_KEYS_MAX } from "./limits.ts";
import { ProxyCalls, type ProxyChannels } from "./proxy-calls.ts";

const WRITE_KINDS = { insert: "WRITE_KIND_INSERT", update: "WRITE_KIND_UPDATE", delete: "WRITE_KIND_DELETE" } as const;

/** Rows through a storage-proxy. */
export class StorageProxyRows implements RowStore {
  /** So a serial read has nothing to decide: it goes out as a quorum read. */
  readonly #calls: ProxyCalls<RowsService>;

  constructor(channels: ProxyChannels) {
    this.#calls = new ProxyCalls(channels, RowsService);
  }

  /** More keys than one call takes go in several. */
  async read(keys: readonly RowKey[], options: RowOptions): Promise<(RowImage | undefined)[]> {
    const parts: Promise<(RowImage | undefined)[]>[] = [];
    for (let from = 0; from < keys.length; from += READ_KEYS_MAX) parts.push(this.#read(keys.slice(from, from + READ_KEYS_MAX), options));
    return (await Promise.all(parts)).flat();
  }

  async #read(keys: readonly RowKey[], { timeoutMs }: RowOptions): Promise<(RowImage | undefined)[]> {
    const request: ReadRequestInit = { keys: keys.map(keyToWire), images: true };
    const response = await this.#calls.call("read", request, timeoutMs);
    if (response.results.length !== keys.length)
      throw malformedAnswer("read", `${response.results.length} results for ${keys.length} keys`);
    return response.results.map(({ image }) => (image === null ? undefined : imageFromWire(image)));
  }

  /** The proxy ends a page without a row where it has looked at very many deleted ones: then its own token leads on. */
  async readRange(range: RowRange, { timeoutMs }: RowOptions): Promise<RowPage> {
    const request: ReadRangeRequestInit = { range: rangeToWire(range), pageSize: Math.min(range.limit, PAGE_ROWS_MAX), images: true };
    let pageToken: Uint8Array = new Uint8Array();
    for (;;) {
      const response = await this.#calls.call("readRange", { ...request, pageToken }, timeoutMs);
      const rows = response.images.map(imageFromWire);
      pageToken = response.nextPageToken;
      if (pageToken.length === 0) return { rows, next: undefined };
      if (rows.length > 0) return { rows, next: rows.at(-1)!.key.clustering };
    }
  }

  /** What is too large for one message goes in parts. */
  async apply(mutations: readonly Mutation[], options: RowOptions): Promise<void> {
    if (mutations.length === 0) return;
    try {
      await this.#calls.call("apply", { mutations: mutations.map(mutationToWire) }, options.timeoutMs);
    } catch (thrown) {
      if (!(thrown instanceof ConcordError) || thrown.code !== "LIMIT_EXCEEDED" || mutations.length === 1) throw thrown;
      const middle = mutations.length >>> 1;
      await this.apply(mutations.slice(0, middle), options);
      await this.apply(mutations.slice(middle), options);
    }
  }

  close(): void {
    this.#calls.close();
  }
}

function mutationToWire(mutation: Mutation): MutationInit {
  const columns =
    mutation.kind === "delete" ? [] : mutation.columns.map(({ column, value }) => ({ name: column, value: cellToWire(value) }));
  return { write: { kind: WRITE_KINDS[mutation.kind], key: keyToWire(mutation.key), columns }, timestampUs: mutation.timestampUs };
}

export function malformedAnswer(operation: string, what: string): ConcordError {
  return new ConcordError("INTERNAL", `${operation} was answered with ${what}`);
}
