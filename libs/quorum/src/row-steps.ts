import { compareBytes } from "@concord/codec";
import type { KeyValueOperation, RowImage, StoreStep } from "@concord/ports";
import { decodeImage, decodeMutation, encodeImage, imageOf, mergeImages, mutationRowKey, supersedingUs } from "@concord/rows";
import { assert, ConcordError, TIMESTAMP_ZERO, type Checksum, type TimestampUs } from "@concord/runtime";
import { openRow, quarantine, sealMerged, storedRowKey } from "./stored-row.ts";

export type ApplyRowsReply =
  /** The newest stored timestamp that kept a part of some mutation from having its effect; 0 = none did (I13). */
  | { readonly kind: "applied"; readonly supersededUs: TimestampUs }
  /** By the caller; nothing is applied. */
  | { readonly kind: "refused" }
  /** Rows of these keys could not be merged: what is stored fails its check and was quarantined. The others are applied. */
  | { readonly kind: "corrupt"; readonly storedKeys: readonly Uint8Array[] };

/** Gets the size of each row that a step puts. */
export type OnRow = (storedKey: Uint8Array, bytes: number) => void;

interface RowChange {
  readonly storedKey: Uint8Array;
  image: RowImage;
}

/**
 * Merges encoded mutations into the stored rows: read, merge, write, as one step (I1). CORRUPT_DATA at once, before anything is
 * submitted, when a mutation does not decode. `refuses` is asked when the step runs, with the oldest timestamp of all mutations.
 */
export function applyRowsStep(
  mutations: readonly Uint8Array[],
  checksum: Checksum,
  refuses: (oldestUs: TimestampUs) => boolean = () => false,
  onRow: OnRow = () => undefined,
): StoreStep<ApplyRowsReply> {
  const { changes, oldestUs } = changesOf(mutations);
  return {
    load: changes.map((change) => change.storedKey),
    run(loaded) {
      if (oldestUs !== undefined && refuses(oldestUs)) return { persist: [], reply: { kind: "refused" } };
      assert(loaded.length === changes.length, "I1: a step merges into what it has loaded");
      const persist: KeyValueOperation[] = [];
      const corrupt: Uint8Array[] = [];
      let supersededUs = TIMESTAMP_ZERO;
      changes.forEach(({ storedKey, image }, at) => {
        const effect = mergeRow(storedKey, loaded[at], image, checksum);
        if (effect.kind === "corrupt") corrupt.push(storedKey);
        else if (effect.supersededUs > supersededUs) supersededUs = effect.supersededUs;
        if (effect.kind !== "unchanged") persist.push(effect.operation);
        if (effect.kind === "merged") onRow(storedKey, effect.operation.value.length);
      });
      assert(persist.length >= corrupt.length, "I5: a damaged row is kept in quarantine");
      return { persist, reply: corrupt.length === 0 ? { kind: "applied", supersededUs } : { kind: "corrupt", storedKeys: corrupt } };
    },
  };
}

type RowEffect =
  | { readonly kind: "unchanged"; readonly supersededUs: TimestampUs }
  | {
      readonly kind: "merged";
      readonly supersededUs: TimestampUs;
      readonly operation: Extract<KeyValueOperation, { readonly kind: "put" }>;
    }
  | { readonly kind: "corrupt"; readonly operation: KeyValueOperation };

function mergeRow(storedKey: Uint8Array, stored: Uint8Array | undefined, change: RowImage, checksum: Checksum): RowEffect {
  const put = (body: Uint8Array, supersededUs: TimestampUs): RowEffect => ({
    kind: "merged",
    supersededUs,
    operation: { kind: "put", key: storedKey, value: sealMerged(body, checksum) },
  });
  const rowKey = storedKey.subarray(1);
  if (stored === undefined) return put(encodeImage(change, rowKey), TIMESTAMP_ZERO);
  try {
    const { image, place } = openRow(stored, checksum);
    const before = decodeImage(image);
    const merged = encodeImage(mergeImages(before, change), rowKey);
    const supersededUs = supersedingUs(before, change);
    if (compareBytes(image, merged) === 0) return { kind: "unchanged", supersededUs };
    // Put by log order and merged by time do not mix (I6).
    if (place !== undefined) throw followsFromLog(change.key.table, place.group);
    return put(merged, supersededUs);
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA")
      return { kind: "corrupt", operation: quarantine(storedKey, stored) };
    throw thrown;
  }
}

function followsFromLog(table: string, group: string): ConcordError {
  const metadata = { table, group };
  return new ConcordError("USE_TRANSACTION", `a row of ${table} follows from the log of group ${group}; write it in a transaction`, {
    metadata,
  });
}

/** One change per row, however many mutations it has. */
function changesOf(mutations: readonly Uint8Array[]): {
  readonly changes: readonly RowChange[];
  readonly oldestUs: TimestampUs | undefined;
} {
  const byRow = new Map<string, RowChange>();
  let oldestUs: TimestampUs | undefined;
  for (const bytes of mutations) {
    const mutation = decodeMutation(bytes);
    if (oldestUs === undefined || mutation.timestampUs < oldestUs) oldestUs = mutation.timestampUs;
    const storedKey = storedRowKey(mutationRowKey(bytes));
    const name = String.fromCharCode.apply(null, storedKey as unknown as number[]);
    const change = byRow.get(name);
    if (change === undefined) byRow.set(name, { storedKey, image: imageOf(mutation) });
    else change.image = mergeImages(change.image, imageOf(mutation));
  }
  return { changes: [...byRow.values()], oldestUs };
}
