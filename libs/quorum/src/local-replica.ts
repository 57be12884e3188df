import type { KeyRange, KeyValue, KeyValueEntry, LogPosition, StepRunner } from "@concord/ports";
import { imageRowKey } from "@concord/rows";
import { assert, ConcordError, toConcordError, type Checksum, type Log, type Seq, type TimestampUs } from "@concord/runtime";
import type { Forgotten } from "./forgotten.ts";
import { ATOMIC_RANGE_TRIES_MAX, ATOMIC_READ_BYTES_MAX, RANGE_BYTES_TARGET, RANGE_IMAGES_MAX, ROW_BYTES_NOTICED } from "./limits.ts";
import type { GroupRead, GroupReplica, GroupRows, ReplicaPage, ReplicaRange, RowReplica } from "./row-replica.ts";
import { rowText } from "./row-sizes.ts";
import { applyRowsStep, type OnRow } from "./row-steps.ts";
import { openRow, quarantine, storedRowKey } from "./stored-row.ts";

const NEVER_WRITTEN = new Uint8Array();

export interface LocalRowReplicaOptions {
  readonly name: string;
  readonly runner: StepRunner;
  /** Sees every step submitted before, answers only what is on disk. */
  readonly reader: {
    getMany(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]>;
    range: KeyValue["range"];
    /** As `range`; "changed": a step that ran since the call wrote inside the range. */
    rangeAtOnce(range: KeyRange): Promise<KeyValueEntry[] | "changed">;
  };
  /** False: rows of groups may be at other replicas only, written before rows followed from the log. */
  readonly hasAllRows: boolean;
  /** Resolves when this node has applied a group's log up to `seq`. */
  readonly catchUp: (group: string, seq: Seq, timeoutMs: number) => Promise<void>;
  /** How far it has now, though perhaps not on disk yet. */
  readonly appliedSeq: (group: string) => Seq;
  readonly forgotten: Forgotten;
  readonly checksum: Checksum;
  readonly log: Log;
  /** A stored row fails its check: the replica refuses to answer for it until it is healed (I5). */
  readonly onDamaged?: (storedKey: Uint8Array) => void;
  readonly onRow?: OnRow;
}

/** This node's rows. Also what its peers reach through ReplicaService. */
export class LocalRowReplica implements RowReplica, GroupReplica {
  readonly name: string;
  readonly reachable = true;
  readonly #options: LocalRowReplicaOptions;

