// A group's master on in-memory stores with scripted failures and time that moves when the test says so.
import { LOCK_LIMITS, type LockLimits } from "@concord/locks";
import { compareBytes } from "@concord/codec";
import type {
  AppendOutcome,
  AppendRequest,
  DecidedMark,
  GroupLog,
  LocalRows,
  LogEntry,
  Mutation,
  RaiseOutcome,
  Row,
  RowImage,
  RowKey,
  RowPage,
  RowRange,
  RowStore,
  GroupOwner,
  AdvanceRequest,
} from "@concord/ports";
import { decodeImage, encodeRange, encodeRowKey, imageOf, liveRow, mergeImages, readRows } from "@concord/rows";
import {
  ConcordError,
  EPOCH_NONE,
  newTimeId,
  SEQ_NONE,
  seqOf,
  silentLog,
  silentMetrics,
  timestampUsOf,
  toHex,
  type Clock,
  type ErrorCode,
  type TimeId,
  type Timer,
} from "@concord/runtime";
import { indexTableOf, keyText, type RowWrite, type TableDefinition } from "@concord/schema";
import type { CellValue } from "@concord/values";
import assert from "node:assert/strict";
import {
  CachedRowShares,
  IdleMarks,
  LargeCommits,
  TransactionMemory,
  TransactionGroup,
  TRANSACTION_LIMITS,
  type CommitToken,
  type GroupContext,
  type GroupSettings,
  type OperationCall,
  type TableWrite,
  type TransactionLimits,
  type TransactionOperations,
  type TransactionOwner,
} from "../index.ts";

export const START_MS = 1_800_000_000_000;

export class ManualClock implements Clock {
  wallMs = START_MS;
  #monotonicMs = 0;
  #timers: { atMs: number; action: () => void }[] = [];

  nowMs(): number {
    return this.wallMs;
  }

