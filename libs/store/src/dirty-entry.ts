import { compareBytes, keyHash, PlacedPut, type Keyed } from "@concord/codec";
import type { KeyValueOperation } from "@concord/ports";

/** A write that the backing store does not have for sure. */
export class DirtyEntry implements Keyed {
  readonly hash: number;
  readonly operation: KeyValueOperation;
  /** Durable copy of the write: in the journal; none, since a crash may take it back; in the journal, since a checkpoint left it there. */
  readonly origin: "journalled" | "derived" | "left";
  /** Image of what the backing store has under the key, or the frozen entry that a checkpoint is putting there; undefined: not known. */
  base: number | DirtyEntry | undefined = undefined;
  /** Image of the backing store's value once its checkpoint has ended. */
  image: number | undefined = undefined;

  constructor(operation: KeyValueOperation, origin: DirtyEntry["origin"] = "journalled", hash: number = keyHash(operation.key)) {
    this.hash = hash;
    this.operation = operation;
    this.origin = origin;
  }

  get key(): Uint8Array {
    return this.operation.key;
  }

  /** Compares its key with `other` as `compareBytes` does, without a view of the key. */
  compareKey(other: Uint8Array): number {
    const { operation } = this;
    return operation instanceof PlacedPut ? operation.compareKey(other) : compareBytes(operation.key, other);
  }
}

/** Value of the entry; undefined when it deletes. */
export function valueOf({ operation }: DirtyEntry): Uint8Array | undefined {
  return operation.kind === "put" ? operation.value : undefined;
}
