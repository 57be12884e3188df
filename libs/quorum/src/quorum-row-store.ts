import { compareBytes } from "@concord/codec";
import {
  readMs,
  writeMs,
  type LogPosition,
  type Mutation,
  type ReadOptions,
  type RowImage,
  type RowKey,
  type RowOptions,
  type RowPage,
  type RowRange,
  type RowStore,
} from "@concord/ports";
import { encodeMutation, encodeRange, encodeRowKey, liveRow, decodeRowKey } from "@concord/rows";
import {
  assert,
  ConcordError,
  deferred,
  SEQ_NONE,
  silentMetrics,
  TIMESTAMP_ZERO,
  toConcordError,
  type Checksum,
  type Clock,
  type Metrics,
  type Seq,
  type TimestampUs,
} from "@concord/runtime";
import { gather, type Answer, type Gathered } from "./gather.ts";
import { chunksOf } from "./chunks.ts";
import { areStaleCopies, neverApplied, readError, staleCopies, tooFewReachable, writeError, type TooFew } from "./quorum-errors.ts";
import { encodedMutationsOf } from "./image-mutations.ts";
import {
  BACKGROUND_REPAIRS_MAX,
  PAGE_ROW_BYTES_MAX,
  RANGE_IMAGES_MAX,
  RANGE_SCAN_IMAGES_MAX,
  RANGE_SLACK_IMAGES,
  READ_AGAIN_KEYS_MAX,
  READ_CHUNK_KEYS_MAX,
  READ_TRIES_MAX,
} from "./limits.ts";
import { mergeAnswers, mergePages, NO_ROW, type MergedRow } from "./merge-answers.ts";
import { ReadTime } from "./read-time.ts";
import type { ReplicaPage, RowReplica } from "./row-replica.ts";
import type { RowSizes } from "./row-sizes.ts";
import { keyOfStored, type LogPlace } from "./stored-row.ts";

export interface QuorumRowStoreOptions {
  /** 1 or 3. */
  readonly replicas: readonly RowReplica[];
  readonly clock: Clock;
  readonly checksum: Checksum;
  readonly metrics?: Metrics;
  /** Refuses what would make a row too large, before it is sent (I13). */
  readonly sizes?: Pick<RowSizes, "check" | "known">;
  /** A replica did not confirm mutations that another one may have: told once the calls to all replicas have ended (LB9). */
  readonly onMissed?: (replica: string, mutations: readonly Uint8Array[]) => void;
}

interface ReadCall {
  readonly time: ReadTime;
  readonly after: readonly LogPosition[];
}

/** Which replicas a read counts, and the collection that each of all replicas had named before the read began. */
interface Answered {
  readonly replicas: readonly number[];
  readonly collections: readonly (string | undefined)[];
}

/** Row keys in the storage format of one page's bounds, moving forward as pages are decided. */
interface Bounds {
  from: Uint8Array;
  to: Uint8Array;
}

/**
 * Rows on 1 or 3 replicas (TX11). Writes go to all and succeed with a majority; reads go to all, the fastest majority counts (TX12),
 * answers are merged by timestamp and the older replica is repaired before the caller gets them (TX30).
 */
export class QuorumRowStore implements RowStore {
  /** So a serial read has nothing to decide: it is a quorum read. */
  readonly #replicas: readonly RowReplica[];
  readonly #quorum: number;
  readonly #clock: Clock;
  readonly #checksum: Checksum;
  readonly #metrics: Metrics;
  readonly #sizes: QuorumRowStoreOptions["sizes"];
  readonly #onMissed: NonNullable<QuorumRowStoreOptions["onMissed"]>;
  /** Calls of writes that have not ended: the answer of a write waits for a majority only. */
  readonly #writing = new Set<Promise<void>>();
  #backgroundRepairs = 0;

