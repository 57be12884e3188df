import type { Journal } from "@concord/journal";
import type { Oid } from "@concord/ports";
import { assert, ConcordError, every, Task, toConcordError } from "@concord/runtime";
import type { GatewayEpoch, EpochOptions } from "../reservation/gateway-epoch.ts";
import type { JournalMode, NewDelete, NewBlob, BlobName, Resolution, UploadJournal } from "../upload-journal.ts";
import { EpochKeeper } from "./epoch-keeper.ts";
import { CHECKPOINT_AT_BYTES, CHECKPOINT_INTERVAL_MS, TRANSACTIONS_BYTES_MAX, TRANSACTIONS_UNRESOLVED_MAX } from "./limits.ts";
import {
  CHECKPOINT_HEAD_BYTES_MAX,
  encodeCheckpoint,
  encodeRecord,
  type BegunDelete,
  type BegunUpload,
  type UploadCheckpoint,
} from "./records.ts";
import { scanJournal, UnresolvedTransactions } from "./unresolved.ts";

export interface UploadJournalOptions extends Omit<EpochOptions, "names" | "onFenced"> {
  readonly mode: JournalMode;
  /** This gateway's own; undefined only in mode `off`. */
  readonly journal: Journal | undefined;
  readonly checkpointIntervalMs?: number;
  readonly checkpointAtBytes?: number;
}

/** Scans what earlier processes left, then opens an epoch; resolves when uploads can begin. The journal stays the caller's to close. */
export async function openUploadJournal(options: UploadJournalOptions): Promise<GatewayJournal> {
  const { mode, journal } = options;
  if (journal === undefined && mode !== "off") throw new ConcordError("MALFORMED_REQUEST", `journal mode ${mode} needs a journal`);
  const left = journal === undefined ? { reserved: [], uploads: [], deletes: [] } : await scanJournal(journal);
  const transactions = new UnresolvedTransactions();
  for (const record of [...left.uploads, ...left.deletes]) transactions.add(record);
  const epochs = await EpochKeeper.open({ ...options, names: namesOf(options, transactions) });
  return new GatewayJournal(options, epochs, transactions, left);
}

/** Every journal mode behind one interface; only this class knows how they differ. */
export class GatewayJournal implements UploadJournal {
  readonly mode: JournalMode;
  /** Unresolved when the process before ended: recovery decides them and says so with `recovered`. */
  readonly left: UploadCheckpoint;
  readonly #options: UploadJournalOptions;
  readonly #journal: Journal | undefined;
  readonly #epochs: EpochKeeper;
  readonly #transactions: UnresolvedTransactions;
  readonly #appending = new Set<Promise<unknown>>();
  readonly #checkpoints: Task;
  #checkpointing: Promise<void> | undefined;
  #checkpointedAt: bigint | undefined;

