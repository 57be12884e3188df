import { ConcordClientError, type ConcordClient, type Entity, type Fields, type Transaction } from "@concord/client";
import { compareBytes } from "@concord/codec";
import {
  addCounters,
  sameVersion,
  type MetadataCommit,
  type MetadataCondition,
  type MetadataOutcome,
  type MetadataRange,
  type MetadataRow,
  type MetadataWrite,
  type ObjectMetadata,
} from "@concord/ports";
import { ConcordError, sleep, toHex, type Clock, type Span } from "@concord/runtime";
import { CALL_TIMEOUT_MS_DEFAULT, COUNTER_SLOTS, LOCK_KEYS_MAX, PAGE_ROWS, READ_KEYS_MAX } from "./limits.ts";
import {
  counterKey,
  COUNTERS,
  decodeAmounts,
  encodeAmounts,
  metadataRow,
  nameOf,
  rowKey,
  ROWS,
  storedRow,
  TABLES,
  type StoredCounter,
  type StoredRow,
} from "./tables.ts";

export interface TransactionMetadataOptions {
  /** A connected client: routing, retries of what certainly did not happen, and lost answers are its work. */
  readonly client: ConcordClient;
  readonly timeoutMs?: number;
}

/** A row that is never written: reads open their transaction with it, so they wait for no writer. */
const NO_ROW = Uint8Array.of(0);
/** Reads decide nothing that their own transaction writes: a commit names the versions it expects. */
const NEWEST = { lock: "none" } as const;
const CREATE_AGAIN_MS = 200;

/** Metadata rows in ACID transactions of txn-coordinators (OGD16). */
export class TransactionMetadata implements ObjectMetadata {
  readonly #client: ConcordClient;
  readonly #timeoutMs: number;

  constructor({ client, timeoutMs = CALL_TIMEOUT_MS_DEFAULT }: TransactionMetadataOptions) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  /** Makes the tables; tries until a coordinator can, or `isOver`. Does nothing when they exist. */
  async createTables(clock: Clock, isOver: () => boolean = () => false): Promise<void> {
    for (;;) {
      try {
        await this.#client.createTables(TABLES);
        return;
      } catch (thrown) {
        const isLater = thrown instanceof ConcordClientError && thrown.retryable && !isOver();
        if (!isLater) throw fromClient(thrown);
        await sleep(clock, CREATE_AGAIN_MS);
      }
    }
  }

  read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    const names = keys.map((key) => rowKey(partition, key));
    return this.#reading(partition, async (txn) => {
      const rows: (StoredRow | undefined)[] = [];
      for (let at = 0; at < names.length; at += READ_KEYS_MAX)
        rows.push(...(await txn.readMany<StoredRow>(ROWS, names.slice(at, at + READ_KEYS_MAX), NEWEST)));
      return rows.map(metadataRow);
    });
  }

  range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    if (range.limit <= 0 || compareBytes(range.from, range.to) >= 0) return Promise.resolve([]);
    const { partition: whole } = rowKey(partition, NO_ROW);
    const bounds = { partition: { partition: whole }, from: nameOf(range.from), before: nameOf(range.to), limit: range.limit };
    return this.#reading(partition, async (txn) => {
      const rows: MetadataRow[] = [];
      const pages = txn.readRange<StoredRow>(ROWS, {
        ...bounds,
        reverse: range.reverse ?? false,
        pageSize: Math.min(range.limit, PAGE_ROWS),
      });
      for await (const row of pages) rows.push(metadataRow(row)!);
      return rows;
    });
  }

  readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    const slots = Array.from({ length: COUNTER_SLOTS }, (_, slot) => counterKey(partition, key, slot));
    return this.#reading(partition, async (txn) => {
      const rows = await txn.readMany<StoredCounter>(COUNTERS, slots, NEWEST);
      return rows.map(decodeAmounts).reduce(addCounters, []);
    });
  }

  async commit(commit: MetadataCommit, span?: Span): Promise<MetadataOutcome> {
    const own = prepare(commit);
    try {
      const entity = { table: ROWS, key: rowKey(commit.partition, NO_ROW) };
      // A gateway refuses new objects by itself, and deletes and collects by writes.
      const options = { deadlineMs: this.#timeoutMs, mode: "shared", freesSpace: true, span } as const;
      return await this.#client.runTransaction(entity, (txn) => attempt(txn, own), options);
    } catch (thrown) {
      const error = fromClient(thrown);
      // The client has asked what became of it as long as it could (TXD7): now it is unresolved (OGD2).
      if (error.applied === "unknown") return { kind: "unknown", cause: error };
      throw error;
    }
  }

  /** A transaction's reads, and a commit that proves the master still was one when it answered (TXD1): so they are serial. */
  async #reading<Answer>(partition: string, read: (txn: Transaction) => Promise<Answer>): Promise<Answer> {
    const entity: Entity = { table: ROWS, key: rowKey(partition, NO_ROW) };
    try {
      return await this.#client.runTransaction(entity, read, { deadlineMs: this.#timeoutMs, mode: "shared" });
    } catch (thrown) {
      const error = fromClient(thrown);
      throw new ConcordError(error.code, error.message, { applied: "no", metadata: error.metadata, cause: error });
    }
  }
}

