import type { KeyRange, KeyValue, KeyValueEntry, KeyValueOperation, StepRunner } from "@concord/ports";
import { chunksOf, quarantine } from "@concord/quorum";
import { assert, ConcordError, type Checksum, type Log, type Metrics } from "@concord/runtime";
import { DueComparisons } from "./due-comparisons.ts";
import { decodeHint, encodeHint, HINTS_NAMESPACE, hintKey, hintRange, readHintKey, type Hint } from "./hint-format.ts";
import { HINT_BYTES_MAX, HINT_CALL_BYTES_TARGET, HINT_CALL_HINTS_MAX, HINT_CALL_MUTATIONS_TARGET } from "./limits.ts";

/** Why a hint went without its peer having it: the comparison that is due from then on brings what it held (I14). */
export type HintDrop = "full" | "expired" | "refused" | "unreadable";

export interface HintStoreOptions {
  readonly runner: StepRunner;
  /** Sees every step submitted before, answers only what is on disk. */
  readonly reader: { range(range: KeyRange): Promise<KeyValueEntry[]> };
  readonly checksum: Checksum;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Per peer. */
  readonly bytesMax?: number;
}

/** What waits for one peer. */
export interface HintBacklog {
  readonly hints: number;
  readonly bytes: number;
  /** Wall clock; undefined: nothing waits. The oldest hint is not older. */
  readonly oldestMs: number | undefined;
}

/** Where what a peer did not confirm is now: in a hint, or dropped, with a comparison of all rows due. */
export type HintKept = "hint" | "comparison";

/** A hint as it lies in the store. */
export interface StoredHint extends Hint {
  readonly key: Uint8Array;
  readonly bytes: number;
}

interface Backlog {
  hints: number;
  bytes: number;
  oldestMs: number | undefined;
  nextSequence: bigint;
}

/**
 * Hints of this node on its own disk, in the order in which they were made (LB9). What is in memory of them is counts; it changes only
 * inside steps, in the order in which these reach the disk.
 */
export class HintStore {
  /** Of peers whose hints were dropped. */
  readonly due: DueComparisons;
  readonly #options: HintStoreOptions;
  readonly #backlogs = new Map<string, Backlog>();

  private constructor(options: HintStoreOptions, due: DueComparisons) {
    this.#options = options;
    this.due = due;
  }

  /** Counts what an earlier life left. */
  static async open(store: Pick<KeyValue, "range">, options: HintStoreOptions): Promise<HintStore> {
    const hints = new HintStore(options, await DueComparisons.open(store, options));
    let from: Uint8Array = Uint8Array.of(HINTS_NAMESPACE);
    for (;;) {
      const range = { from, to: Uint8Array.of(HINTS_NAMESPACE + 1), limit: HINT_CALL_HINTS_MAX, bytesMax: HINT_CALL_BYTES_TARGET };
      const page = await store.range(range);
      for (const entry of page) hints.#found(entry);
      const last = page.at(-1);
      if (last === undefined) return hints;
      from = Uint8Array.of(...last.key, 0);
    }
  }