  constructor(options: UploadJournalOptions, epochs: EpochKeeper, transactions: UnresolvedTransactions, left: UploadCheckpoint) {
    this.mode = options.mode;
    this.left = left;
    this.#options = options;
    this.#journal = options.journal;
    this.#epochs = epochs;
    this.#transactions = transactions;
    const { checkpointIntervalMs = CHECKPOINT_INTERVAL_MS } = options;
    this.#checkpoints = new Task({
      ...options,
      name: "objects: checkpoints of the upload journal",
      firstAfterMs: checkpointIntervalMs,
      ...every(checkpointIntervalMs, () => this.checkpoint()),
      failed: (error) => this.#warn("no checkpoint", error),
    });
    this.#checkpoints.start();
  }

  /** The epoch that names are taken from now. */
  get epoch(): number {
    return this.#epochs.epoch;
  }

  /** Epochs this process takes names from: recovery leaves them alone. */
  isOwn(epoch: number): boolean {
    return this.#epochs.isOwn(epoch);
  }

  async begin(blob: NewBlob): Promise<BlobName> {
    this.#checkRoom();
    const { oid, epoch } = await this.#epochs.take();
    const record = this.#recordOf(oid, blob);
    if (record !== undefined) {
      try {
        // Listed before it is appended (OGD7), durable before the first data byte (OGD6).
        await this.#append(this.#transactions.add(record));
      } catch (thrown) {
        this.#transactions.resolveUpload(oid);
        epoch.resolve(oid);
        throw refused(thrown);
      }
      this.#options.failpoint("object:after-begin-record");
    }
    let resolved = false;
    return {
      oid,
      resolve: async (how) => {
        assert(!resolved, `blob ${oid} is resolved once`);
        resolved = true;
        await this.#resolve(oid, epoch, how);
      },
      confirmLive: () => epoch.confirmOpen(),
    };
  }

  fenced(oid: Oid): void {
    this.#epochs.fenced(oid);
  }

  async beginDelete(deletion: NewDelete): Promise<{ resolve(): Promise<void> }> {
    if (!isPerTransaction(this.mode)) return { resolve: () => Promise.resolve() };
    this.#checkRoom();
    const record: BegunDelete = { kind: "deleting", ...deletion };
    const resolve = (): Promise<void> => {
      this.recovered(record);
      return Promise.resolve();
    };
    try {
      await this.#append(this.#transactions.add(record));
    } catch (thrown) {
      // Its record may be on disk; an end record keeps recovery from redoing what was refused.
      await resolve();
      throw thrown;
    }
    this.#options.failpoint("object:after-delete-record");
    return { resolve };
  }

  /** An upload or delete of `left` is decided and carried out: its end is written behind it (OG8). */
  recovered(record: BegunUpload | BegunDelete): void {
    if (record.kind === "begun") this.#transactions.resolveUpload(record.oid);
    else this.#transactions.resolveDelete(record.guid);
    this.#appendLater(record.kind === "begun" ? { kind: "aborted", oid: record.oid } : { kind: "deleted", guid: record.guid });
  }

  /** Lists what is unresolved, in one step with respect to new records (OGD7), and drops earlier records (OG10). Joins one in progress. */
  checkpoint(): Promise<void> {
    this.#checkpointing ??= this.#writeCheckpoint().finally(() => (this.#checkpointing = undefined));
    return this.#checkpointing;
  }

  async #writeCheckpoint(): Promise<void> {
    if (this.#journal === undefined) return;
    const sequence = await this.#journal.checkpoint(() => this.snapshot());
    assert(this.#checkpointedAt === undefined || sequence > this.#checkpointedAt, "OG10: a checkpoint is behind the one before it");
    this.#checkpointedAt = sequence;
    this.#options.failpoint("object:after-checkpoint");
    await this.#journal.trim(sequence);
    this.#options.failpoint("object:after-trim");
  }

  /** What is unresolved, whole: how a new segment begins after a failed sync of the one before (OGD8). */
  snapshot(): Uint8Array {
    const payload = encodeCheckpoint(this.#transactions.snapshot());
    assert(
      payload.length <= this.#transactions.bytes + CHECKPOINT_HEAD_BYTES_MAX,
      "OGD7: a checkpoint has the bytes that were counted for it",
    );
    return payload;
  }

  /** After the last upload has ended. */
  async stop(): Promise<void> {
    const checkpointed = this.#checkpoints.stop();
    await this.#epochs.stop();
    await checkpointed;
    await Promise.allSettled(this.#appending);
    await this.checkpoint().catch((thrown: unknown) => this.#warn("no last checkpoint", thrown));
  }

  async #resolve(oid: Oid, epoch: GatewayEpoch, how: Resolution): Promise<void> {
    epoch.resolve(oid);
    this.#transactions.resolveUpload(oid);
    if (!isPerTransaction(this.mode)) return;
    if (how !== "referenced") return this.#appendLater({ kind: "aborted", oid });
    // The optimised form writes no commit record: recovery looks at the row (OG7). The basic form's is durable before the answer (OG6).
    if (this.mode === "per-transaction-basic") await this.#append(encodeRecord({ kind: "committed", oid }));
  }

  #recordOf(oid: Oid, { replaces, bucket, key, part, guid }: NewBlob): BegunUpload | undefined {
    const description = { bucket, key, part, guid };
    if (this.mode === "per-transaction") return { kind: "begun", oid, description, form: { kind: "optimised" } };
    if (this.mode !== "per-transaction-basic") return undefined;
    const old = replaces === undefined ? undefined : { version: replaces.version, value: replaces.value };
    return { kind: "begun", oid, description, form: { kind: "basic", old } };
  }

  #checkRoom(): void {
    const full = this.#transactions.size >= TRANSACTIONS_UNRESOLVED_MAX || this.#transactions.bytes >= TRANSACTIONS_BYTES_MAX;
    if (full) throw new ConcordError("OVERLOADED", "too many uploads are undecided; try again");
  }

  #append(payload: Uint8Array): Promise<bigint> {
    assert(this.#journal !== undefined, "a mode with records has a journal");
    const { checkpointAtBytes = CHECKPOINT_AT_BYTES } = this.#options;
    if (this.#journal.sizeBytes >= checkpointAtBytes && this.#checkpointing === undefined)
      this.checkpoint().catch((thrown: unknown) => this.#warn("no checkpoint", thrown));
    return this.#journal.append(payload);
  }

  /** Not awaited: without this record recovery only reads one more row. */
  #appendLater(record: Parameters<typeof encodeRecord>[0]): void {
    if (this.#journal === undefined) return;
    const append = this.#append(encodeRecord(record)).catch((thrown: unknown) => this.#warn("an end record was not written", thrown));
    this.#appending.add(append);
    void append.finally(() => this.#appending.delete(append));
  }

  #warn(what: string, thrown: unknown): void {
    this.#options.log.warn(`upload journal: ${what}`, { reason: toConcordError(thrown).message });
  }
}

const isPerTransaction = (mode: JournalMode): boolean => mode === "per-transaction" || mode === "per-transaction-basic";

/** No blob was or will be created: whatever the journal says, the upload was not applied. */
function refused(thrown: unknown): ConcordError {
  const cause = toConcordError(thrown);
  return new ConcordError(cause.code, `the upload could not be written down: ${cause.message}`, { applied: "no", cause });
}

function namesOf({ mode, journal }: UploadJournalOptions, transactions: UnresolvedTransactions): EpochOptions["names"] {
  if (mode !== "reservation" || journal === undefined) return { kind: "free" };
  return {
    kind: "blocks",
    record: async (epoch, block) => {
      await journal.append(transactions.reserve({ kind: "reserved", epoch, block }));
    },
  };
}