  constructor(options: LocalRowReplicaOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get collection(): string {
    return this.#options.forgotten.collection;
  }

  /**
   * CORRUPT_DATA (applied: unknown) when a mutation or a stored row fails its check. TIMESTAMP_OUT_OF_RANGE: a mutation is as old as a deletion that
   * is forgotten here (I12).
   */
  async applyRows(mutations: readonly Uint8Array[]): Promise<TimestampUs> {
    const { forgotten } = this.#options;
    const supersededUs = await this.#apply(mutations, (oldestUs) => oldestUs <= forgotten.newestUs);
    if (supersededUs === undefined) throw writtenTooLate(this.name, forgotten.newestUs);
    return supersededUs;
  }

  /** CORRUPT_DATA as `applyRows`. */
  async applyCopies(mutations: readonly Uint8Array[], collection: string | undefined): Promise<boolean> {
    const { forgotten } = this.#options;
    return (await this.#apply(mutations, () => collection !== forgotten.collection)) !== undefined;
  }

  async readRows(keys: readonly Uint8Array[], timeoutMs: number, after: readonly LogPosition[]): Promise<readonly Uint8Array[]> {
    await this.#reached(after, timeoutMs);
    const storedKeys = keys.map(storedRowKey);
    const stored = await this.#options.reader.getMany(storedKeys);
    assert(stored.length === keys.length, "the store answers each key");
    const rows: Uint8Array[] = [];
    for (let i = 0; i < stored.length; i += 1) {
      const value = stored[i];
      const storedKey = storedKeys[i]!;
      if (value !== undefined && value.length > ROW_BYTES_NOTICED) this.#options.onRow?.(storedKey, value.length);
      rows.push(value === undefined ? NEVER_WRITTEN : await this.#checked(storedKey, value));
    }
    return rows;
  }

  async readRowRange(range: ReplicaRange, timeoutMs: number, after: readonly LogPosition[]): Promise<ReplicaPage> {
    await this.#reached(after, timeoutMs);
    const bounds = boundsOf(range);
    return this.#pageOf(await this.#options.reader.range(bounds), bounds.limit - 1);
  }

  /**
   * UNIMPLEMENTED: rows of groups may be at other replicas only. GROUP_MISMATCH: a row follows from another group's log. LIMIT_EXCEEDED: too
   * many bytes. REPLICAS_UNAVAILABLE: the log was not applied so far in time, or the page changed each time while it was read.
   */
  async readGroup(read: GroupRead, timeoutMs: number): Promise<GroupRows> {
    const { hasAllRows } = this.#options;
    if (!hasAllRows)
      throw new ConcordError("UNIMPLEMENTED", `${this.name} holds rows of before rows followed from the log: use a transaction`);
    await this.#reached([read], timeoutMs);
    const found =
      read.rows.kind === "keys" ? await this.#keysAtOnce(read.group, read.rows.keys) : await this.#pageAtOnce(read.group, read.rows.range);
    assert(found.appliedSeq >= read.seq, "the log was applied up to what the reader asked for (TXD5)");
    for (const row of found.rows) this.#checkPlace(row, read.group, found.appliedSeq);
    return found;
  }

  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    return this.#options.catchUp(group, seq, timeoutMs);
  }

  /** As `applyRows`; undefined: refused. */
  async #apply(mutations: readonly Uint8Array[], refuses: (oldestUs: TimestampUs) => boolean): Promise<TimestampUs | undefined> {
    const reply = await this.#options.runner.submit(applyRowsStep(mutations, this.#options.checksum, refuses, this.#options.onRow));
    if (reply.kind !== "corrupt") return reply.kind === "applied" ? reply.supersededUs : undefined;
    const { storedKeys } = reply;
    assert(storedKeys.length > 0, "I5: a refused write names the damaged rows");
    for (const storedKey of storedKeys) this.#options.onDamaged?.(storedKey);
    this.#options.log.error("stored rows failed their check and were quarantined", { rows: storedKeys.length });
    throw new ConcordError("CORRUPT_DATA", `${storedKeys.length} stored rows of ${this.name} fail their check`, { applied: "unknown" });
  }

  /** One step loads all keys and looks how far the log is applied: no entry is applied in between (I10). */
  async #keysAtOnce(group: string, keys: readonly Uint8Array[]): Promise<GroupRows> {
    const { runner, appliedSeq } = this.#options;
    const load = keys.map(storedRowKey);
    const read = {
      load,
      run: (stored: readonly (Uint8Array | undefined)[]) => ({ persist: [], reply: { stored, at: appliedSeq(group) } }),
    };
    const { stored, at } = await runner.submit(read);
    assert(stored.length === keys.length && at <= appliedSeq(group), "I10: one step loads every key, as of a place that was applied");
    const rows: Uint8Array[] = [];
    let bytes = 0;
    for (let i = 0; i < stored.length; i += 1) {
      const value = stored[i];
      bytes += value?.length ?? 0;
      if (bytes > ATOMIC_READ_BYTES_MAX) throw tooManyBytes();
      rows.push(value === undefined ? NEVER_WRITTEN : await this.#checked(load[i]!, value));
    }
    return { rows, more: false, appliedSeq: at };
  }

  /** A page in which nothing changed since the look at the log (I10). */
  async #pageAtOnce(group: string, range: ReplicaRange): Promise<GroupRows> {
    const { reader, appliedSeq } = this.#options;
    const bounds = boundsOf(range);
    for (let tries = 0; tries < ATOMIC_RANGE_TRIES_MAX; tries += 1) {
      const at = appliedSeq(group);
      const entries = await reader.rangeAtOnce(bounds);
      assert(at <= appliedSeq(group), "I10: how far the log is applied only grows");
      if (entries !== "changed") return { ...(await this.#pageOf(entries, bounds.limit - 1)), appliedSeq: at };
    }
    throw new ConcordError(
      "REPLICAS_UNAVAILABLE",
      "rows of the range change faster than they are read; use a transaction, or a smaller range",
    );
  }

  async #pageOf(entries: readonly KeyValueEntry[], limit: number): Promise<ReplicaPage> {
    assert(limit >= 1 && entries.length <= limit + 1, "the store answers no more entries than it was asked for");
    const rows: Uint8Array[] = [];
    let bytes = 0;
    for (const { key, value } of entries) {
      if (rows.length === limit || bytes >= RANGE_BYTES_TARGET) return { rows, more: true };
      rows.push(await this.#checked(key, value));
      bytes += key.length + value.length;
    }
    // The reader ended its answer there; whether more follows is not known.
    return { rows, more: bytes > RANGE_BYTES_TARGET };
  }

  #checkPlace(row: Uint8Array, group: string, appliedSeq: Seq): void {
    if (row.length === 0) return;
    const { place } = openRow(row, this.#options.checksum);
    if (place === undefined) return;
    if (place.group !== group)
      throw new ConcordError("GROUP_MISMATCH", `a row follows from the log of group ${place.group}, not of ${group}`, {
        metadata: { group },
      });
    assert(place.seq <= appliedSeq, "no row is of an entry behind the answer (I10)");
  }

  /** Rows that are applied and not on disk yet are waited for by the reads themselves: the reader answers only what is on disk. */
  async #reached(after: readonly LogPosition[], timeoutMs: number): Promise<void> {
    const { appliedSeq, catchUp } = this.#options;
    const behind = after.filter(({ group, seq }) => appliedSeq(group) < seq);
    if (behind.length > 0) await Promise.all(behind.map(({ group, seq }) => catchUp(group, seq, timeoutMs)));
    assert(
      behind.every(({ group, seq }) => appliedSeq(group) >= seq),
      "I6: a replica that counts has applied what the reader names",
    );
  }

  /** Awaits nothing for a sound row. */
  #checked(storedKey: Uint8Array, value: Uint8Array): Uint8Array | Promise<Uint8Array> {
    try {
      imageRowKey(openRow(value, this.#options.checksum).image);
      return value;
    } catch (thrown) {
      return this.#refuse(storedKey, value, thrown);
    }
  }

  async #refuse(storedKey: Uint8Array, value: Uint8Array, thrown: unknown): Promise<never> {
    await this.#options.runner.submit({ load: [], run: () => ({ persist: [quarantine(storedKey, value)], reply: undefined }) });
    this.#options.onDamaged?.(storedKey);
    const row = rowText(storedKey.subarray(1));
    this.#options.log.error("a stored row failed its check and was quarantined", { row });
    const { message } = toConcordError(thrown);
    // A caller goes on behind the row that it names.
    throw new ConcordError("CORRUPT_DATA", `a stored row fails its check: ${row}: ${message}`, { metadata: { row } });
  }
}

/** One entry more than wanted: is there more? */
function boundsOf(range: ReplicaRange): KeyRange & { readonly limit: number } {
  const limit = Math.max(1, Math.min(range.limit, RANGE_IMAGES_MAX)) + 1;
  return { from: storedRowKey(range.from), to: storedRowKey(range.to), reverse: range.reverse, limit, bytesMax: RANGE_BYTES_TARGET };
}

function tooManyBytes(): ConcordError {
  const metadata = { limit: "ATOMIC_READ_BYTES_MAX", value: String(ATOMIC_READ_BYTES_MAX) };
  return new ConcordError("LIMIT_EXCEEDED", `an atomic read answers at most ${ATOMIC_READ_BYTES_MAX} bytes; read fewer rows`, { metadata });
}

function writtenTooLate(replica: string, newestUs: TimestampUs): ConcordError {
  const text = `${replica} has forgotten deletions up to timestamp ${newestUs}: what was written before them could come back; write it with a newer timestamp`;
  return new ConcordError("TIMESTAMP_OUT_OF_RANGE", text, { metadata: { forgottenUs: String(newestUs) } });
}
