import type { MessageLog } from "@concord/ports";
import { assert, ConcordError, every, Task, type Environment } from "@concord/runtime";
import type { IdHash, SnapshotOptions } from "./api.ts";
import { PACKED_ID_BYTES } from "./id-words.ts";
import { IDS_PER_BLOCK, SNAPSHOT_BLOB_IDS, SNAPSHOT_MANIFEST_BYTES_MAX, SNAPSHOT_MS_MAX } from "./limits.ts";
import { findWitness } from "./output-witness.ts";
import {
  BLOB_PREFIX,
  blobName,
  blobsOf,
  decodeSnapshot,
  encodeSnapshot,
  lineageOf,
  snapshotBytes,
  snapshotName,
  snapshotNames,
  type Snapshot,
  type SnapshotSegment,
} from "./snapshot-format.ts";
import { bounded } from "./snapshot-time.ts";
import type { WrittenSegment, Window } from "./window.ts";

export interface SnapshotSource {
  readonly log: MessageLog;
  readonly partition: number;
  readonly hash: IdHash;
  readonly snapshots: SnapshotOptions;
  readonly environment: Pick<Environment, "clock" | "checksum" | "log" | "metrics" | "failpoint" | "tasks">;
}

/**
 * Snapshots of one tenure's window, one after the other (DD18): the immutable segments, each blob of them uploaded once, then the manifest
 * (DDD11). Ids of the active segment are in none: a restore reads them from the output. A failure costs a snapshot, nothing else.
 */
export class Snapshots {
  readonly #source: SnapshotSource;
  readonly #window: Window;
  readonly #task: Task;
  /** Names of the blobs of segments that this tenure has read, by store: segments never change. */
  readonly #blobs = new Map<string, readonly string[]>();
  #takenAt: bigint | undefined;
  #takenMs: number;