  /** Peers for which hints wait. */
  peers(): readonly string[] {
    return [...this.#backlogs].filter(([, { hints }]) => hints > 0).map(([peer]) => peer);
  }

  backlog(peer: string): HintBacklog {
    const { hints, bytes, oldestMs } = this.#backlogOf(peer);
    return { hints, bytes, oldestMs };
  }

  /**
   * Resolves when the mutations are on disk for the peer, or, without space for them, the note that a comparison with it is due (I14). This node must
   * have the rows on disk then, or another node a hint: the comparison sends what is here.
   */
  async add(peer: string, createdMs: number, mutations: readonly Uint8Array[]): Promise<HintKept> {
    const { runner, checksum, bytesMax = HINT_BYTES_MAX } = this.#options;
    const values = chunksOf(mutations).map((chunk) => encodeHint({ createdMs, mutations: chunk }, checksum));
    const kept = await runner.submit<HintKept>({
      load: [],
      run: () => {
        const backlog = this.#backlogOf(peer);
        const entries = values.map((value, at) => ({ key: hintKey(peer, backlog.nextSequence + BigInt(at)), value }));
        const bytes = entries.reduce((sum, entry) => sum + sizeOf(entry), 0);
        if (backlog.bytes + bytes > bytesMax) return { persist: [this.due.dropped(peer)], reply: "comparison" };
        backlog.nextSequence += BigInt(entries.length);
        for (const entry of entries) this.#count(backlog, sizeOf(entry), createdMs);
        return { persist: entries.map((entry) => ({ kind: "put", ...entry })), reply: "hint" };
      },
    });
    if (kept === "hint") this.#report(peer);
    else this.#countDropped(peer, "full", mutations.length);
    return kept;
  }

  /** The first ones, as many as go into one call. Those that fail their check are quarantined on the way. */
  async oldest(peer: string): Promise<readonly StoredHint[]> {
    const { reader, checksum } = this.#options;
    const range = { ...hintRange(peer), limit: HINT_CALL_HINTS_MAX, bytesMax: HINT_CALL_BYTES_TARGET };
    const hints: StoredHint[] = [];
    let mutations = 0;
    for (const entry of await reader.range(range)) {
      if (mutations >= HINT_CALL_MUTATIONS_TARGET) break;
      const hint = readable(entry, checksum);
      if (hint === undefined) {
        await this.#quarantine(peer, entry);
        continue;
      }
      mutations += hint.mutations.length;
      hints.push({ ...hint, key: entry.key, bytes: sizeOf(entry) });
    }
    const backlog = this.#backlogOf(peer);
    if (hints.length > 0 && backlog.hints > 0) backlog.oldestMs = hints[0]!.createdMs;
    return hints;
  }

  /** Durable when it resolves: they do not come again. */
  async remove(peer: string, hints: readonly StoredHint[]): Promise<void> {
    assert(hints.length > 0, "something is removed");
    await this.#options.runner.submit({
      load: [],
      run: () => {
        for (const { bytes } of hints) this.#uncount(this.#backlogOf(peer), bytes);
        return { persist: hints.map(({ key }) => ({ kind: "delete", key })), reply: undefined };
      },
    });
    this.#report(peer);
  }

  /** As `remove`, of hints that the peer will not get; a comparison with it is due from then on (I14). */
  async drop(peer: string, reason: HintDrop, hints: readonly StoredHint[]): Promise<void> {
    assert(hints.length > 0, "something is dropped");
    await this.#options.runner.submit({
      load: [],
      run: () => {
        for (const { bytes } of hints) this.#uncount(this.#backlogOf(peer), bytes);
        const removals = hints.map(({ key }): KeyValueOperation => ({ kind: "delete", key }));
        return { persist: [...removals, this.due.dropped(peer)], reply: undefined };
      },
    });
    this.#report(peer);
    this.#countDropped(
      peer,
      reason,
      hints.reduce((sum, { mutations }) => sum + mutations.length, 0),
    );
  }

  /** LB17: every mutation that its peer will not get as a hint. */
  #countDropped(peer: string, reason: HintDrop, mutations: number): void {
    this.#options.metrics.count("hints_dropped_total", mutations, { peer, reason });
  }

  async #quarantine(peer: string, entry: KeyValueEntry): Promise<void> {
    await this.#options.runner.submit({
      load: [],
      run: () => {
        this.#uncount(this.#backlogOf(peer), sizeOf(entry));
        const moved: KeyValueOperation[] = [quarantine(entry.key, entry.value), { kind: "delete", key: entry.key }];
        return { persist: [...moved, this.due.dropped(peer)], reply: undefined };
      },
    });
    this.#countDropped(peer, "unreadable", 1);
  }

  #found(entry: KeyValueEntry): void {
    const { peer, sequence } = readHintKey(entry.key);
    const backlog = this.#backlogOf(peer);
    assert(sequence >= backlog.nextSequence, "hints of a peer are found in order");
    backlog.nextSequence = sequence + 1n;
    this.#count(backlog, sizeOf(entry), readable(entry, this.#options.checksum)?.createdMs ?? 0);
  }

  #count(backlog: Backlog, bytes: number, createdMs: number): void {
    if (backlog.hints === 0) backlog.oldestMs = createdMs;
    backlog.hints += 1;
    backlog.bytes += bytes;
  }

  #uncount(backlog: Backlog, bytes: number): void {
    backlog.hints -= 1;
    backlog.bytes -= bytes;
    assert(backlog.hints >= 0 && backlog.bytes >= 0, "what is removed was counted");
    if (backlog.hints === 0) backlog.oldestMs = undefined;
  }

  #backlogOf(peer: string): Backlog {
    let backlog = this.#backlogs.get(peer);
    if (backlog === undefined) this.#backlogs.set(peer, (backlog = { hints: 0, bytes: 0, oldestMs: undefined, nextSequence: 1n }));
    return backlog;
  }

  #report(peer: string): void {
    const { hints, bytes } = this.backlog(peer);
    this.#options.metrics.gauge("hints_pending", hints, { peer });
    this.#options.metrics.gauge("hints_pending_bytes", bytes, { peer });
  }
}

const sizeOf = ({ key, value }: KeyValueEntry): number => key.length + value.length;

function readable({ value }: KeyValueEntry, checksum: Checksum): Hint | undefined {
  try {
    return decodeHint(value, checksum);
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return undefined;
    throw thrown;
  }
}