  constructor(options: QuorumRowStoreOptions) {
    assert(options.replicas.length === 1 || options.replicas.length === 3, "a ring has 1 or 3 replicas (TXR4)");
    this.#replicas = options.replicas;
    assert(new Set(options.replicas.map(({ name }) => name)).size === options.replicas.length, "replicas are distinct");
    this.#quorum = Math.floor(options.replicas.length / 2) + 1;
    assert(2 * this.#quorum > options.replicas.length, "two quorums share a replica (TX30)");
    this.#clock = options.clock;
    this.#checksum = options.checksum;
    this.#metrics = options.metrics ?? silentMetrics;
    this.#sizes = options.sizes;
    this.#onMissed = options.onMissed ?? (() => undefined);
  }

  /** REPLICAS_UNAVAILABLE, READ_TIMEOUT, CORRUPT_DATA. */
  async read(keys: readonly RowKey[], options: ReadOptions): Promise<(RowImage | undefined)[]> {
    const time = new ReadTime(this.#clock, options);
    const { after = [] } = options;
    const chunks: Promise<readonly MergedRow[]>[] = [];
    for (let at = 0; at < keys.length; at += READ_CHUNK_KEYS_MAX) {
      chunks.push(this.#readChunk(keys.slice(at, at + READ_CHUNK_KEYS_MAX).map(encodeRowKey), { time, after }));
    }
    return (await Promise.all(chunks)).flat().map((row) => row.image);
  }

  /**
   * Reads a page, as `read` does a row. It is shorter than its limit, with `next`, when its rows would have more than PAGE_ROW_BYTES_MAX, when
   * RANGE_SCAN_IMAGES_MAX images were looked at, or when half of its time is used: what is there is not lost to a time-out. One without a row goes
   * on until both hold: an empty page would only be asked for again.
   */
  async readRange(range: RowRange, options: ReadOptions): Promise<RowPage> {
    assert(range.limit >= 1, "a page takes at least one row");
    const time = new ReadTime(this.#clock, options);
    const { after = [] } = options;
    const bounds: Bounds = encodeRange(range);
    const rows: RowImage[] = [];
    let [scanned, bytes] = [0, 0];
    let slack = RANGE_SLACK_IMAGES;
    while (compareBytes(bounds.from, bounds.to) < 0) {
      const wanted = Math.min(range.limit - rows.length + slack, RANGE_IMAGES_MAX);
      slack *= 2;
      const page = await whileStale(() => this.#readPage({ ...bounds, reverse: range.reverse, limit: wanted }, { time, after }));
      scanned += page.rows.length;
      for (let i = 0; i < page.rows.length; i += 1) {
        const { image, bytes: stored } = page.rows[i]!;
        if (liveRow(image) === undefined) continue;
        bytes += stored.length;
        if (bytes > PAGE_ROW_BYTES_MAX && rows.length > 0) return { rows, next: rows.at(-1)!.key.clustering };
        rows.push(image!);
        if (rows.length < range.limit) continue;
        const isLast = i === page.rows.length - 1 && page.horizon === undefined;
        assert(rows.length === range.limit, "a page has no more rows than its limit");
        return { rows, next: isLast ? undefined : rows.at(-1)!.key.clustering };
      }
      if (page.horizon === undefined) break;
      const isScanned = scanned >= RANGE_SCAN_IMAGES_MAX;
      const isEnough = rows.length > 0 ? isScanned || time.isHalfUsed : isScanned && time.isHalfUsed;
      if (isEnough) return { rows, next: decodeRowKey(page.horizon).clustering };
      if (range.reverse) bounds.to = page.horizon;
      else bounds.from = successor(page.horizon);
    }
    return { rows, next: undefined };
  }

  /** REPLICAS_UNAVAILABLE and LIMIT_EXCEEDED (applied: no), WRITE_TIMEOUT (applied: unknown). The third replica's write goes on in the background. */
  async apply(mutations: readonly Mutation[], options: RowOptions): Promise<void> {
    await this.applyEncoded(mutations.map(encodeMutation), options);
  }

  /** `apply` of mutations that are in the storage format already. */
  async applyEncoded(mutations: readonly Uint8Array[], options: RowOptions): Promise<void> {
    const reachable = this.#replicas.filter((replica) => replica.reachable).length;
    if (reachable < this.#quorum) throw tooFewReachable(reachable, this.#quorum);
    const checking = this.#sizes?.check(mutations);
    if (checking !== undefined) await checking;
    const chunks = chunksOf(mutations);
    const results = await Promise.all(chunks.map((chunk) => this.#applyChunk(chunk, options.timeoutMs)));
    const failed = results.filter((result) => result.kind === "too-few");
    if (failed.length === 0) return noteSuperseded(results, options);
    const untouched = failed.length === chunks.length && failed.every(neverApplied);
    throw writeError(failed[0]!, this.#quorum, untouched);
  }

  /** Resolves when the calls of every write that was answered have ended, and `onMissed` knows of each failure. */
  async whenWritten(): Promise<void> {
    await Promise.all(this.#writing);
  }

  #applyChunk(chunk: readonly Uint8Array[], timeoutMs: number): Promise<Gathered<TimestampUs>> {
    assert(chunk.length > 0, "a message to a replica has mutations");
    const bytes = chunk.reduce((sum, mutation) => sum + mutation.length, 0);
    const chunkMs = writeMs(timeoutMs, bytes);
    const calls = this.#replicas.map((replica) => replica.applyRows(chunk, chunkMs));
    const noted = this.#noteMissed(chunk, calls).finally(() => this.#writing.delete(noted));
    this.#writing.add(noted);
    return gather(calls, { clock: this.#clock, timeoutMs: chunkMs, needed: this.#quorum });
  }

  async #noteMissed(chunk: readonly Uint8Array[], calls: readonly Promise<unknown>[]): Promise<void> {
    const results = await Promise.allSettled(calls);
    assert(results.length === this.#replicas.length, "I7: the calls to all replicas have ended");
    const mayBeThere = (result: PromiseSettledResult<unknown>): boolean =>
      result.status === "fulfilled" || toConcordError(result.reason).applied !== "no";
    if (!results.some(mayBeThere)) return;
    results.forEach((result, at) => {
      if (result.status === "rejected") this.#onMissed(this.#replicas[at]!.name, chunk);
    });
  }

  async #readChunk(keys: readonly Uint8Array[], call: ReadCall): Promise<readonly MergedRow[]> {
    const result = await whileStale(() => this.#readAnswers(keys, call));
    if (result.kind === "too-few") {
      if (keys.length > 1 && result.failures.some((failure) => failure.code === "LIMIT_EXCEEDED")) return this.#readHalves(keys, call);
      throw readError(result, this.#quorum);
    }
    return result.rows;
  }

  /** The answer for all keys does not fit into a message. */
  async #readHalves(keys: readonly Uint8Array[], call: ReadCall): Promise<readonly MergedRow[]> {
    assert(keys.length > 1, "one key is not halved");
    const middle = keys.length >>> 1;
    const first = await this.#readChunk(keys.slice(0, middle), call);
    const both = first.concat(await this.#readChunk(keys.slice(middle), call));
    assert(both.length === keys.length, "each key has one answer");
    return both;
  }

  async #readAnswers(keys: readonly Uint8Array[], call: ReadCall): Promise<{ kind: "read"; rows: readonly MergedRow[] } | TooFew> {
    const { after } = call;
    const timeoutMs = remaining(call.time);
    const time = call.time.exchange(() => this.#sizes?.known(keys) ?? 0);
    const collections = this.#collections();
    const merged = deferred<readonly MergedRow[]>();
    const calls = this.#replicas.map(async (replica) => {
      const images = await replica.readRows(keys, timeoutMs, after, time);
      if (images.length !== keys.length)
        throw new ConcordError("INTERNAL", `${replica.name} answered ${images.length} of ${keys.length} keys`);
      time.announce(bytesOf(images));
      return images;
    });
    const onLate = (late: Answer<readonly Uint8Array[]>): void => {
      void merged.promise.then((rows) => this.#repairLate(late.replica, rows, late.value, collections[late.replica]));
    };
    const result = await gather(calls, { clock: this.#clock, timeoutMs, leftMs: () => time.leftMs, needed: this.#quorum, onLate });
    if (result.kind === "too-few") return result;
    const { answers } = result;
    assert(answers.length >= this.#quorum, "I2: a majority answered");
    const rows = keys.map((_, at) => this.#merge(answers.map((answer) => answer.value[at]!)));
    merged.resolve(rows);
    const answered = answers.map((answer) => answer.replica);
    return { kind: "read", rows: await this.#certain(rows, { replicas: answered, collections }, call) };
  }

  async #readPage(
    range: { from: Uint8Array; to: Uint8Array; reverse: boolean; limit: number },
    call: ReadCall,
  ): Promise<{ rows: readonly MergedRow[]; horizon: Uint8Array | undefined }> {
    const { after } = call;
    const timeoutMs = remaining(call.time);
    const time = call.time.exchange();
    const collections = this.#collections();
    const calls = this.#replicas.map(async (replica): Promise<ReplicaPage> => {
      const page = await replica.readRowRange(range, timeoutMs, after, time);
      if (page.more && page.rows.length === 0) throw new ConcordError("INTERNAL", `${replica.name} answered an empty page that goes on`);
      time.announce(bytesOf(page.rows));
      return page;
    });
    const counted = deferred<readonly Answer<ReplicaPage>[]>();
    const onLate = (late: Answer<ReplicaPage>): void => {
      void counted.promise.then((answers) => this.#repairLatePage(late, answers, range.reverse, collections[late.replica]));
    };
    const result = await gather(calls, { clock: this.#clock, timeoutMs, leftMs: () => time.leftMs, needed: this.#quorum, onLate });
    if (result.kind === "too-few") throw readError(result, this.#quorum);
    const answered = result.answers;
    assert(answered.length >= this.#quorum, "I2: a majority answered");
    counted.resolve(answered);
    const page = mergePages(
      answered.map((answer) => answer.value),
      range.reverse,
      this.#checksum,
    );
    const replicas = answered.map((answer) => answer.replica);
    return { rows: await this.#certain(page.rows, { replicas, collections }, call), horizon: page.horizon };
  }

  /**
   * What a reader may see of merged rows: a majority holds each of them (I2), and of a live row that some replica lacks it is known that
   * the replica had not applied it: else it has deleted and forgotten it (I8).
   */
  async #certain(merged: readonly MergedRow[], answered: Answered, call: ReadCall): Promise<readonly MergedRow[]> {
    const rows = merged.some(mayBeForgotten) ? merged.map((row) => (isForgotten(row, call.after) ? NO_ROW : row)) : merged;
    const unsure = rows.filter(mayBeForgotten);
    const sure = unsure.length === 0 ? rows : rows.filter((row) => !mayBeForgotten(row));
    const [, again] = await Promise.all([this.#repair(sure, answered, call.time), this.#readAgain(unsure, call)]);
    return unsure.length === 0 ? rows : rows.map((row) => again.get(row) ?? row);
  }

  /** Every replica that counts has applied these rows' entries first: one that still lacks a row has forgotten it. */
  async #readAgain(rows: readonly UnsureRow[], { time, after }: ReadCall): Promise<ReadonlyMap<MergedRow, MergedRow>> {
    const again = new Map<MergedRow, MergedRow>();
    if (rows.length === 0) return again;
    this.#metrics.count("quorum_read_repairs_total", rows.length, { kind: "blocking" });
    for (let at = 0; at < rows.length; at += READ_AGAIN_KEYS_MAX) {
      const chunk = rows.slice(at, at + READ_AGAIN_KEYS_MAX);
      const groups = new Set(chunk.map(({ place }) => place.group));
      const floors = new Map(after.filter(({ group }) => groups.has(group)).map(({ group, seq }) => [group, seq]));
      assert(chunk.length <= READ_AGAIN_KEYS_MAX, "a second read is bounded");
      for (const { place } of chunk) if ((floors.get(place.group) ?? SEQ_NONE) < place.seq) floors.set(place.group, place.seq);
      assert(
        chunk.every(({ place }) => floors.get(place.group)! >= place.seq),
        "I8: a row is read again as of its entry, or a later one",
      );
      const call = { time, after: Array.from(floors, ([group, seq]) => ({ group, seq })) };
      const found = await this.#readChunk(
        chunk.map(({ bytes }) => keyOfStored(bytes)),
        call,
      );
      chunk.forEach((row, i) => again.set(row, found[i]!));
    }
    assert(again.size === rows.length, "I8: each row that may be forgotten is read again");
    return again;
  }

  /**
   * Blocking read repair (TX30): returns when a majority holds every merged row, so that no later read can see less (I2). What
   * one of the answering replicas lacks is sent to all that may lack it.
   */
  async #repair(rows: readonly MergedRow[], { replicas: answered, collections }: Answered, time: ReadTime): Promise<void> {
    if (rows.every((row) => !row.stale.includes(true))) return;
    const stale = rows.filter((row) => row.stale.includes(true));
    assert(answered.length >= this.#quorum && new Set(answered).size === answered.length, "I2: distinct replicas of a majority answered");
    assert(
      stale.every((row) => row.image !== undefined && row.stale.length === answered.length),
      "I2: a row that is repaired was merged from all counted answers",
    );
    const calls: Promise<void>[] = [];
    let upToDate = 0;
    const exchange = time.exchange();
    exchange.announce(stale.reduce((sum, { bytes }) => sum + bytes.length, 0));
    const timeoutMs = remaining(time);
    this.#replicas.forEach((replica, at) => {
      const position = answered.indexOf(at);
      const lacking = position < 0 ? stale : stale.filter((row) => row.stale[position]);
      if (lacking.length === 0) upToDate += 1;
      else calls.push(this.#send(replica, lacking, collections[at], timeoutMs));
    });
    assert(upToDate + calls.length === this.#replicas.length, "I2: each replica has every row or is repaired");
    this.#metrics.count("quorum_read_repairs_total", stale.length, { kind: "blocking" });
    const needed = Math.max(0, this.#quorum - upToDate);
    const result = await gather(calls, { clock: this.#clock, timeoutMs, needed });
    if (result.kind === "too-few") throw result.failures.find(areStaleCopies) ?? readError(result, this.#quorum);
  }

  /**
   * Rows of groups follow once the replica has applied as much of the log; others are merged (I6), if no tombstone was dropped there since they
   * were read (I11).
   */
  async #send(replica: RowReplica, rows: readonly MergedRow[], collection: string | undefined, timeoutMs: number): Promise<void> {
    assert(rows.length > 0, "a repair has rows");
    const places = new Map<string, Seq>();
    const plain: MergedRow[] = [];
    for (const row of rows) {
      if (row.place === undefined) plain.push(row);
      else if ((places.get(row.place.group) ?? 0n) < row.place.seq) places.set(row.place.group, row.place.seq);
    }
    const mutations = plain.flatMap((row) => encodedMutationsOf(row.image!));
    await Promise.all([
      ...chunksOf(mutations).map(async (chunk) => {
        if (!(await replica.applyCopies(chunk, collection, timeoutMs))) throw staleCopies(replica.name);
      }),
      ...Array.from(places, ([group, seq]) => replica.catchUp(group, seq, timeoutMs)),
    ]);
  }

  #merge(answers: readonly Uint8Array[]): MergedRow {
    return mergeAnswers(answers, this.#checksum);
  }

  /** The third answer does not count (TX12); if it shows that its replica lacks something, that is repaired behind the caller. */
  #repairLate(replica: number, merged: readonly MergedRow[], late: readonly Uint8Array[], collection: string | undefined): void {
    assert(late.length === merged.length, "each key has one answer of a replica");
    this.#repairBehind(
      replica,
      merged.filter((row, at) => row.image !== undefined && this.#merge([row.bytes, late[at]!]).stale[1]),
      collection,
    );
  }

  #repairLatePage(
    late: Answer<ReplicaPage>,
    answered: readonly Answer<ReplicaPage>[],
    reverse: boolean,
    collection: string | undefined,
  ): void {
    const page = mergePages([late.value, ...answered.map((answer) => answer.value)], reverse, this.#checksum);
    this.#repairBehind(
      late.replica,
      page.rows.filter((row) => row.stale[0]),
      collection,
    );
  }

  #repairBehind(replica: number, lacking: readonly MergedRow[], collection: string | undefined): void {
    if (lacking.length === 0 || this.#backgroundRepairs >= BACKGROUND_REPAIRS_MAX) return;
    this.#backgroundRepairs += 1;
    this.#metrics.count("quorum_read_repairs_total", lacking.length, { kind: "background" });
    const done = (): void => {
      assert(this.#backgroundRepairs > 0, "a repair ends once");
      this.#backgroundRepairs -= 1;
    };
    const bytes = lacking.reduce((sum, row) => sum + row.bytes.length, 0);
    this.#send(this.#replicas[replica]!, lacking, collection, readMs(BACKGROUND_REPAIR_TIMEOUT_MS, bytes)).then(done, done);
  }

  /** Noted before anything is read: what is read may be sent back (I11). */
  #collections(): readonly (string | undefined)[] {
    return this.#replicas.map((replica) => replica.collection);
  }
}

function remaining(time: ReadTime): number {
  return Math.max(1, time.leftMs);
}

function bytesOf(rows: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const row of rows) bytes += row.length;
  return bytes;
}

const BACKGROUND_REPAIR_TIMEOUT_MS = 5000;

/** Reads once more what a replica did not take back, since it had dropped tombstones meanwhile, or its newest collection was not known here (I11). */
async function whileStale<Result>(read: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await read();
    } catch (thrown) {
      if (tries === READ_TRIES_MAX || !areStaleCopies(toConcordError(thrown))) throw thrown;
    }
  }
}

/** A newer cell that was acknowledged is held by a replica of every majority: one that counted has said so (I13). */
function noteSuperseded(results: readonly Gathered<TimestampUs>[], { onSuperseded }: RowOptions): void {
  if (onSuperseded === undefined) return;
  let newestUs = TIMESTAMP_ZERO;
  for (const result of results) {
    if (result.kind === "too-few") continue;
    for (const { value } of result.answers) if (value > newestUs) newestUs = value;
  }
  if (newestUs > TIMESTAMP_ZERO) onSuperseded(newestUs);
}

type UnsureRow = MergedRow & { readonly place: LogPlace };

/** A live row of a group's log that some replica lacks: that one has not applied its entry, or a later entry deleted the row (I8). */
function mayBeForgotten(row: MergedRow): row is UnsureRow {
  return row.isLacking && row.place !== undefined && liveRow(row.image) !== undefined;
}

/** Of a row that a counted replica lacks, though all of them had applied its entry. */
function isForgotten(row: MergedRow, after: readonly LogPosition[]): boolean {
  return mayBeForgotten(row) && after.some(({ group, seq }) => group === row.place.group && seq >= row.place.seq);
}

/** The smallest key above this one. */
function successor(key: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(key.length + 1);
  bytes.set(key);
  return bytes;
}
