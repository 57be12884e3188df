import type { KeyValueOperation } from "@concord/ports";

/** A batch without its callers' buffers, which they may use again. */
interface Copy {
  /** Keys and values, one behind the other. */
  readonly bytes: Uint8Array;
  /** Per operation the length of its key and of its value. */
  readonly lengths: Int32Array;
}

const DELETED = -1;

/** Batches since the newest flush, in call order. */
export class UnflushedBatches {
  #copies: Copy[] = [];
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  add(operations: readonly KeyValueOperation[]): void {
    const lengths = new Int32Array(2 * operations.length);
    let size = 0;
    for (const [at, operation] of operations.entries()) {
      lengths[2 * at] = operation.key.length;
      lengths[2 * at + 1] = operation.kind === "put" ? operation.value.length : DELETED;
      size += operation.key.length + (operation.kind === "put" ? operation.value.length : 0);
    }
    const bytes = new Uint8Array(size);
    let end = 0;
    for (const operation of operations) {
      bytes.set(operation.key, end);
      end += operation.key.length;
      if (operation.kind === "delete") continue;
      bytes.set(operation.value, end);
      end += operation.value.length;
    }
    this.#copies.push({ bytes, lengths });
    this.#bytes += size + lengths.byteLength;
  }

  *[Symbol.iterator](): Iterator<readonly KeyValueOperation[]> {
    for (const { bytes, lengths } of this.#copies) {
      const operations: KeyValueOperation[] = [];
      let end = 0;
      for (let at = 0; at < lengths.length; at += 2) {
        const key = bytes.subarray(end, (end += lengths[at]!));
        const length = lengths[at + 1]!;
        if (length === DELETED) operations.push({ kind: "delete", key });
        else operations.push({ kind: "put", key, value: bytes.subarray(end, (end += length)) });
      }
      yield operations;
    }
  }

  clear(): void {
    this.#copies = [];
    this.#bytes = 0;
  }
}