  constructor(source: SnapshotSource, window: Window, stopping: AbortSignal) {
    this.#source = source;
    this.#window = window;
    const { environment, partition, snapshots } = source;
    const { clock, tasks, metrics, log } = environment;
    this.#takenMs = clock.monotonicMs();
    const measure = (): void =>
      metrics.gauge("dedup_snapshot_age_seconds", (clock.monotonicMs() - this.#takenMs) / 1000, { partition: String(partition) });
    this.#task = new Task({
      clock,
      tasks,
      name: `messages: snapshots of partition ${partition}`,
      firstAfterMs: snapshots.everyMs,
      ...every(snapshots.everyMs, async (signal) => {
        await bounded(clock, SNAPSHOT_MS_MAX, signal, (deadline) => this.#take(deadline));
        this.#takenMs = clock.monotonicMs();
        measure();
      }),
      failed: ({ message }) => {
        metrics.count("dedup_snapshots_total", 1, { result: "failed" });
        log.warn("a snapshot of the window was not taken", { partition, reason: message });
        measure();
      },
      progress: () => ({ takenTo: String(this.#takenAt ?? "none") }),
    });
    // The worker stops: the store may hang, and the page in progress with it.
    stopping.addEventListener("abort", () => void this.#task.stop(), { once: true, signal: this.#task.signal });
    if (!stopping.aborted) this.#task.start();
  }

  /** After the write in flight, or without waiting for a store that does not answer. Never rejects. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #take(signal: AbortSignal): Promise<void> {
    const { partition, hash, environment, snapshots } = this.#source;
    const { checksum, failpoint, metrics } = environment;
    const { store } = snapshots;
    const written = this.#window.written;
    const newest = written?.segments.at(-1);
    if (written === undefined || newest === undefined || written.outNext === this.#takenAt) return;
    const { idKey, outNext } = written;
    assert(newest.description.to <= outNext, "I11: a snapshot's segments end where its output goes on");
    const follows = written.segments.every(({ description }, at, all) => at === 0 || all[at - 1]!.description.to <= description.from);
    assert(follows, "I11: a snapshot's segments follow each other, the oldest first");
    assert(this.#takenAt === undefined || outNext > this.#takenAt, "DD18: each snapshot of a window has more");
    const held = new Set(await store.list(signal));
    const segments: SnapshotSegment[] = [];
    for (const segment of written.segments) {
      const { from, to, ids, oldestMs, newestMs } = segment.description;
      segments.push({ from, to, ids, oldestMs, newestMs, blobs: await this.#upload(segment, idKey, held, signal) });
    }
    assert(
      segments.every(({ blobs }) => blobs.every((blob) => held.has(blob))),
      "I11: blobs are there before the manifest that names them",
    );
    const witness = await findWitness(this.#source, idKey, newest.description.from, newest.description.to);
    if (witness === undefined) throw new ConcordError("NOT_FOUND", "the output no longer has the newest segment's messages");
    assert(witness.offset < outNext, "I12: the witness is a message that the snapshot covers");
    failpoint("dedup:snapshot-uploaded");
    signal.throwIfAborted();
    // The manifest last: what it names is there (I11).
    const snapshot: Snapshot = { partition, idKey, outNext, witness, segments };
    await store.put(snapshotName(outNext, lineageOf(idKey, hash)), encodeSnapshot(snapshot, checksum), signal);
    failpoint("dedup:snapshot-taken");
    this.#takenAt = outNext;
    metrics.count("dedup_snapshots_total", 1, { result: "taken" });
    metrics.gauge("dedup_snapshot_bytes", snapshotBytes(snapshot), { partition: String(partition) });
    await this.#removeOld(snapshot, signal);
  }

  /** Resolves with the names of the segment's blobs, all of which are held then. */
  async #upload(segment: WrittenSegment, idKey: Uint8Array, held: Set<string>, signal: AbortSignal): Promise<readonly string[]> {
    const { hash, snapshots } = this.#source;
    const { store: name, ids } = segment.description;
    const known = this.#blobs.get(name);
    if (known?.every((blob) => held.has(blob)) === true) return known;
    const blobs: string[] = [];
    for (let number = 0; number < blobsOf(ids); number += 1) {
      const bytes = await segment.read((number * SNAPSHOT_BLOB_IDS) / IDS_PER_BLOCK, SNAPSHOT_BLOB_IDS / IDS_PER_BLOCK);
      const rest = Math.min(SNAPSHOT_BLOB_IDS, ids - number * SNAPSHOT_BLOB_IDS);
      assert(bytes.length === rest * PACKED_ID_BYTES, "I11: the blobs of a segment have all its ids");
      const blob = blobName(idKey, bytes, hash);
      signal.throwIfAborted();
      if (!held.has(blob)) await snapshots.store.put(blob, bytes, signal);
      held.add(blob);
      blobs.push(blob);
    }
    this.#blobs.set(name, blobs);
    return blobs;
  }

  /**
   * What the newest `kept` snapshots of this window do not name goes, manifests before blobs: also snapshots of windows with another key, which
   * this one replaces, and what an interrupted upload left. An owner before that wakes here can at worst remove blobs: that snapshot is then
   * damaged, and the window is rebuilt from the output.
   */
  async #removeOld(newest: Snapshot, signal: AbortSignal): Promise<void> {
    const { hash, snapshots, environment } = this.#source;
    const { store, kept } = snapshots;
    assert(newest.outNext === this.#takenAt, "DDD11: what a snapshot replaces is removed after it is there");
    const lineage = lineageOf(newest.idKey, hash);
    const held = await store.list(signal);
    const all = snapshotNames(held);
    const own = all.filter((each) => each.lineage === lineage && each.outNext <= newest.outNext).slice(0, kept);
    const named = new Set(newest.segments.flatMap(({ blobs }) => blobs));
    for (const { name, outNext } of own) {
      if (outNext === newest.outNext) continue;
      const bytes = await store.get(name, SNAPSHOT_MANIFEST_BYTES_MAX, signal);
      if (bytes !== undefined)
        for (const { blobs } of decodeSnapshot(bytes, environment.checksum).segments) blobs.forEach((blob) => named.add(blob));
    }
    const keptNames = new Set(own.map(({ name }) => name));
    for (const { name } of all) if (!keptNames.has(name)) await store.remove(name, signal);
    for (const name of held) if (name.startsWith(BLOB_PREFIX) && !named.has(name)) await store.remove(name, signal);
    const listed = new Set((this.#window.written?.segments ?? []).map(({ description }) => description.store));
    for (const name of this.#blobs.keys()) if (!listed.has(name)) this.#blobs.delete(name);
  }
}