/** A commit with bytes of our own: it may run several times. */
interface PreparedCommit {
  readonly partition: string;
  readonly conditions: readonly MetadataCondition[];
  readonly writes: readonly MetadataWrite[];
  readonly sums: readonly CounterSum[];
}

interface CounterSum {
  readonly name: Uint8Array;
  readonly slot: number;
  readonly amounts: readonly bigint[];
}

function prepare({ partition, conditions, writes }: MetadataCommit): PreparedCommit {
  const slot = slotOf(conditions, writes);
  const sums = new Map<string, CounterSum>();
  for (const write of writes) {
    if (write.kind !== "add") continue;
    const name = toHex(write.key);
    const amounts = addCounters(sums.get(name)?.amounts ?? [], write.amounts);
    sums.set(name, { name: Uint8Array.from(write.key), slot, amounts });
  }
  return {
    partition,
    conditions: conditions.map(({ key, version }) => ({ key: Uint8Array.from(key), version })),
    writes: writes.flatMap((write): MetadataWrite[] => {
      if (write.kind === "add") return [];
      if (write.kind === "delete") return [{ kind: "delete", key: Uint8Array.from(write.key) }];
      return [{ kind: "put", row: { ...write.row, key: Uint8Array.from(write.row.key), value: Uint8Array.from(write.row.value) } }];
    }),
    sums: [...sums.values()],
  };
}

/** Commits on different rows add to different parts of a counter. */
function slotOf(conditions: readonly MetadataCondition[], writes: readonly MetadataWrite[]): number {
  const written = writes.find((write) => write.kind !== "add");
  const key = written === undefined ? conditions[0]?.key : written.kind === "put" ? written.row.key : written.key;
  let hash = 0;
  for (const byte of key ?? []) hash = (Math.imul(hash, 31) + byte) >>> 0;
  return hash % COUNTER_SLOTS;
}

/** Locks, compares, writes. Rows it only compares are locked shared: many puts hold the shard's header at once (OGD17). */
async function attempt(txn: Transaction, { partition, conditions, writes, sums }: PreparedCommit): Promise<MetadataOutcome> {
  const written = new Set(writes.map((write) => toHex(write.kind === "put" ? write.row.key : (write as { key: Uint8Array }).key)));
  const found = new Map<string, MetadataRow | undefined>();
  for (const mode of ["shared", "exclusive"] as const) {
    const names = conditions.map(({ key }) => key).filter((key) => written.has(toHex(key)) === (mode === "exclusive"));
    const rows = await lockAll<StoredRow>(
      txn,
      ROWS,
      names.map((name) => rowKey(partition, name)),
      mode,
    );
    for (const [at, name] of names.entries()) found.set(toHex(name), metadataRow(rows[at]));
  }
  const rows = conditions.map(({ key }) => found.get(toHex(key)));
  if (!conditions.every(({ version }, at) => sameVersion(rows[at]?.version, version))) return { kind: "conflict", rows };
  for (const write of writes) {
    if (write.kind === "put") txn.insert(ROWS, storedRow(partition, write.row));
    else if (write.kind === "delete") txn.delete(ROWS, rowKey(partition, write.key));
  }
  await addSums(txn, partition, sums);
  return { kind: "committed" };
}

/** Last, so that the counters are locked for the shortest time. */
async function addSums(txn: Transaction, partition: string, sums: readonly CounterSum[]): Promise<void> {
  const keys = sums.map(({ name, slot }) => counterKey(partition, name, slot));
  const counters = await lockAll<StoredCounter>(txn, COUNTERS, keys, "exclusive");
  for (const [at, { amounts }] of sums.entries())
    txn.insert(COUNTERS, { ...keys[at]!, amounts: encodeAmounts(addCounters(decodeAmounts(counters[at]), amounts)) });
}

async function lockAll<Row extends object>(
  txn: Transaction,
  table: string,
  keys: readonly Fields[],
  mode: "shared" | "exclusive",
): Promise<(Row | undefined)[]> {
  const rows: (Row | undefined)[] = [];
  for (let at = 0; at < keys.length; at += LOCK_KEYS_MAX)
    rows.push(...(await txn.lockMany<Row>(table, keys.slice(at, at + LOCK_KEYS_MAX), { mode })));
  return rows;
}

/** The client's error as a ConcordError; nothing of it is lost. */
function fromClient(thrown: unknown): ConcordError {
  if (!(thrown instanceof ConcordClientError))
    return thrown instanceof ConcordError ? thrown : new ConcordError("INTERNAL", String(thrown), { cause: thrown });
  const { code, message, applied, metadata, retryAfterMs, cause } = thrown;
  return new ConcordError(code, message, { applied, metadata, cause, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}
