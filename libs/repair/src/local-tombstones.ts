import type { KeyValueOperation, StepRunner, StoreStep } from "@concord/ports";
import { openRow, storedRowKey, type Forgotten, type StoredRow } from "@concord/quorum";
import { decodeImage, imageRowKey, isTombstone } from "@concord/rows";
import { assert, ConcordError, TIMESTAMP_ZERO, type Checksum, type Metrics, type TimestampUs } from "@concord/runtime";

/** The deletion of a plain row. */
export interface PlainTombstone {
  /** Without namespace. */
  readonly key: Uint8Array;
  readonly deletedAtUs: TimestampUs;
}

export interface LocalTombstonesOptions {
  /** Answers only what is on disk. */
  readonly reader: { getMany(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> };
  readonly runner: StepRunner;
  readonly forgotten: Forgotten;
  readonly checksum: Checksum;
  readonly metrics: Metrics;
}

/** The tombstones of plain rows at this node, as the node that collects asks for them (I11). */
export class LocalTombstones {
  readonly #options: LocalTombstonesOptions;

  constructor(options: LocalTombstonesOptions) {
    this.#options = options;
  }

  /** In their order: is the deletion, or a later one of the same row, on this node's disk? False of a damaged row. */
  async held(tombstones: readonly PlainTombstone[]): Promise<readonly boolean[]> {
    const { reader, checksum } = this.#options;
    const stored = await reader.getMany(tombstones.map(({ key }) => storedRowKey(key)));
    assert(stored.length === tombstones.length, "the store answers each key");
    return tombstones.map(({ deletedAtUs }, at) => {
      const row = soundRow(stored[at], checksum);
      if (row === undefined || row.place !== undefined) return false;
      return (decodeImage(row.image).deletedAtUs ?? TIMESTAMP_ZERO) >= deletedAtUs;
    });
  }

  /** Every replica has held each of them: those that are here as they are named go (I11). What was written since stays. Answers how many went. */
  async drop(tombstones: readonly PlainTombstone[]): Promise<number> {
    const dropped = await this.#options.runner.submit(this.#removal(tombstones));
    if (dropped > 0) this.#options.metrics.count("repair_tombstones_dropped_total", dropped);
    return dropped;
  }

  #removal(tombstones: readonly PlainTombstone[]): StoreStep<number> {
    const { forgotten, checksum } = this.#options;
    const keys = tombstones.map(({ key }) => storedRowKey(key));
    return {
      load: keys,
      run: (loaded) => {
        assert(loaded.length === keys.length, "a step sees the row of each tombstone");
        const persist: KeyValueOperation[] = [];
        let newestUs = TIMESTAMP_ZERO;
        for (const [at, { deletedAtUs }] of tombstones.entries()) {
          if (plainTombstoneOf(loaded[at], checksum)?.deletedAtUs !== deletedAtUs) continue;
          persist.push({ kind: "delete", key: keys[at]! });
          if (deletedAtUs > newestUs) newestUs = deletedAtUs;
        }
        const dropped = persist.length;
        if (dropped > 0) persist.push(forgotten.collected(newestUs));
        return { persist, reply: dropped };
      },
    };
  }
}

/** Of a stored row that is merged by timestamp, a deletion and nothing else. Undefined of a damaged one: it is healed first. */
export function plainTombstoneOf(stored: Uint8Array | undefined, checksum: Checksum): PlainTombstone | undefined {
  const row = soundRow(stored, checksum);
  if (row === undefined || row.place !== undefined) return undefined;
  const key = imageRowKey(row.image);
  if (!isTombstone(row.image, key.byteOffset - row.image.byteOffset + key.length, row.image.length)) return undefined;
  return { key, deletedAtUs: decodeImage(row.image).deletedAtUs! };
}

function soundRow(stored: Uint8Array | undefined, checksum: Checksum): StoredRow | undefined {
  if (stored === undefined) return undefined;
  try {
    return openRow(stored, checksum);
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return undefined;
    throw thrown;
  }
}
