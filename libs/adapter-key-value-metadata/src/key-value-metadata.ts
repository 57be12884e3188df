import {
  addCounters,
  sameVersion,
  type KeyValue,
  type KeyValueOperation,
  type MetadataCommit,
  type MetadataOutcome,
  type MetadataRange,
  type MetadataRow,
  type ObjectMetadata,
  type StepRunner,
  type StoreStep,
} from "@concord/ports";
import { ConcordError, toConcordError, toHex, type Checksum, type Log } from "@concord/runtime";
import { counterKey, decodeCounters, decodeRow, encodeCounters, encodeRow, joined, rowPrefix } from "./format.ts";
import { COMMIT_BYTES_MAX, COMMIT_ROWS_MAX } from "./limits.ts";

/** Steps and reads over one store, as `engine` offers them: reads see every commit that was answered, and only what is on disk (I4). */
export interface MetadataStore extends StepRunner {
  getSynced(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]>;
  rangeSynced: KeyValue["range"];
}

export interface KeyValueMetadataOptions {
  /** Only this adapter writes keys that begin with 0x01 or 0x02. */
  readonly store: MetadataStore;
  readonly checksum: Checksum;
  readonly log: Log;
}

/** A commit ready to run: the bytes are our own, the caller may reuse its buffers. */
interface PreparedCommit {
  readonly rowKeys: readonly Uint8Array[];
  readonly counterKeys: readonly Uint8Array[];
  readonly amounts: readonly (readonly bigint[])[];
  readonly operations: readonly KeyValueOperation[];
}

/** Metadata rows in an ordered store on this machine: one step per commit, so that many commits share a sync. */
export class KeyValueMetadata implements ObjectMetadata {
  readonly #store: MetadataStore;
  readonly #checksum: Checksum;
  readonly #log: Log;

  constructor({ store, checksum, log }: KeyValueMetadataOptions) {
    this.#store = store;
    this.#checksum = checksum;
    this.#log = log;
  }

  async read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    const prefix = rowPrefix(partition);
    const values = await this.#store.getSynced(keys.map((key) => joined(prefix, key)));
    return keys.map((key, at) => this.#row(partition, Uint8Array.from(key), values[at]));
  }

