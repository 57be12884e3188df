import { ByteReader, ByteWriter, compareBytes, openRecord, sealRecord } from "@concord/codec";
import { READ_MORE_MS_MAX, writeMs, type StepRunner } from "@concord/ports";
import { chunksOf, encodedMutationsOf, mergeAnswers } from "@concord/quorum";
import { assert, sleep, Task, toConcordError, type Checksum, type Clock, type Log, type Metrics, type Tasks } from "@concord/runtime";
import type { DueComparisons } from "./due-comparisons.ts";
import {
  EXCHANGE_TRIES_MAX,
  REPAIR_BYTES_PER_MS,
  REPAIR_POLL_MS,
  REPAIR_REST_FACTOR,
  SEGMENT_LEAVES,
  SEGMENT_SLACK,
  SEGMENTS_PER_NOTE,
} from "./limits.ts";
import { LAST_KEY, type ComparedRows, type Segment, type SegmentRow } from "./row-sums.ts";

/** The rows of one peer, as they are compared and repaired. */
export interface ComparedPeer {
  readonly name: string;
  readonly reachable: boolean;
  sums(segment: Segment, timeoutMs: number): Promise<{ readonly to: Uint8Array; readonly leaves: readonly number[] }>;
  rows(segment: Segment, leaves: readonly number[], timeoutMs: number): Promise<{ to: Uint8Array; rows: readonly SegmentRow[] }>;
  /** As of quorum's RowReplica: its newest collection of tombstones, known from the sums at the latest. */
  readonly collection: string | undefined;
  applyCopies(mutations: readonly Uint8Array[], collection: string | undefined, timeoutMs: number): Promise<boolean>;
}

