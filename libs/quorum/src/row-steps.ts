import { openRecord, sealRecord, compareBytes } from "@concord/codec";
import type { KeyValueOperation, RowImage, StoreStep } from "@concord/ports";
import { decodeImage, decodeMutation, encodeImage, imageOf, mergeImages, mutationRowKey } from "@concord/rows";
import { ConcordError, type Checksum } from "@concord/runtime";

/** Namespaces of the node's store. */
export const ROWS_NAMESPACE = 0x72; // 'r'
/** Copies of stored rows that failed their check, by stored key. Node-local. */
export const QUARANTINE_NAMESPACE = 0x78; // 'x'
export const ROW_FORMAT_VERSION = 1;

export function storedRowKey(rowKey: Uint8Array): Uint8Array {
  return prefixed(ROWS_NAMESPACE, rowKey);
}

export type ApplyRowsReply =
  | { readonly kind: "applied" }
  /** These rows could not be merged: what is stored fails its check and was quarantined. The others are applied. */
  | { readonly kind: "corrupt"; readonly rows: number };

interface RowChange {
  readonly storedKey: Uint8Array;
  image: RowImage;
}

/**
 * Merges encoded mutations into the stored rows: read, merge, write, as one step (I1). CORRUPT_DATA at once, before anything is
 * submitted, when a mutation does not decode.
 */
export function applyRowsStep(mutations: readonly Uint8Array[], checksum: Checksum): StoreStep<ApplyRowsReply> {
  const changes = changesOf(mutations);
  return {
    load: changes.map((change) => change.storedKey),
    run(loaded) {
      const persist: KeyValueOperation[] = [];
      let corruptRows = 0;
      changes.forEach(({ storedKey, image }, at) => {
        const effect = mergeRow(storedKey, loaded[at], image, checksum);
        if (effect.kind === "corrupt") corruptRows += 1;
        if (effect.kind !== "unchanged") persist.push(effect.operation);
      });
      return { persist, reply: corruptRows === 0 ? { kind: "applied" } : { kind: "corrupt", rows: corruptRows } };
    },
  };
}

/** The encoded image inside a stored value; throws CORRUPT_DATA when the value fails its check. */
export function openRow(stored: Uint8Array, checksum: Checksum): Uint8Array {
  return openRecord(stored, ROW_FORMAT_VERSION, checksum).body;
}

/**
 * Keeps a copy of a corrupt row where operators find it. The row itself stays, so that this replica goes on refusing to answer for
 * it: answering "never written" could let a quorum forget an acknowledged write (I5).
 */
export function quarantine(storedKey: Uint8Array, stored: Uint8Array): KeyValueOperation {
  return { kind: "put", key: prefixed(QUARANTINE_NAMESPACE, storedKey), value: stored };
}

type RowEffect =
  | { readonly kind: "unchanged" }
  | { readonly kind: "merged"; readonly operation: KeyValueOperation }
  | { readonly kind: "corrupt"; readonly operation: KeyValueOperation };

function mergeRow(storedKey: Uint8Array, stored: Uint8Array | undefined, change: RowImage, checksum: Checksum): RowEffect {
  const put = (body: Uint8Array): RowEffect => ({
    kind: "merged",
    operation: { kind: "put", key: storedKey, value: sealRecord(ROW_FORMAT_VERSION, body, checksum) },
  });
  const rowKey = storedKey.subarray(1);
  if (stored === undefined) return put(encodeImage(change, rowKey));
  try {
    const body = openRow(stored, checksum);
    const merged = encodeImage(mergeImages(decodeImage(body), change), rowKey);
    return compareBytes(body, merged) === 0 ? { kind: "unchanged" } : put(merged);
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA")
      return { kind: "corrupt", operation: quarantine(storedKey, stored) };
    throw thrown;
  }
}

/** One change per row, however many mutations it has. */
function changesOf(mutations: readonly Uint8Array[]): RowChange[] {
  const byRow = new Map<string, RowChange>();
  for (const bytes of mutations) {
    const mutation = decodeMutation(bytes);
    const storedKey = storedRowKey(mutationRowKey(bytes));
    const name = String.fromCharCode.apply(null, storedKey as unknown as number[]);
    const change = byRow.get(name);
    if (change === undefined) byRow.set(name, { storedKey, image: imageOf(mutation) });
    else change.image = mergeImages(change.image, imageOf(mutation));
  }
  return [...byRow.values()];
}

function prefixed(namespace: number, key: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(key.length + 1);
  bytes[0] = namespace;
  bytes.set(key, 1);
  return bytes;
}
