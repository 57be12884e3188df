import type { ConditionalOutcome, Mutation, RowImage, RowKey, RowOptions, RowPage, RowRange, RowStore } from "@concord/ports";
import { loadService } from "@concord/protos";
import { ConcordError } from "@concord/runtime";
import { cellToWire, imageFromWire, keyToWire, rangeToWire, type WireRowImage } from "./cells-wire.ts";
import { PAGE_ROWS_MAX } from "./limits.ts";
import { ProxyCalls, type ProxyChannels } from "./proxy-calls.ts";

const WRITE_KINDS = { insert: "WRITE_KIND_INSERT", update: "WRITE_KIND_UPDATE", delete: "WRITE_KIND_DELETE" } as const;

/** Rows through a storage-proxy. */
export class StorageProxyRows implements RowStore {
  readonly supportsApplyIf = false;
  readonly #calls: ProxyCalls;

  constructor(channels: ProxyChannels) {
    this.#calls = new ProxyCalls(channels, loadService("concord.storage.v1.RowsService")["Session"]!);
  }

  async read(keys: readonly RowKey[], { timeoutMs }: RowOptions): Promise<(RowImage | undefined)[]> {
    if (keys.length === 0) return [];
    const request = { keys: keys.map(keyToWire), images: true };
    const response = await this.#calls.call<{ results: readonly { image: WireRowImage | null }[] }>("read", request, timeoutMs);
    if (response.results.length !== keys.length)
      throw malformedAnswer("read", `${response.results.length} results for ${keys.length} keys`);
    return response.results.map(({ image }) => (image === null ? undefined : imageFromWire(image)));
  }

  async readRange(range: RowRange, { timeoutMs }: RowOptions): Promise<RowPage> {
    const request = { range: rangeToWire(range), pageSize: Math.min(range.limit, PAGE_ROWS_MAX), images: true };
    const response = await this.#calls.call<{ images: readonly WireRowImage[]; nextPageToken: Uint8Array }>(
      "readRange",
      request,
      timeoutMs,
    );
    const rows = response.images.map(imageFromWire);
    return { rows, next: response.nextPageToken.length === 0 ? undefined : rows.at(-1)?.key.clustering };
  }

  async apply(mutations: readonly Mutation[], { timeoutMs }: RowOptions): Promise<void> {
    if (mutations.length === 0) return;
    await this.#calls.call("apply", { mutations: mutations.map(mutationToWire) }, timeoutMs);
  }

  applyIf(): Promise<ConditionalOutcome> {
    return Promise.reject(new ConcordError("USE_TRANSACTION", "storage-proxies offer no conditional writes"));
  }

  close(): void {
    this.#calls.close();
  }
}

function mutationToWire(mutation: Mutation): object {
  const columns =
    mutation.kind === "delete" ? [] : mutation.columns.map(({ column, value }) => ({ name: column, value: cellToWire(value) }));
  return { write: { kind: WRITE_KINDS[mutation.kind], key: keyToWire(mutation.key), columns }, timestampUs: mutation.timestampUs };
}

export function malformedAnswer(operation: string, what: string): ConcordError {
  return new ConcordError("INTERNAL", `${operation} was answered with ${what}`);
}