  nowUs(): bigint {
    return BigInt(this.wallMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#monotonicMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }

  defer(action: () => void): void {
    queueMicrotask(action);
  }

  /** Lets everything that is due happen, in order, with all promises settled in between. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monotonicMs + ms;
    await settle();
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.wallMs += next.atMs - this.#monotonicMs;
      this.#monotonicMs = next.atMs;
      next.action();
      await settle();
    }
    this.wallMs += endMs - this.#monotonicMs;
    this.#monotonicMs = endMs;
  }
}

export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A store with one replica whose calls can be counted, failed and held back. */
export class FakeRows implements RowStore {
  readonly images = new Map<string, RowImage>();
  reads: RowKey[][] = [];
  ranges: RowRange[] = [];
  applies: (readonly Mutation[])[] = [];
  /** Per apply, in order: fail before anything is written, or write and then fail. Empty = succeed. */
  applyFaults: ("lost" | "written")[] = [];
  readFaults: ConcordError[] = [];
  /** While true, applies wait. */
  #gate: { promise: Promise<void>; open: () => void } | undefined;

  hold(): void {
    let open = (): void => undefined;
    const promise = new Promise<void>((resolve) => (open = resolve));
    this.#gate = { promise, open };
  }

  release(): void {
    this.#gate?.open();
    this.#gate = undefined;
  }

  async read(keys: readonly RowKey[]): Promise<(RowImage | undefined)[]> {
    this.reads.push([...keys]);
    const fault = this.readFaults.shift();
    if (fault !== undefined) throw fault;
    return keys.map((key) => this.images.get(toHex(encodeRowKey(key))));
  }

  async readRange(range: RowRange): Promise<RowPage> {
    this.ranges.push(range);
    const { from, to } = encodeRange(range);
    const rows = [...this.images]
      .map(([text, image]) => ({ bytes: Buffer.from(text, "hex"), image }))
      .filter(({ bytes, image }) => compareBytes(bytes, from) >= 0 && compareBytes(bytes, to) < 0 && liveRow(image) !== undefined)
      .sort((a, b) => (range.reverse ? -1 : 1) * compareBytes(a.bytes, b.bytes))
      .map(({ image }) => image);
    const page = rows.slice(0, range.limit);
    return { rows: page, next: rows.length > page.length ? page.at(-1)!.key.clustering : undefined };
  }

  async apply(mutations: readonly Mutation[]): Promise<void> {
    this.applies.push(mutations);
    await this.#gate?.promise;
    const fault = this.applyFaults.shift();
    if (fault === "lost") throw new ConcordError("REPLICAS_UNAVAILABLE", "no replica");
    for (const mutation of mutations) this.#merge(mutation);
    if (fault === "written") throw new ConcordError("WRITE_TIMEOUT", "too slow");
  }

  /** What replicas that apply do: each row whole, in log order. */
  put(rows: Uint8Array): void {
    for (const bytes of readRows(rows)) {
      const image = decodeImage(bytes);
      this.images.set(toHex(encodeRowKey(image.key)), image);
    }
  }

  row(key: RowKey): Row | undefined {
    return liveRow(this.images.get(toHex(encodeRowKey(key))));
  }

  table(name: string): Row[] {
    return [...this.images.values()].filter((image) => image.key.table === name).flatMap((image) => liveRow(image) ?? []);
  }

  #merge(mutation: Mutation): void {
    const text = toHex(encodeRowKey(mutation.key));
    const before = this.images.get(text);
    this.images.set(text, before === undefined ? imageOf(mutation) : mergeImages(before, imageOf(mutation)));
  }
}

/** A group log with one replica and the acceptance rules of TXR1-TXR3. */
export class FakeLog implements GroupLog {
  readonly exchangesMax = 1;
  promisedEpoch = EPOCH_NONE;
  owner = "";
  entries: LogEntry[] = [];
  appliedSeq = SEQ_NONE;
  appliedEpoch = EPOCH_NONE;
  ceilingUs = 0n;
  appends: AppendRequest[] = [];
  /** Marks told alone. */
  advances: bigint[] = [];
  advanceFaults: ("unknown" | "throw")[] = [];
  /** Given: the replicas apply, and this is how. */
  readonly #apply: ((rows: Uint8Array) => void) | undefined;
  /** Per append, in order: "lost" = not accepted, answered unknown; "accepted" = accepted, answered unknown. Empty = honest. */
  appendFaults: ("lost" | "accepted" | "throw")[] = [];
  verifyFaults: "unknown"[] = [];
  verifies = 0;

  constructor(apply?: (rows: Uint8Array) => void) {
    this.#apply = apply;
  }

  #gate: { promise: Promise<void>; open: () => void } | undefined;

  hold(): void {
    let open = (): void => undefined;
    const promise = new Promise<void>((resolve) => (open = resolve));
    this.#gate = { promise, open };
  }

  release(): void {
    this.#gate?.open();
    this.#gate = undefined;
  }

  async status(): ReturnType<GroupLog["status"]> {
    return { promisedEpoch: this.promisedEpoch, owner: this.owner };
  }

  async raise({ epoch, owner }: GroupOwner): Promise<RaiseOutcome> {
    const again = epoch === this.promisedEpoch && owner === this.owner;
    if (epoch <= this.promisedEpoch && !again) return { kind: "refused", promisedEpoch: this.promisedEpoch, owner: this.owner };
    this.promisedEpoch = epoch;
    this.owner = owner;
    const { appliedSeq, appliedEpoch, ceilingUs } = this;
    const appliesRows = this.#apply !== undefined;
    return {
      kind: "raised",
      tail: { appliesRows, appliedSeq, appliedEpoch, entries: [...this.entries], timestampCeilingUs: timestampUsOf(ceilingUs) },
    };
  }

  async append(request: AppendRequest): Promise<AppendOutcome> {
    this.appends.push(request);
    await this.#gate?.promise;
    const fault = this.appendFaults.shift();
    if (fault === "lost") return { kind: "unknown" };
    if (fault === "throw") throw new ConcordError("CONNECTION_LOST", "broken");
    const outcome = this.#accept(request);
    return fault === "accepted" ? { kind: "unknown" } : outcome;
  }

  async verify({ epoch, owner }: GroupOwner): Promise<"current" | "fenced" | "unknown"> {
    this.verifies += 1;
    const fault = this.verifyFaults.shift();
    if (fault !== undefined) return fault;
    return epoch === this.promisedEpoch && owner === this.owner ? "current" : "fenced";
  }

  async advance({ decided }: AdvanceRequest): Promise<"advanced" | "unknown"> {
    this.advances.push(decided.seq);
    const fault = this.advanceFaults.shift();
    if (fault === "unknown") return "unknown";
    if (fault === "throw") throw new ConcordError("CONNECTION_LOST", "broken");
    this.#mark(decided);
    return "advanced";
  }

  #mark({ seq, epoch }: DecidedMark): void {
    const reached = this.entries.findLast((entry) => entry.seq <= seq && entry.epoch >= epoch);
    if (reached === undefined) return;
    for (const entry of this.entries) if (entry.seq <= reached.seq) this.#apply?.(entry.rows);
    this.entries = this.entries.filter((entry) => entry.seq > reached.seq);
    this.appliedSeq = reached.seq;
    this.appliedEpoch = reached.epoch;
  }

  #accept(request: AppendRequest): AppendOutcome {
    const { seq, epoch, owner, bytes, rows, previousEpoch, decided } = request;
    if (epoch !== this.promisedEpoch || owner !== this.owner) return { kind: "fenced", promisedEpoch: this.promisedEpoch };
    const held = this.entries.find((entry) => entry.seq === seq);
    if (held !== undefined && held.epoch === epoch) {
      assert.equal(compareBytes(held.bytes, bytes), 0, "one content per (seq, epoch)");
      return { kind: "logged" };
    }
    // A mark of the owner before came after the raise that told the tail: it is decided and applied, as replicas answer too.
    if (seq <= this.appliedSeq) return { kind: "logged" };
    // What is applied is decided, under whichever epoch: that mark may have come after the raise too.
    const before = this.entries.find((entry) => entry.seq === seq - 1n)?.epoch;
    if (seq > this.appliedSeq + 1n) assert.equal(before, previousEpoch, "an entry stands on the entry before");
    this.entries = [...this.entries.filter((entry) => entry.seq !== seq), { seq, epoch, bytes, rows }].sort((a, b) =>
      Number(a.seq - b.seq),
    );
    this.#mark(decided);
    if (request.timestampCeilingUs > this.ceilingUs) this.ceilingUs = request.timestampCeilingUs;
    return { kind: "logged" };
  }
}

