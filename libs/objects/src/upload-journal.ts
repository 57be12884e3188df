// How blobs get their names and what is written down before their first byte (OGD6, OG6, OG7): one interface for every journal mode,
// so that uploads and deletes read the same in all of them. Implemented in reservation/ and journal-modes/.
import type { MetadataRow, Oid, BlobDescription, RowVersion } from "@concord/ports";

/**
 * `reservation`: names come from blocks that are durable before their first use; an upload writes no record (OGD6).
 * `per-transaction`: a synced start-and-create record for each blob, an abort record on failure (OG7), redo records of deletes (OG11).
 * `per-transaction-basic`: the old row too, and a synced commit record before the answer (OG6, OG19).
 * `off`: nothing is written down; a crash may leak (OG21).
 */
export type JournalMode = "reservation" | "per-transaction" | "per-transaction-basic" | "off";

/** The outcome of a blob; only a resolution takes its name off the unresolved list (OGD7). */
export type Resolution =
  /** A row names it, by a commit that was answered or that a serial read found. */
  | "referenced"
  /** A GC entry names it, by a commit that was answered or that a serial read found. */
  | "garbage"
  /** It was never created, or was removed before any commit that names it was sent, and will never be created. */
  | "absent";

/** A name for one blob that will be created exactly once. */
export interface BlobName {
  readonly oid: Oid;
  /**
   * Call it exactly once, when the blob's fate is certain; never while a commit that names it is unresolved (OGD2). Rejects only in
   * `per-transaction-basic` and only for "referenced": the commit record may be lost, so the upload must be answered as unknown.
   */
  resolve(how: Resolution): Promise<void>;
  /**
   * Rejects with EPOCH_FENCED when the name's epoch was closed. The first commit needs no such call if the version it conditions on was
   * read before the blob was created. Every later one does, after the row was read again and before the commit is sent: recovery closes
   * the epoch before it reads the rows, so a commit whose row was read while the epoch was open cannot name what recovery hands to gc
   * (OGD3). After EPOCH_FENCED the blob is recovery's: neither remove nor resolve it.
   */
  confirmLive(): Promise<void>;
}

export interface NewBlob extends BlobDescription {
  /** The head (or part) row that the upload is going to replace, as last read. */
  readonly replaces: MetadataRow | undefined;
}

export interface NewDelete {
  readonly bucket: string;
  readonly key: string;
  readonly guid: bigint;
  /** The version of the row that is going to be deleted. */
  readonly version: RowVersion;
  /** Of the version of the key that goes; absent: the object of a bucket without versions. */
  readonly versionId?: string;
}

export interface UploadJournal {
  readonly mode: JournalMode;
  /**
   * A name, written down as the mode wants before this resolves: call it before `ObjectData.create`. Rejects with EPOCH_FENCED when the
   * gateway's epoch is closed, OVERLOADED when no block is reserved in time, STORE_FAILED (applied: no) when the journal fails.
   */
  begin(blob: NewBlob): Promise<BlobName>;
  /** To be called when `ObjectData.create` or `seal` rejects with EPOCH_FENCED: the gateway takes a new epoch. */
  fenced(oid: Oid): void;
  /** Before the commit that deletes an object or a version. Call `resolve` when that commit is decided either way; not while it is unresolved. */
  beginDelete(deletion: NewDelete): Promise<{ resolve(): Promise<void> }>;
}

/** A commit whose request ran out of time while it was unresolved (OGD2). */
export interface UnresolvedCommit {
  readonly bucket: string;
  readonly key: string;
  /** The names that its decision resolves. */
  readonly oids: readonly Oid[];
  /** One bounded attempt to decide it: true when it is decided and its names are resolved. A rejection counts as false. */
  readonly attempt: () => Promise<boolean>;
}

/** Where the core hands over what it could not decide; the background resolver (recovery/) tries again until it is decided. */
export interface UnresolvedCommits {
  add(commit: UnresolvedCommit): void;
}