export interface AntiEntropyOptions {
  readonly self: string;
  readonly local: ComparedRows;
  /** This node's rows as copies are merged into them: quorum's LocalRowReplica is one. */
  readonly own: {
    readonly collection: string;
    applyCopies(mutations: readonly Uint8Array[], collection: string | undefined): Promise<boolean>;
  };
  /** All peers; of each pair of nodes the one whose name comes first compares, and each with a peer whose hints it dropped. */
  readonly peers: readonly ComparedPeer[];
  readonly due: DueComparisons;
  readonly runner: StepRunner;
  /** Reads what was noted of rounds. */
  readonly reader: { getMany(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> };
  readonly checksum: Checksum;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly timeoutMs: number;
  /** From the end of a round to the next one that nothing asks for, at least: more of a store that takes long to compare (REPAIR_REST_FACTOR). */
  readonly intervalMs: number;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** How far the comparison with one peer is. */
export interface RepairProgress {
  readonly peer: string;
  readonly isRunning: boolean;
  /** Another round follows at once. */
  readonly isWanted: boolean;
  readonly rowsCompared: number;
  /** Of the round before; 0: there was none in this life. */
  readonly rowsOfRound: number;
  readonly rowsRepaired: number;
  /** Wall clock of the end of the newest round. */
  readonly completedAtMs: number | undefined;
}

interface Round {
  readonly peer: ComparedPeer;
  /** This node's name comes first. False: rounds that are due alone. */
  readonly isOwn: boolean;
  /** How many hints for the peer had been dropped when it began; undefined: it goes on from a note, or left something out. */
  whole: { readonly drops: number } | undefined;
  /** Monotonic; of a round that goes on from a note: when it went on. */
  beganAtMs: number;
  /** Where it goes on. */
  from: Uint8Array;
  isWanted: boolean;
  isRunning: boolean;
  nextAtMs: number;
  /** A round that is due again, since hints were dropped while it ran, rests as long as it took. */
  restUntilMs: number;
  segments: number;
  rowsCompared: number;
  rowsOfRound: number;
  rowsRepaired: number;
  completedAtMs: number | undefined;
}

const BEGINNING = new Uint8Array();

/**
 * Makes the plain rows of two nodes equal: segment by segment, sums first, then the rows of leaves whose sums differ, merged at both. A
 * deletion is an image like any other and wins by its timestamp, so nothing comes back. Rounds are paced, hold one segment in memory and go
 * on after a restart where they were.
 */
export class AntiEntropy {
  readonly #options: AntiEntropyOptions;
  readonly #rounds: readonly Round[];
  readonly #unreachable = new Set<string>();
  readonly #tasks: readonly Task[];

  constructor(options: AntiEntropyOptions) {
    this.#options = options;
    this.#rounds = options.peers.map((peer) => newRound(peer, options.self < peer.name));
    this.#tasks = [...this.#rounds.map((round) => this.#taskOf(round)), this.#watch()];
  }

  /** A round with each peer begins: this node was away, at least for as long as it took to start. */
  start(): void {
    this.wake();
    for (const task of this.#tasks) task.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#tasks.map((task) => task.stop()));
  }

  /** Some node was away: what it wrote or missed may be anywhere, so every pair compares all its rows once more. */
  wake(): void {
    for (const round of this.#rounds) round.isWanted = true;
  }

  progress(): readonly RepairProgress[] {
    const shown = this.#rounds.filter(({ isOwn, isRunning, completedAtMs }) => isOwn || isRunning || completedAtMs !== undefined);
    return shown.map(({ peer, isRunning, isWanted, rowsCompared, rowsOfRound, rowsRepaired, completedAtMs }) => {
      return { peer: peer.name, isRunning, isWanted, rowsCompared, rowsOfRound, rowsRepaired, completedAtMs };
    });
  }

  /** Compares the next segment; answers whether the round ended with it. Rejects when the peer does not answer. */
  async compareNext(peer: string): Promise<boolean> {
    const round = this.#rounds.find((one) => one.peer.name === peer);
    assert(round !== undefined, "this node compares with the peer");
    if (!round.isRunning) this.#begin(round);
    return this.#segment(round);
  }

  #taskOf(round: Round): Task {
    const { log } = this.#options;
    let isResumed = false;
    return new Task({
      ...this.#options,
      name: `storage: comparison with ${round.peer.name}`,
      step: async (signal) => {
        if (!isResumed) await this.#resume(round);
        isResumed = true;
        if (!this.#isDue(round) || !round.peer.reachable) return REPAIR_POLL_MS;
        if (!round.isRunning) this.#begin(round);
        await this.#segment(round, signal);
        return 0;
      },
      retryMs: () => REPAIR_POLL_MS,
      failed: ({ message }) => log.debug("a comparison of rows failed; it goes on", { peer: round.peer.name, reason: message }),
      progress: () => ({ rowsCompared: round.rowsCompared, rowsOfRound: round.rowsOfRound, rowsRepaired: round.rowsRepaired }),
    });
  }

  #isDue(round: Round): boolean {
    const { clock, due } = this.#options;
    if (round.isRunning || (round.isOwn && round.isWanted)) return true;
    const isRested = clock.monotonicMs() >= round.restUntilMs;
    return due.isDue(round.peer.name) ? isRested : round.isOwn && clock.monotonicMs() >= round.nextAtMs;
  }

  /** A peer that was not reachable for a while and is again. */
  #watch(): Task {
    const { log, peers } = this.#options;
    const step = async (): Promise<number> => {
      for (const { name, reachable } of peers) {
        if (!reachable) this.#unreachable.add(name);
        else if (this.#unreachable.delete(name)) this.wake();
      }
      return REPAIR_POLL_MS;
    };
    return new Task({
      ...this.#options,
      name: "storage: peers that come back",
      step,
      retryMs: () => REPAIR_POLL_MS,
      failed: ({ message }) => log.error("peers that come back are not noticed", { reason: message }),
    });
  }

  #begin(round: Round): void {
    round.isRunning = true;
    round.isWanted = false;
    round.whole = { drops: this.#options.due.dropsOf(round.peer.name) };
    round.beganAtMs = this.#options.clock.monotonicMs();
    round.rowsCompared = 0;
    round.segments = 0;
  }

  async #segment(round: Round, signal?: AbortSignal): Promise<boolean> {
    const { clock, local, timeoutMs } = this.#options;
    const { peer, from } = round;
    const own = await local.sums({ from, to: LAST_KEY }, 1);
    const theirs = await peer.sums({ from, to: own.to }, timeoutMs);
    const segment = { from, to: theirs.to };
    assert(compareBytes(from, segment.to) < 0 && compareBytes(segment.to, own.to) <= 0, "a segment moves on within what was asked for");
    const mine = compareBytes(own.to, segment.to) === 0 ? own : await local.sums(segment, SEGMENT_SLACK);
    // More rows came to this side meanwhile than a segment holds: all leaves are looked at.
    const isComparable = compareBytes(mine.to, segment.to) === 0;
    const differing = theirs.leaves.flatMap((sum, leaf) => (isComparable && sum === mine.leaves[leaf] ? [] : [leaf]));
    if (differing.length > 0) await this.#exchange(round, segment, differing);
    round.rowsCompared += mine.rows;
    if (mine.damaged > 0) round.whole = undefined;
    round.from = segment.to;
    const isOver = compareBytes(segment.to, LAST_KEY) === 0;
    const { whole } = round;
    if (isOver) this.#end(round);
    if (isOver && whole !== undefined) await this.#options.due.compared(peer.name, whole.drops);
    round.segments += 1;
    if (isOver || round.segments % SEGMENTS_PER_NOTE === 0) await this.#note(round);
    await sleep(clock, Math.ceil(mine.bytes / REPAIR_BYTES_PER_MS), signal);
    return isOver;
  }

  #end(round: Round): void {
    const { clock, intervalMs, metrics } = this.#options;
    const { name } = round.peer;
    round.from = BEGINNING;
    round.isRunning = false;
    const nowMs = clock.monotonicMs();
    const tookMs = nowMs - round.beganAtMs;
    round.restUntilMs = nowMs + tookMs;
    round.nextAtMs = nowMs + Math.max(intervalMs, REPAIR_REST_FACTOR * tookMs);
    round.rowsOfRound = round.rowsCompared;
    round.completedAtMs = clock.nowMs();
    metrics.count("repair_rounds_total", 1, { peer: name });
    metrics.gauge("repair_completed_timestamp_seconds", round.completedAtMs / 1000, { peer: name });
  }

  /** Merges the rows of some leaves, page by page of the peer. A page of which a side took nothing back, since it dropped tombstones, is read anew. */
  async #exchange(round: Round, segment: Segment, leaves: readonly number[]): Promise<void> {
    assert(leaves.length <= SEGMENT_LEAVES, "each leaf once");
    let { from } = segment;
    while (compareBytes(from, segment.to) < 0) {
      let page = await this.#exchangePage(round, { from, to: segment.to }, leaves);
      for (let tries = 1; page.isStale && tries < EXCHANGE_TRIES_MAX; tries += 1) {
        page = await this.#exchangePage(round, { from, to: segment.to }, leaves);
      }
      round.isWanted ||= page.isStale;
      if (page.isStale) round.whole = undefined;
      assert(compareBytes(from, page.to) < 0, "each page moves on");
      from = page.to;
    }
  }

