import type { LocalRows, RowImage, RowKey } from "@concord/ports";
import { decodeImage, encodeRowKey } from "@concord/rows";
import { ConcordError, type Checksum, type Seq } from "@concord/runtime";
import { openRow, storedRowKey } from "./stored-row.ts";

export interface LocalGroupRowsOptions {
  /** Answers only what is on disk. */
  readonly reader: { peek(key: Uint8Array): Uint8Array | undefined | "ask" };
  /** How far this node has applied a group's log, though perhaps not on disk yet: then the reader says "ask". */
  readonly appliedSeq: (group: string) => Seq;
  /** False: rows of groups may be at other replicas only, written before rows followed from the log. */
  readonly hasAllRows: boolean;
  readonly checksum: Checksum;
}

/** This node's replica of the rows, without a promise. */
export class LocalGroupRows implements LocalRows {
  readonly #options: LocalGroupRowsOptions;

  constructor(options: LocalGroupRowsOptions) {
    this.#options = options;
  }

  appliedSeq(group: string): Seq {
    return this.#options.appliedSeq(group);
  }

  /** A damaged row is left to RowStore.read, which reports it. */
  peek(key: RowKey): RowImage | undefined | "ask" {
    const { reader, hasAllRows, checksum } = this.#options;
    if (!hasAllRows) return "ask";
    const stored = reader.peek(storedRowKey(encodeRowKey(key)));
    if (stored === undefined || stored === "ask") return stored;
    try {
      return decodeImage(openRow(stored, checksum).image);
    } catch (thrown) {
      if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return "ask";
      throw thrown;
    }
  }
}
