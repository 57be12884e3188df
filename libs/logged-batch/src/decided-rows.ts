import type { LogPosition } from "@concord/ports";
import { assert, type Seq, type TimestampUs } from "@concord/runtime";
import type { BatchLog, HeldBatch } from "./batch-log.ts";

/** The rows of this node: quorum's LocalRowReplica is one. */
export interface LocalRows<Range, Page> {
  readonly name: string;
  readonly reachable: boolean;
  readonly collection: string | undefined;
  /** As quorum's replicas: the newest stored timestamp that a part of some mutation lost to, 0 = none did. */
  applyRows(mutations: readonly Uint8Array[]): Promise<TimestampUs>;
  applyCopies(mutations: readonly Uint8Array[], collection: string | undefined): Promise<boolean>;
  readRows(keys: readonly Uint8Array[], timeoutMs: number, after: readonly LogPosition[]): Promise<readonly Uint8Array[]>;
  readRowRange(range: Range, timeoutMs: number, after: readonly LogPosition[]): Promise<Page>;
  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void>;
}

export interface DecidedRowsOptions<Range, Page> {
  readonly rows: LocalRows<Range, Page>;
  readonly batchLog: BatchLog;
  /** As `BatchReplay.whenDecided`. */
  readonly whenDecided: (held: HeldBatch) => Promise<void>;
}

/**
 * The rows of this node as readers may see them: a read waits until every batch that is held here, writes one of its rows and began
 * before it is decided and merged (I5). Two holders have what is acknowledged, and two replicas answer a read: one of them holds it.
 */
export class DecidedRows<Range extends { readonly from: Uint8Array; readonly to: Uint8Array }, Page> implements LocalRows<Range, Page> {
  readonly #options: DecidedRowsOptions<Range, Page>;

  constructor(options: DecidedRowsOptions<Range, Page>) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.rows.name;
  }

  get reachable(): boolean {
    return this.#options.rows.reachable;
  }

  /** Writes merge by timestamp with what comes later: they wait for nothing. */
  applyRows(mutations: readonly Uint8Array[]): Promise<TimestampUs> {
    return this.#options.rows.applyRows(mutations);
  }

  get collection(): string | undefined {
    return this.#options.rows.collection;
  }

  applyCopies(mutations: readonly Uint8Array[], collection: string | undefined): Promise<boolean> {
    return this.#options.rows.applyCopies(mutations, collection);
  }

  async readRows(keys: readonly Uint8Array[], timeoutMs: number, after: readonly LogPosition[]): Promise<readonly Uint8Array[]> {
    const { rows, batchLog } = this.#options;
    const batches = batchLog.undecided.at(keys);
    if (batches.size > 0) await this.#decided(batches);
    return rows.readRows(keys, timeoutMs, after);
  }

  async readRowRange(range: Range, timeoutMs: number, after: readonly LogPosition[]): Promise<Page> {
    const { rows, batchLog } = this.#options;
    const batches = batchLog.undecided.between(range.from, range.to);
    if (batches.size > 0) await this.#decided(batches);
    return rows.readRowRange(range, timeoutMs, after);
  }

  async #decided(batches: ReadonlySet<HeldBatch>): Promise<void> {
    const { batchLog, whenDecided } = this.#options;
    await Promise.all([...batches].map(whenDecided));
    for (const held of batches) assert(held.state.kind !== "undecided" || !batchLog.isHeld(held), "I5: a read waits for every decision");
  }

  /** Rows of groups are no batch's. */
  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    return this.#options.rows.catchUp(group, seq, timeoutMs);
  }
}
