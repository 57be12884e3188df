import { oidOf, type Oid, type BlobDescription } from "@concord/ports";
import { ConcordError, toConcordError, unreachable, type DiskFile } from "@concord/runtime";
import { Compaction } from "./compaction.ts";
import { REFRESH_ATTEMPTS_MAX } from "./limits.ts";
import { PackedView, type PackedViewOptions } from "./packed-view.ts";
import { RemovalLog } from "./removal-log.ts";
import { SegmentAppender, type Needle } from "./segment-appender.ts";
import { needleFile, segmentName } from "./segment-file.ts";
import { SegmentReaders } from "./segment-readers.ts";

export interface PackedEpochOptions extends PackedViewOptions {
  readonly segmentBytes: number;
  readonly waitingDeadBytes: number;
  /** Compactions of closed epochs come one after the other: a process may meet many of them at once. */
  readonly inTurn: (work: () => Promise<void>) => void;
}

/** A blob that this process has begun and that is no needle yet. */
export interface Begun {
  readonly description: BlobDescription;
  /** Buffered: nothing of it is on the disk. Failed: a needle of it may be. */
  state: { readonly kind: "buffered" } | { readonly kind: "appending"; readonly settled: Promise<unknown> } | { readonly kind: "failed" };
}

/** The packed blobs of one epoch. */
export class PackedEpoch {
  readonly #options: PackedEpochOptions;
  readonly #view: PackedView;
  readonly #appender: SegmentAppender;
  readonly #removals: RemovalLog;
  readonly #compaction: Compaction;
  readonly #readers: SegmentReaders;
  readonly #begun = new Map<number, Begun>();
  #isLoaded = false;
  /** This process appends to it, so others compact it when it is closed: the writer may be about to end. */
  #isWriter = false;
  #wasClosed = false;
  #isEnding = false;

  constructor(options: PackedEpochOptions) {
    this.#options = options;
    this.#view = new PackedView(options);
    this.#appender = new SegmentAppender({ ...options, view: this.#view });
    this.#removals = new RemovalLog(options);
    this.#readers = new SegmentReaders(options.disk);
    this.#compaction = new Compaction({ ...options, view: this.#view, current: () => this.#appender.current });
  }

  /** Takes the name for one caller until `release`. Undefined: the name is taken. */
  async begin(sequence: number, description: BlobDescription): Promise<Begun | undefined> {
    if (!this.#isLoaded) await this.refresh();
    if (this.#begun.has(sequence) || this.#view.index.get(sequence) !== undefined || this.#view.removed.has(sequence)) return undefined;
    const begun: Begun = { description, state: { kind: "buffered" } };
    this.#begun.set(sequence, begun);
    return begun;
  }

  /** The blob is stored elsewhere by now, or not at all. */
  release(sequence: number): void {
    this.#begun.delete(sequence);
  }

  /** EPOCH_FENCED also when it was removed meanwhile: it does not come back. */
  async append(begun: Begun, needle: Needle): Promise<void> {
    const { sequence } = needle;
    if (this.#begun.get(sequence) !== begun)
      throw new ConcordError("EPOCH_FENCED", `data blob ${oidOf(this.#options.epoch, sequence)} was removed`, { applied: "no" });
    this.#isWriter = true;
    const appended = this.#appender.append(needle);
    begun.state = { kind: "appending", settled: appended.catch(() => undefined) };
    try {
      await appended;
      this.#begun.delete(sequence);
    } catch (thrown) {
      begun.state = { kind: "failed" };
      // Within the bounds it is the adopter's, behind them it is nothing.
      if (toConcordError(thrown).code === "EPOCH_FENCED") this.#begun.delete(sequence);
      throw thrown;
    }
  }

  get hasBegun(): boolean {
    return this.#begun.size > 0;
  }

  begun(sequence: number): Begun | undefined {
    return this.#begun.get(sequence);
  }

  async refresh(): Promise<void> {
    await this.#view.refresh();
    this.#isLoaded = true;
    if (this.#wasClosed || this.#view.place?.closed !== true) return;
    this.#wasClosed = true;
    // What waited while it was open waits no longer; later removals in it compact by themselves.
    if (!this.#isWriter) this.#options.inTurn(() => (this.#isEnding ? Promise.resolve() : this.#compaction.run()));
  }

  /** Of what is known: after `refresh` of what is there. */
  has(sequence: number): boolean {
    return this.#view.index.get(sequence) !== undefined;
  }

  /** Undefined: there is no needle of it. */
  async open(sequence: number): Promise<DiskFile | undefined> {
    for (let attempt = 0; attempt < REFRESH_ATTEMPTS_MAX; attempt += 1) {
      const [known, parent] = [this.#view.index.get(sequence), this.#view.place ?? (await this.#firstPlace())];
      if (known === undefined || parent === undefined) return undefined;
      const segment = await this.#readers.open(`${parent.path}/${segmentName(known.segment)}`);
      if (segment !== undefined) return needleFile(segment, known.offset, known.lengthBytes);
      // The segments moved, or the needle to another one.
      await this.refresh();
    }
    throw new ConcordError("STORE_FAILED", `the segments of epoch ${this.#options.epoch} keep moving`, { applied: "no" });
  }

  /** False: there was none, and there will be none. Durable. */
  async remove(sequence: number): Promise<boolean> {
    const begun = this.#begun.get(sequence);
    if (begun !== undefined) return await this.#removeBegun(sequence, begun);
    if (!this.has(sequence) && !this.#view.removed.has(sequence)) await this.refresh();
    const removed = this.#view.removed.has(sequence);
    if (!this.has(sequence) && !removed) return false;
    // Also when it is removed already: that removal may not have been synced (I6).
    return await this.#recordRemoval(sequence);
  }

  /** In order. */
  list(fromSequence: number, limit: number): readonly Oid[] {
    const listed = new Set([...this.#begun.keys()].filter((sequence) => sequence >= fromSequence));
    let needles = 0;
    for (const sequence of this.#view.index.sequences(fromSequence)) {
      listed.add(sequence);
      needles += 1;
      if (needles === limit) break;
    }
    const sorted = [...listed].sort((left, right) => left - right);
    return sorted.slice(0, limit).map((sequence) => oidOf(this.#options.epoch, sequence));
  }

  /** Ends when no segment is left that is worth it. */
  compact(): Promise<void> {
    return this.#compaction.run();
  }

  /** Closes its files, after a running compaction. */
  async close(): Promise<void> {
    this.#isEnding = true;
    await this.#compaction.settled();
    await Promise.all([this.#appender.close(), this.#removals.close()]);
  }

  async #removeBegun(sequence: number, begun: Begun): Promise<boolean> {
    switch (begun.state.kind) {
      case "buffered":
        return this.#begun.delete(sequence);
      case "appending":
        await begun.state.settled;
        return await this.remove(sequence);
      case "failed":
        // A needle may have reached the disk: it stays removed.
        if (this.#view.place !== undefined || (await this.#options.folders.locatePacked(this.#options.epoch)) !== undefined)
          await this.#recordRemoval(sequence);
        return this.#begun.delete(sequence);
      default:
        return unreachable(begun.state);
    }
  }

  async #recordRemoval(sequence: number): Promise<boolean> {
    // Before the record: a refresh that reads it deletes the needle, too.
    const was = this.has(sequence);
    await this.#removals.append(sequence);
    this.#view.removed.add(sequence);
    this.#view.index.delete(sequence);
    void this.#compaction.run();
    return was;
  }

  /** Our own first segments are known before any listing. */
  async #firstPlace(): Promise<PackedView["place"]> {
    await this.refresh();
    return this.#view.place;
  }
}
