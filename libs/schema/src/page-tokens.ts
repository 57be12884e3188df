import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { RowRange } from "@concord/ports";
import { decodeRowKey, encodeRowKey } from "@concord/rows";
import { ConcordError, type Checksum } from "@concord/runtime";
import type { CellValue } from "@concord/values";

/** Where a page ended, and how many rows of the caller's LIMIT are left. */
export interface PagePosition {
  readonly after: readonly CellValue[];
  readonly remaining: number | undefined;
}

/** Longer than any position: the longest key, and what a token adds. */
const PAGE_TOKEN_BYTES_MAX = 32 * 1024;
const FORMAT_VERSION = 1;
const NO_LIMIT = 0xffffffff;
const NO_TOKEN = new Uint8Array();

/** Opaque tokens, each good for the query it came from. Not a secret: a token holds nothing but a key its caller has read. */
export class PageTokens {
  readonly #checksum: Checksum;

  constructor(checksum: Checksum) {
    this.#checksum = checksum;
  }

  /** Empty when there is no next page. */
  issue(query: Uint8Array, position: PagePosition | undefined): Uint8Array {
    if (position === undefined) return NO_TOKEN;
    const key = encodeRowKey({ table: "", partition: [], clustering: position.after });
    const body = new ByteWriter()
      .u32(this.#checksum(query) >>> 0)
      .u32(position.remaining ?? NO_LIMIT)
      .bytes(key);
    return sealRecord(FORMAT_VERSION, body, this.#checksum);
  }

  /** Undefined for the first page; PAGE_TOKEN_INVALID for a token that is damaged, not ours or of another query. */
  read(query: Uint8Array, token: Uint8Array): PagePosition | undefined {
    if (token.length === 0) return undefined;
    const position = token.length > PAGE_TOKEN_BYTES_MAX ? undefined : this.#opened(query, token);
    if (position !== undefined) return position;
    throw new ConcordError("PAGE_TOKEN_INVALID", "the page token is none of ours or of another query; start with an empty one");
  }

  #opened(query: Uint8Array, token: Uint8Array): PagePosition | undefined {
    try {
      const reader = new ByteReader(openRecord(token, FORMAT_VERSION, this.#checksum).body);
      const isOurs = reader.u32() === this.#checksum(query) >>> 0;
      const remaining = reader.u32();
      const after = decodeRowKey(reader.bytes()).clustering;
      reader.end();
      return isOurs ? { after, remaining: remaining === NO_LIMIT ? undefined : remaining } : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Bytes that two queries share exactly when they read the same ranges, whatever the page. */
export function queryFingerprint(ranges: readonly RowRange[]): Uint8Array {
  const writer = new ByteWriter();
  for (const range of ranges) {
    const part = (prefix: readonly CellValue[]): Uint8Array =>
      encodeRowKey({ table: range.table, partition: range.partition, clustering: prefix });
    writer.u8(range.reverse ? 1 : 0).bytes(part([]));
    for (const bound of [range.lower, range.upper]) {
      if (bound === undefined) writer.u8(0);
      else writer.u8(bound.inclusive ? 1 : 2).bytes(part(bound.prefix));
    }
  }
  return writer.finish();
}