  async #exchangePage(
    round: Round,
    segment: Segment,
    leaves: readonly number[],
  ): Promise<{ readonly to: Uint8Array; readonly isStale: boolean }> {
    const { local, own: ownRows, metrics } = this.#options;
    const timeoutMs = this.#options.timeoutMs + READ_MORE_MS_MAX;
    const { peer } = round;
    // known before the first row is read (I11 of the quorum README)
    const collections = [ownRows.collection, peer.collection] as const;
    const theirs = await peer.rows(segment, leaves, timeoutMs);
    const own: SegmentRow[] = [];
    for (let at = segment.from; compareBytes(at, theirs.to) < 0;) {
      const page = await local.rows({ from: at, to: theirs.to }, new Set(leaves), 1);
      own.push(...page.rows);
      at = page.to;
    }
    const isStale = !(await this.#mergeBoth(round, [own, theirs.rows], collections));
    if (isStale) metrics.count("repair_stale_copies_total", 1, { peer: peer.name });
    return { to: theirs.to, isStale };
  }

  /** False: a side did not take all of it. */
  async #mergeBoth(
    round: Round,
    [own, theirs]: readonly [readonly SegmentRow[], readonly SegmentRow[]],
    [ownCollection, theirCollection]: readonly [string, string | undefined],
  ): Promise<boolean> {
    const { own: ownRows, checksum, metrics, timeoutMs } = this.#options;
    const lacking: readonly [Uint8Array[], Uint8Array[]] = [[], []];
    for (const answers of pairs(own, theirs)) {
      const row = mergeAnswers(answers, checksum);
      // It follows from a log: the log brings it.
      if (row.place !== undefined || row.image === undefined) continue;
      const mutations = encodedMutationsOf(row.image);
      if (row.stale[0]) lacking[0].push(...mutations);
      if (row.stale[1]) lacking[1].push(...mutations);
      if (row.stale.includes(true)) round.rowsRepaired += 1;
    }
    const { peer } = round;
    let areTaken = true;
    for (const chunk of chunksOf(lacking[0])) {
      areTaken = (await this.#unlessDamaged(round, ownRows.applyCopies(chunk, ownCollection))) && areTaken;
    }
    for (const chunk of chunksOf(lacking[1])) {
      const bytes = chunk.reduce((sum, mutation) => sum + mutation.length, 0);
      areTaken = (await this.#unlessDamaged(round, peer.applyCopies(chunk, theirCollection, writeMs(timeoutMs, bytes)))) && areTaken;
    }
    metrics.count("repair_mutations_total", lacking[0].length, { peer: peer.name, to: "self" });
    metrics.count("repair_mutations_total", lacking[1].length, { peer: peer.name, to: "peer" });
    return areTaken;
  }

  /** A damaged row is healed by its own node; the others of the call are merged. */
  async #unlessDamaged(round: Round, merged: Promise<boolean>): Promise<boolean> {
    try {
      return await merged;
    } catch (thrown) {
      if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
      round.whole = undefined;
      return true;
    }
  }

  /** After a restart the rest of the round is compared, and then all once more. */
  async #resume(round: Round): Promise<void> {
    const { reader, checksum, log } = this.#options;
    try {
      const [stored] = await reader.getMany([noteKey(round.peer.name)]);
      if (stored === undefined || round.isRunning) return;
      const from = new ByteReader(openRecord(stored, NOTE_VERSION, checksum).body).bytes();
      if (from.length === 0) return;
      round.from = from.slice();
      round.isRunning = true;
      round.whole = undefined;
      round.beganAtMs = this.#options.clock.monotonicMs();
    } catch (thrown) {
      log.warn("a round of repair begins anew", { peer: round.peer.name, reason: toConcordError(thrown).message });
    }
  }

  #note({ peer, from }: Round): Promise<void> {
    const value = sealRecord(NOTE_VERSION, new ByteWriter().bytes(from), this.#options.checksum);
    return this.#options.runner.submit({
      load: [],
      run: () => ({ persist: [{ kind: "put", key: noteKey(peer.name), value }], reply: undefined }),
    });
  }
}

