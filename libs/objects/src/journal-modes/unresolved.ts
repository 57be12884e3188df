// The unresolved records of a journal: a list in memory while it runs, rebuilt by a backward scan after a crash.
import type { Journal } from "@concord/journal";
import type { Oid } from "@concord/ports";
import { assert } from "@concord/runtime";
import { decodeCheckpoint, decodeRecord, encodeRecord, type BegunDelete, type BegunUpload, type UploadCheckpoint } from "./records.ts";
import type { Reservation } from "./records.ts";

/**
 * Uploads and deletes that are not resolved. An entry is added before its record is appended, so whatever a checkpoint's list lacks has its
 * record behind the checkpoint (OGD7).
 */
export class UnresolvedTransactions {
  readonly #uploads = new Map<Oid, { readonly record: BegunUpload; readonly bytes: number }>();
  readonly #deletes = new Map<bigint, { readonly record: BegunDelete; readonly bytes: number }>();
  #reserved: Reservation | undefined;
  #bytes = 0;

  /** Answers the record as bytes. */
  add(record: BegunUpload | BegunDelete): Uint8Array {
    const isListed = record.kind === "begun" ? this.#uploads.has(record.oid) : this.#deletes.has(record.guid);
    assert(!isListed, "OGD7: what is unresolved is listed once");
    const encoded = encodeRecord(record);
    this.#bytes += encoded.length;
    if (record.kind === "begun") this.#uploads.set(record.oid, { record, bytes: encoded.length });
    else this.#deletes.set(record.guid, { record, bytes: encoded.length });
    return encoded;
  }

  reserve(record: Reservation): Uint8Array {
    const before = this.#reserved;
    // A fenced epoch may record its last block after the first one of the epoch that follows it.
    const isBehind = before === undefined || before.epoch !== record.epoch || record.block.from >= before.block.to;
    assert(isBehind, "OGD6: a block is recorded behind those of its epoch before it");
    this.#reserved = record;
    return encodeRecord(record);
  }

  resolveUpload(oid: Oid): void {
    this.#bytes -= this.#uploads.get(oid)?.bytes ?? 0;
    this.#uploads.delete(oid);
    this.#assertBytes();
  }

  resolveDelete(guid: bigint): void {
    this.#bytes -= this.#deletes.get(guid)?.bytes ?? 0;
    this.#deletes.delete(guid);
    this.#assertBytes();
  }

  #assertBytes(): void {
    assert(this.#bytes >= 0 && (this.size > 0 || this.#bytes === 0), "OGD7: a checkpoint has the bytes of what it lists");
  }

  get size(): number {
    return this.#uploads.size + this.#deletes.size;
  }

  /** The bytes of a checkpoint of them. */
  get bytes(): number {
    return this.#bytes;
  }

  snapshot(): UploadCheckpoint {
    return {
      reserved: this.#reserved === undefined ? [] : [this.#reserved],
      uploads: [...this.#uploads.values()].map(({ record }) => record),
      deletes: [...this.#deletes.values()].map(({ record }) => record),
    };
  }
}

/**
 * Backwards to the newest checkpoint, and its list (OG8, OG10): every upload without an abort or commit record, every delete without its
 * end (OG22), the newest block of every epoch. CORRUPT_DATA for a record that cannot be read though its frame is whole: a newer version's.
 */
export async function scanJournal(journal: Journal): Promise<UploadCheckpoint> {
  const reserved = new Map<number, Reservation>();
  const uploads = new Map<Oid, BegunUpload>();
  const deletes = new Map<bigint, BegunDelete>();
  // Seen from the end: an end record comes before the record it ends.
  const ended = new Set<Oid | bigint>();
  const take = (record: BegunUpload | BegunDelete): void => {
    if (record.kind === "begun" && !ended.has(record.oid)) uploads.set(record.oid, record);
    if (record.kind === "deleting" && !ended.has(record.guid)) deletes.set(record.guid, record);
  };
  for await (const found of journal.readBackward()) {
    if (found.kind === "checkpoint") {
      const listed = decodeCheckpoint(found.payload);
      for (const record of listed.reserved) if (!reserved.has(record.epoch)) reserved.set(record.epoch, record);
      for (const record of [...listed.uploads, ...listed.deletes]) take(record);
      break;
    }
    const record = decodeRecord(found.payload);
    if (record.kind === "begun" || record.kind === "deleting") take(record);
    else if (record.kind !== "reserved") ended.add(record.kind === "deleted" ? record.guid : record.oid);
    else if (!reserved.has(record.epoch)) reserved.set(record.epoch, record);
  }
  return { reserved: [...reserved.values()], uploads: [...uploads.values()], deletes: [...deletes.values()] };
}
