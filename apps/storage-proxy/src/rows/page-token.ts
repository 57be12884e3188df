import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import { decodeRowKey, encodeRowKey, type CellValue, type RowRange } from "@concord/ports";
import { ConcordError, type Checksum } from "@concord/runtime";
import { PAGE_TOKEN_BYTES_MAX } from "../limits.ts";

/** Where a page ended, and how many rows of the caller's LIMIT are left. */
export interface PagePosition {
  readonly after: readonly CellValue[];
  readonly remaining: number | undefined;
}

const FORMAT_VERSION = 1;
const NO_LIMIT = 0xffffffff;

/**
 * Opaque tokens, each good for the query it came from: it carries the query's checksum and is sealed with its own. Not a secret: it
 * holds nothing but a key the caller has read, and the query it continues is checked like any other.
 */
export class PageTokens {
  readonly #checksum: Checksum;

  constructor(checksum: Checksum) {
    this.#checksum = checksum;
  }

  issue(query: Uint8Array, position: PagePosition): Uint8Array {
    const key = encodeRowKey({ table: "", partition: [], clustering: position.after });
    const body = new ByteWriter()
      .u32(this.#checksum(query) >>> 0)
      .u32(position.remaining ?? NO_LIMIT)
      .bytes(key);
    return sealRecord(FORMAT_VERSION, body.finish(), this.#checksum);
  }

  /** Undefined for the first page; PAGE_TOKEN_INVALID for a token that is damaged, not ours or of another query. */
  read(query: Uint8Array, token: Uint8Array): PagePosition | undefined {
    if (token.length === 0) return undefined;
    if (token.length > PAGE_TOKEN_BYTES_MAX) throw invalid(undefined);
    try {
      const reader = new ByteReader(openRecord(token, FORMAT_VERSION, this.#checksum).body);
      const isOurs = reader.u32() === this.#checksum(query) >>> 0;
      const remaining = reader.u32();
      const after = decodeRowKey(reader.bytes()).clustering;
      reader.end();
      if (isOurs) return { after, remaining: remaining === NO_LIMIT ? undefined : remaining };
    } catch (thrown) {
      throw invalid(thrown);
    }
    throw invalid(undefined);
  }
}

/** Bytes that two ranges share exactly when they are the same query, whatever the page. */
export function rangeFingerprint(range: RowRange): Uint8Array {
  const part = (prefix: readonly CellValue[]): Uint8Array =>
    encodeRowKey({ table: range.table, partition: range.partition, clustering: prefix });
  const bound = (writer: ByteWriter, given: RowRange["lower"]): ByteWriter =>
    given === undefined ? writer.u8(0) : writer.u8(given.inclusive ? 1 : 2).bytes(part(given.prefix));
  const writer = new ByteWriter().u8(range.reverse ? 1 : 0).bytes(part([]));
  return bound(bound(writer, range.lower), range.upper).finish();
}

function invalid(cause: unknown): ConcordError {
  return new ConcordError("PAGE_TOKEN_INVALID", "the page token is none of ours or of another query; start with an empty one", { cause });
}