  async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    const prefix = rowPrefix(partition);
    const { limit, reverse = false, onUnreadable } = range;
    const rows: MetadataRow[] = [];
    let [from, to] = [joined(prefix, range.from), joined(prefix, range.to)];
    for (;;) {
      const asked = limit - rows.length;
      const entries = await this.#store.rangeSynced({ from, to, limit: asked, reverse });
      for (const { key, value } of entries) {
        const row = this.#readableRow(partition, key.slice(prefix.length), value, onUnreadable);
        if (row !== undefined) rows.push(row);
      }
      const last = entries.at(-1);
      // A page that lacks rows says that there are no more: what was passed over is made up for.
      if (last === undefined || entries.length < asked || rows.length === limit) return rows;
      if (reverse) to = last.key;
      else from = Uint8Array.of(...last.key, 0);
    }
  }

  /** Undefined: it was passed over. */
  #readableRow(
    partition: string,
    key: Uint8Array,
    value: Uint8Array,
    onUnreadable: MetadataRange["onUnreadable"],
  ): MetadataRow | undefined {
    try {
      return this.#row(partition, key, value);
    } catch (thrown) {
      if (onUnreadable === undefined || toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
      onUnreadable(key);
      return undefined;
    }
  }

  async readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    const [value] = await this.#store.getSynced([counterKey(partition, key)]);
    return this.#checked(partition, key, () => decodeCounters(value, this.#checksum));
  }

  async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    assertWithinLimits(commit);
    const step = this.#stepOf(commit.partition, copyConditions(commit), this.#prepare(commit));
    try {
      return await this.#store.submit(step);
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.applied === "no") throw error;
      return { kind: "unknown", cause: error };
    }
  }

  #prepare({ partition, conditions, writes }: MetadataCommit): PreparedCommit {
    const prefix = rowPrefix(partition);
    const adds = writes.filter((write) => write.kind === "add");
    const operations = writes.flatMap((write): KeyValueOperation[] => {
      if (write.kind === "add") return [];
      if (write.kind === "delete") return [{ kind: "delete", key: joined(prefix, write.key) }];
      return [{ kind: "put", key: joined(prefix, write.row.key), value: encodeRow(write.row, this.#checksum) }];
    });
    return {
      rowKeys: conditions.map(({ key }) => joined(prefix, key)),
      counterKeys: adds.map(({ key }) => counterKey(partition, key)),
      amounts: adds.map(({ amounts }) => [...amounts]),
      operations,
    };
  }

  /** Compares and writes in one step, so no other write comes between (I1). */
  #stepOf(partition: string, conditions: MetadataCommit["conditions"], prepared: PreparedCommit): StoreStep<MetadataOutcome> {
    const { rowKeys, counterKeys, amounts, operations } = prepared;
    return {
      load: [...rowKeys, ...counterKeys],
      run: (loaded) => {
        const rows = conditions.map(({ key }, at) => this.#row(partition, key, loaded[at]));
        const holds = conditions.every(({ version }, at) => sameVersion(rows[at]?.version, version));
        if (!holds) return { persist: [], reply: { kind: "conflict", rows } };
        const counters = this.#added(partition, counterKeys, loaded.slice(rowKeys.length), amounts);
        return { persist: [...operations, ...counters], reply: { kind: "committed" } };
      },
    };
  }

  /** A counter that is named twice is read once and written once. */
  #added(
    partition: string,
    keys: readonly Uint8Array[],
    loaded: readonly (Uint8Array | undefined)[],
    amounts: readonly (readonly bigint[])[],
  ): KeyValueOperation[] {
    const sums = new Map<string, { readonly key: Uint8Array; readonly counters: readonly bigint[] }>();
    for (const [at, key] of keys.entries()) {
      const name = toHex(key);
      const before = sums.get(name)?.counters ?? this.#checked(partition, key, () => decodeCounters(loaded[at], this.#checksum));
      sums.set(name, { key, counters: addCounters(before, amounts[at]!) });
    }
    return [...sums.values()].map(({ key, counters }) => ({ kind: "put", key, value: encodeCounters(counters, this.#checksum) }));
  }

  #row(partition: string, key: Uint8Array, value: Uint8Array | undefined): MetadataRow | undefined {
    return value === undefined ? undefined : this.#checked(partition, key, () => decodeRow(key, value, this.#checksum));
  }

  /** A corrupt row stays where it is and is named in the log and in the error; every read of it fails (I3). */
  #checked<Decoded>(partition: string, key: Uint8Array, decode: () => Decoded): Decoded {
    try {
      return decode();
    } catch (thrown) {
      const error = toConcordError(thrown);
      const metadata = { partition, key: toHex(key) };
      this.#log.error("a metadata row is corrupt", { ...metadata, cause: error.message });
      throw new ConcordError("CORRUPT_DATA", `a metadata row of ${JSON.stringify(partition)} is corrupt: ${error.message}`, {
        metadata,
        cause: error,
      });
    }
  }
}

function copyConditions({ conditions }: MetadataCommit): MetadataCommit["conditions"] {
  return conditions.map(({ key, version }) => ({ key: Uint8Array.from(key), version }));
}

function assertWithinLimits({ conditions, writes }: MetadataCommit): void {
  const refuse = (limit: string, value: number): never => {
    throw new ConcordError("LIMIT_EXCEEDED", `one commit exceeds ${limit} = ${value}`, { metadata: { limit, value: String(value) } });
  };
  if (conditions.length + writes.length > COMMIT_ROWS_MAX) refuse("COMMIT_ROWS_MAX", COMMIT_ROWS_MAX);
  const bytes = writes.reduce((sum, write) => sum + (write.kind === "put" ? write.row.value.length : 0), 0);
  if (bytes > COMMIT_BYTES_MAX) refuse("COMMIT_BYTES_MAX", COMMIT_BYTES_MAX);
}