const NOTE_VERSION = 1;

function noteKey(peer: string): Uint8Array {
  return new TextEncoder().encode(`m:repair:${peer}`);
}

function newRound(peer: ComparedPeer, isOwn: boolean): Round {
  const counts = { segments: 0, rowsCompared: 0, rowsOfRound: 0, rowsRepaired: 0, beganAtMs: 0, restUntilMs: 0, nextAtMs: 0 };
  return { peer, isOwn, whole: undefined, from: BEGINNING, isWanted: true, isRunning: false, ...counts, completedAtMs: undefined };
}

const NEVER_WRITTEN = new Uint8Array();

/** Both copies of each row that differ; both lists are in the order of keys. */
function* pairs(own: readonly SegmentRow[], theirs: readonly SegmentRow[]): Generator<readonly [Uint8Array, Uint8Array]> {
  let [left, right] = [0, 0];
  while (left < own.length || right < theirs.length) {
    const [mine, other] = [own[left], theirs[right]];
    const order = mine === undefined ? 1 : other === undefined ? -1 : compareBytes(mine.key, other.key);
    if (order <= 0) left += 1;
    if (order >= 0) right += 1;
    const [first, second] = [order <= 0 ? mine!.value : NEVER_WRITTEN, order >= 0 ? other!.value : NEVER_WRITTEN];
    if (compareBytes(first, second) !== 0) yield [first, second];
  }
}
