import { corrupt } from "@concord/codec";
import type { KeyValue, LogBounds } from "@concord/ports";
import { assert, ConcordError, toConcordError } from "@concord/runtime";
import type { WindowStores } from "./api.ts";
import { packIds, PACKED_ID_BYTES } from "./id-words.ts";
import { clearJournal, removeSegments, seedOf, WINDOW_STORE } from "./load-window.ts";
import { SNAPSHOT_BLOB_IDS, SNAPSHOT_CANDIDATES_MAX, SNAPSHOT_MANIFEST_BYTES_MAX, SNAPSHOT_READ_MS_MAX } from "./limits.ts";
import { hasWitness } from "./output-witness.ts";
import { writeSegment } from "./segment.ts";
import { blobName, decodeSnapshot, snapshotNames, type Snapshot, type SnapshotSegment } from "./snapshot-format.ts";
import { bounded } from "./snapshot-time.ts";
import type { SnapshotSource } from "./take-snapshot.ts";
import { encodeManifest, MANIFEST_KEY, segmentStoreName, type SegmentDescription } from "./window-format.ts";

export interface RestoreSource extends SnapshotSource {
  readonly stores: WindowStores;
  readonly segmentsMax: number;
  /** Read after the fence (I2). */
  readonly output: LogBounds;
}

/**
 * Puts the newest snapshot that fits the output where no window is (DD11); true: one was restored, and [outNext, end) of the output is still
 * to be applied. One that is damaged, of another log or out of the output's range is passed over; false: the output rebuilds the window
 * (DDD11). Never waits for a store that does not answer; rejects only when a local store fails or the worker stops.
 */
export async function restoreSnapshot(source: RestoreSource, stopping: AbortSignal): Promise<boolean> {
  const { stores, environment, partition } = source;
  const { log } = environment;
  const window = await stores.open(WINDOW_STORE);
  try {
    // A window that is there, also a damaged one, goes by the table of load-window.ts.
    if ((await window.get(MANIFEST_KEY)) !== undefined) return false;
    const names = await remote(source, stopping, (signal) => source.snapshots.store.list(signal));
    for (const { name } of snapshotNames(names).slice(0, SNAPSHOT_CANDIDATES_MAX)) {
      try {
        const snapshot = await remote(source, stopping, (signal) => fetchSnapshot(source, name, signal));
        await writeSnapshot(source, window, snapshot, stopping);
        log.info("window restored from a snapshot", { partition, name, outNext: snapshot.outNext });
        return true;
      } catch (thrown) {
        if (!isCorrupt(thrown)) throw thrown;
        log.warn("a snapshot of the window cannot be used", { partition, name, reason: thrown.message });
      }
    }
    return false;
  } catch (thrown) {
    if (stopping.aborted) throw new ConcordError("DRAINING", `partition ${partition} stops here`, { cause: thrown });
    if (!(thrown instanceof SnapshotsUnreachable)) throw thrown;
    log.warn("snapshots cannot be read: the window is rebuilt from the output", { partition, reason: thrown.message });
    return false;
  } finally {
    await window.close();
  }
}

/** The snapshots' store, not one of ours: no reason to try the restore again. */
class SnapshotsUnreachable extends Error {}

function isCorrupt(thrown: unknown): thrown is ConcordError {
  return thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA";
}

/** In time, or SnapshotsUnreachable; what came and is not usable stays CORRUPT_DATA. */
async function remote<Answer>(
  { environment }: RestoreSource,
  stopping: AbortSignal,
  ask: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  try {
    return await bounded(environment.clock, SNAPSHOT_READ_MS_MAX, stopping, ask);
  } catch (thrown) {
    throw isCorrupt(thrown) ? thrown : new SnapshotsUnreachable(toConcordError(thrown).message, { cause: thrown });
  }
}

async function fetchSnapshot(source: RestoreSource, name: string, signal: AbortSignal): Promise<Snapshot> {
  const { snapshots, environment, partition, output, log } = source;
  const bytes = await snapshots.store.get(name, SNAPSHOT_MANIFEST_BYTES_MAX, signal);
  if (bytes === undefined) throw corrupt(`${name} is gone`);
  const snapshot = decodeSnapshot(bytes, environment.checksum);
  const { witness, idKey, outNext } = snapshot;
  if (snapshot.partition !== partition) throw corrupt(`${name} is of partition ${snapshot.partition}`);
  const isInRange = witness.offset >= output.start && witness.offset < outNext && outNext <= output.end;
  if (!isInRange) throw corrupt(`${name} ends at ${outNext}, the output holds ${output.start} to ${output.end}`);
  if (!(await hasWitness({ log, partition, hash: source.hash }, idKey, witness))) throw corrupt(`${name} is of another output`);
  return snapshot;
}

/** Segments first, each synced, then the manifest that lists them (I4): a death in between leaves stores that no manifest lists. */
async function writeSnapshot(source: RestoreSource, window: KeyValue, snapshot: Snapshot, stopping: AbortSignal): Promise<void> {
  const { stores, environment, segmentsMax, output } = source;
  const { checksum, failpoint } = environment;
  const { idKey, outNext, witness } = snapshot;
  assert(witness.offset < outNext && outNext <= output.end, "I12: a snapshot that is used ends within the output");
  await removeSegments(stores, new Set());
  await clearJournal(window);
  const segments: SegmentDescription[] = [];
  for (const segment of snapshot.segments.slice(-segmentsMax)) {
    const ids = await remote(source, stopping, (signal) => fetchIds(source, segment, idKey, signal));
    const { from, to, ids: count, oldestMs, newestMs } = segment;
    const description = { store: segmentStoreName(BigInt(segments.length + 1)), from, to, ids: count, oldestMs, newestMs };
    const store = await stores.open(description.store);
    try {
      await writeSegment(description, ids, store, seedOf(idKey), checksum);
    } finally {
      await store.close();
    }
    segments.push(description);
  }
  assert(segments.length > 0 && segments.length <= segmentsMax, "DD7: no more segments are restored than a window may have");
  failpoint("dedup:snapshot-written");
  const manifest = { idKey, segmentsTo: outNext, nextStore: BigInt(segments.length + 1), segments, quarantined: [] };
  await window.batch([{ kind: "put", key: MANIFEST_KEY, value: encodeManifest(manifest, checksum) }], { sync: true });
  failpoint("dedup:snapshot-restored");
}

async function fetchIds(
  { snapshots, hash }: RestoreSource,
  segment: SnapshotSegment,
  idKey: Uint8Array,
  signal: AbortSignal,
): Promise<Uint32Array> {
  const bytes = new Uint8Array(segment.ids * PACKED_ID_BYTES);
  let at = 0;
  for (const name of segment.blobs) {
    const length = Math.min(SNAPSHOT_BLOB_IDS * PACKED_ID_BYTES, bytes.length - at);
    const blob = await snapshots.store.get(name, length, signal);
    if (blob?.length !== length || blobName(idKey, blob, hash) !== name) throw corrupt(`${name} is not what the snapshot names`);
    bytes.set(blob, at);
    at += length;
  }
  assert(at === bytes.length, "DDD11: a segment is restored with all its ids");
  return packIds(bytes);
}