export const ALBUMS: TableDefinition = {
  name: "albums",
  kind: "transactional",
  columns: [
    { name: "id", type: "bigint" },
    { name: "title", type: "text" },
    { name: "public_photos", type: "int" },
  ],
  partitionKey: ["id"],
  clusteringKey: [],
  indexes: [],
  version: 1n,
};

/** `by_modified` fixes the token; `by_owner` spans groups. */
export const PHOTOS: TableDefinition = {
  name: "photos",
  kind: "transactional",
  columns: [
    { name: "album", type: "bigint" },
    { name: "photo", type: "bigint" },
    { name: "owner", type: "text" },
    { name: "status", type: "text" },
    { name: "modified", type: "timestamp" },
    { name: "note", type: "text" },
  ],
  partitionKey: ["album"],
  clusteringKey: ["photo"],
  indexes: [
    { name: "by_modified", columns: ["album", "modified"] },
    { name: "by_status", columns: ["album", "status"] },
    { name: "by_owner", columns: ["owner", "modified"] },
  ],
  version: 1n,
};

export const PLAIN: TableDefinition = { ...ALBUMS, name: "views", kind: "plain" };

export const bigint = (value: number): CellValue => ({ kind: "bigint", value: BigInt(value) });
export const int = (value: number): CellValue => ({ kind: "int", value });
export const text = (value: string): CellValue => ({ kind: "text", value });
export const timestamp = (value: number): CellValue => ({ kind: "timestamp", value: BigInt(value) });

export const albumKey = (id: number): RowKey => ({ table: "albums", partition: [bigint(id)], clustering: [] });
export const photoKey = (album: number, photo: number): RowKey => ({
  table: "photos",
  partition: [bigint(album)],
  clustering: [bigint(photo)],
});

type Columns = Readonly<Record<string, CellValue | null>>;

export function write(kind: RowWrite["kind"], key: RowKey, columns: Columns = {}): TableWrite {
  const definition = [ALBUMS, PHOTOS, PLAIN].find((one) => one.name === key.table)!;
  return {
    definition,
    write: { kind, table: key.table, key, columns: Object.entries(columns).map(([column, value]) => ({ column, value })) },
  };
}

