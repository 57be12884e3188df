import type { KeyValue, LogPosition, StepRunner } from "@concord/ports";
import { imageRowKey } from "@concord/rows";
import { ConcordError, type Checksum, type Log, type Seq } from "@concord/runtime";
import { RANGE_BYTES_TARGET, RANGE_IMAGES_MAX } from "./limits.ts";
import type { ReplicaPage, ReplicaRange, RowReplica } from "./row-replica.ts";
import { applyRowsStep } from "./row-steps.ts";
import { openRow, quarantine, storedRowKey } from "./stored-row.ts";

const NEVER_WRITTEN = new Uint8Array();

export interface LocalRowReplicaOptions {
  readonly name: string;
  readonly runner: StepRunner;
  /** Sees every step submitted before, answers only what is on disk. */
  readonly reader: {
    getMany(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]>;
    range: KeyValue["range"];
  };
  /** Resolves when this node has applied a group's log up to `seq`. */
  readonly catchUp: (group: string, seq: Seq, timeoutMs: number) => Promise<void>;
  /** How far it has now, though perhaps not on disk yet. */
  readonly appliedSeq: (group: string) => Seq;
  readonly checksum: Checksum;
  readonly log: Log;
  /** A stored row fails its check: the replica refuses to answer for it until it is healed (I5). */
  readonly onDamaged?: (storedKey: Uint8Array) => void;
}

/** This node's rows. Also what its peers reach through ReplicaService. */
export class LocalRowReplica implements RowReplica {
  readonly name: string;
  readonly reachable = true;
  readonly #options: LocalRowReplicaOptions;

  constructor(options: LocalRowReplicaOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** CORRUPT_DATA (applied: unknown) when a mutation or a stored row fails its check. */
  async applyRows(mutations: readonly Uint8Array[]): Promise<void> {
    const reply = await this.#options.runner.submit(applyRowsStep(mutations, this.#options.checksum));
    if (reply.kind === "applied") return;
    const { storedKeys } = reply;
    for (const storedKey of storedKeys) this.#options.onDamaged?.(storedKey);
    this.#options.log.error("stored rows failed their check and were quarantined", { rows: storedKeys.length });
    throw new ConcordError("CORRUPT_DATA", `${storedKeys.length} stored rows of ${this.name} fail their check`, { applied: "unknown" });
  }

  async readRows(keys: readonly Uint8Array[], timeoutMs: number, after: readonly LogPosition[]): Promise<readonly Uint8Array[]> {
    await this.#reached(after, timeoutMs);
    const storedKeys = keys.map(storedRowKey);
    const stored = await this.#options.reader.getMany(storedKeys);
    const rows: Uint8Array[] = [];
    for (let i = 0; i < stored.length; i += 1) {
      const value = stored[i];
      rows.push(value === undefined ? NEVER_WRITTEN : await this.#checked(storedKeys[i]!, value));
    }
    return rows;
  }

  async readRowRange(range: ReplicaRange, timeoutMs: number, after: readonly LogPosition[]): Promise<ReplicaPage> {
    await this.#reached(after, timeoutMs);
    const limit = Math.max(1, Math.min(range.limit, RANGE_IMAGES_MAX));
    const bounds = { from: storedRowKey(range.from), to: storedRowKey(range.to), reverse: range.reverse, limit: limit + 1 };
    const entries = await this.#options.reader.range({ ...bounds, bytesMax: RANGE_BYTES_TARGET });
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

  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    return this.#options.catchUp(group, seq, timeoutMs);
  }

  /** Rows that are applied and not on disk yet are waited for by the reads themselves: the reader answers only what is on disk. */
  async #reached(after: readonly LogPosition[], timeoutMs: number): Promise<void> {
    const { appliedSeq, catchUp } = this.#options;
    const behind = after.filter(({ group, seq }) => appliedSeq(group) < seq);
    if (behind.length > 0) await Promise.all(behind.map(({ group, seq }) => catchUp(group, seq, timeoutMs)));
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
    this.#options.log.error("a stored row failed its check and was quarantined", { keyBytes: storedKey.length });
    throw thrown;
  }
}