export const insert = (key: RowKey, columns: Columns = {}): TableWrite => write("insert", key, columns);
export const update = (key: RowKey, columns: Columns): TableWrite => write("update", key, columns);
export const remove = (key: RowKey): TableWrite => write("delete", key);

/** Columns of the committed row, read under a shared lock that is released again. */
export async function committed(client: Client, key = albumKey(1)): Promise<unknown> {
  const session = client.begin();
  const row = await session.start(key, { mode: "shared" });
  session.rollback();
  return plain(row);
}

/** Columns of a row as plain values. */
export function plain(row: Row | undefined): Record<string, unknown> | undefined {
  if (row === undefined) return undefined;
  return Object.fromEntries([...row.columns].map(([column, value]) => [column, value.value]));
}

export function indexTable(name: string): TableDefinition {
  return indexTableOf(
    PHOTOS,
    PHOTOS.indexes.find((index) => index.name === name)!,
  );
}

export interface FixtureOptions {
  readonly limits?: Partial<TransactionLimits>;
  readonly lockLimits?: Partial<LockLimits>;
  readonly settings?: Partial<GroupSettings>;
  readonly heldBytesMax?: number;
  readonly cachedRowBytesMax?: number;
  /** The log's replicas apply rows; the owner does when not given. */
  readonly appliesRows?: boolean;
  /** A replica in this process has the rows, as far as it has applied the log: `localSeq`. */
  readonly localRows?: boolean;
}

/** Everything of a test: one log and one store, as many masters as it opens. */
export class TestFixture {
  readonly clock = new ManualClock();
  readonly rows = new FakeRows();
  readonly log: FakeLog;
  readonly failpoints: string[] = [];
  /** How far the replica in this process has applied the log; undefined = as far as the log says. */
  localSeq: bigint | undefined;
  /** What it answered, by key text. */
  readonly localReads: string[] = [];
  readonly #options: FixtureOptions;
  #randomState = 7;
  #sequence = 0;

  /** Of all its masters. */
  readonly memory: TransactionMemory;
  readonly cachedRowShares: CachedRowShares;

  /** With what the storage refuses new data. */
  noSpace: ConcordError | undefined;

  constructor(options: FixtureOptions = {}) {
    this.#options = options;
    this.memory = new TransactionMemory(options.heldBytesMax);
    this.cachedRowShares = new CachedRowShares(options.cachedRowBytesMax);
    this.log = new FakeLog(options.appliesRows === true ? (rows) => this.rows.put(rows) : undefined);
  }

  context(): GroupContext {
    const settings: GroupSettings = {
      group: "g0",
      nodeName: "c1",
      // All entities but 99 are of this group, whatever their tokens are: a test that writes two of them passes by no luck of the hash.
      owns: (key) => key.partition[0]?.value !== 99n,
      followsLog: (table) => table !== PLAIN.name,
      lockTimeoutMs: 1_000,
      idleTimeoutMs: 5_000,
      lifetimeMs: 30_000,
      clockSkewMaxMs: 5_000,
      outcomeRetentionMs: 900_000,
      storageTimeoutMs: 1_000,
      ...this.#options.settings,
      limits: { ...TRANSACTION_LIMITS, gatherMsMax: 0, ...this.#options.limits },
      lockLimits: { ...LOCK_LIMITS, ...this.#options.lockLimits },
    };
    const random = {
      bytes: (length: number) => this.#bytes(length),
      below: (limit: number) => this.#next() % limit,
      float: () => this.#next() / 2 ** 31,
    };
    const failpoint = (name: string): void => void this.failpoints.push(name);
    return {
      settings,
      marks: new IdleMarks(this.clock),
      largeCommits: new LargeCommits(this.clock),
      memory: this.memory,
      cachedRowShares: this.cachedRowShares,
      noSpace: () => this.noSpace,
      clock: this.clock,
      random,
      checksum,
      log: silentLog,
      metrics: silentMetrics,
      rows: this.rows,
      groupLog: this.log,
      ...(this.#options.localRows === true ? { localRows: this.#localRows() } : {}),
      failpoint,
    };
  }

  #localRows(): LocalRows {
    return {
      appliedSeq: () => seqOf(this.localSeq ?? this.log.appliedSeq),
      peek: (key) => {
        this.localReads.push(keyText(key));
        return this.rows.images.get(toHex(encodeRowKey(key)));
      },
    };
  }

  async open(): Promise<Client> {
    const group = new TransactionGroup(this.context());
    await group.start();
    return new Client(this, group);
  }

  id(atMs: number = this.clock.nowMs()): TimeId {
    return newTimeId({ nowMs: () => atMs } as Clock, { bytes: (length) => this.#bytes(length), below: () => 0, float: () => 0 });
  }

  #next(): number {
    this.#randomState = (Math.imul(this.#randomState, 1103515245) + 12345) >>> 1;
    this.#sequence += 1;
    return (this.#randomState ^ this.#sequence) & 0x7fffffff;
  }

  #bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#next() & 0xff);
  }
}

export function checksum(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** A client of one master. */
export class Client {
  readonly fixture: TestFixture;
  readonly group: TransactionGroup;

  constructor(fixture: TestFixture, group: TransactionGroup) {
    this.fixture = fixture;
    this.group = group;
  }

  begin(id: TimeId = this.fixture.id(), sessionId?: number, owner?: TransactionOwner): Session {
    return new Session(this, id, sessionId, owner);
  }

  deadline(ms = 10_000): number {
    return this.fixture.clock.monotonicMs() + ms;
  }

  async execute(writes: readonly TableWrite[], id: TimeId = this.fixture.id()): Promise<CommitToken> {
    return this.group.serving("unknown").execute(id, writes, this.deadline());
  }
}

/** One transaction as its client sees it. */
export class Session {
  readonly client: Client;
  readonly id: TimeId;
  readonly sessionId: number | undefined;
  readonly owner: TransactionOwner | undefined;
  number = 0;

  constructor(client: Client, id: TimeId, sessionId: number | undefined, owner?: TransactionOwner) {
    this.owner = owner;
    this.client = client;
    this.id = id;
    this.sessionId = sessionId;
  }

  call(number = (this.number += 1), deadlineMs = 10_000): OperationCall {
    return { id: this.id, number, sessionId: this.sessionId, deadlineAtMs: this.client.deadline(deadlineMs), owner: this.owner };
  }

  async start(
    key: RowKey,
    options: { mode?: "shared" | "exclusive"; read?: "read" | "skip"; firstStartMs?: number; lifetimeMs?: number; number?: number } = {},
  ): Promise<Row | undefined> {
    const { mode = "exclusive", read = "read", firstStartMs, lifetimeMs, number } = options;
    const answer = await this.client.group.serving().start(this.call(number), { key, mode, read, firstStartMs, lifetimeMs });
    return answer.row;
  }

  async operate<Answer>(body: (operations: TransactionOperations) => Answer | Promise<Answer>): Promise<Answer> {
    return this.client.group.serving().operate(this.call(), body);
  }

  async write(...writes: TableWrite[]): Promise<void> {
    await this.operate((operations) => operations.write(writes));
  }

  async read(key: RowKey, lock: "shared" | "none" = "shared"): Promise<Record<string, unknown> | undefined> {
    const [row] = await this.operate((operations) => operations.read([key], lock));
    return plain(row);
  }

  async lock(key: RowKey, mode: "shared" | "exclusive" = "exclusive"): Promise<Row | undefined> {
    const [row] = await this.operate((operations) => operations.lock([key], mode, "read"));
    return row;
  }

  async commit(writes: readonly TableWrite[] = [], maxDelayMs = 0, freesSpace = false): Promise<CommitToken> {
    return this.client.group.serving("unknown").commit(this.call(), () => writes, { maxDelayMs, freesSpace });
  }

  rollback(): void {
    this.client.group.serving().rollback(this.id);
  }
}

export async function fails(code: ErrorCode, answer: unknown): Promise<ConcordError> {
  const error = await Promise.resolve(answer).then(
    () => assert.fail(`succeeded, expected ${code}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ConcordError, String(error));
  assert.equal(error.code, code, error.message);
  return error;
}

/** Is the promise still open? */
export async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let isOpen = true;
  const ended = (): void => void (isOpen = false);
  void promise.then(ended, ended);
  await settle();
  return isOpen;
}

/** With album 1, which has no public photos. */
export async function withAlbum(fixture: TestFixture): Promise<Awaited<ReturnType<TestFixture["open"]>>> {
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { title: text("sea"), public_photos: int(0) })]);
  return client;
}
