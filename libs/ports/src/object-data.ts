import { assert, ConcordError } from "@concord/runtime";

declare const oidBrand: unique symbol;
/** The name of one stored blob: gateway epoch and sequence in it, "0000002a-00000000000f". Never used twice (OG2, OGD5). */
export type Oid = string & { readonly [oidBrand]: true };

const EPOCH_DIGITS = 8;
const SEQUENCE_DIGITS = 12;

export function oidOf(epoch: number, sequence: number): Oid {
  assert(Number.isSafeInteger(epoch) && epoch > 0 && epoch < 2 ** 32, "an epoch is a positive 32-bit number");
  assert(Number.isSafeInteger(sequence) && sequence >= 0 && sequence < 2 ** 48, "a sequence has 48 bits");
  return `${epoch.toString(16).padStart(EPOCH_DIGITS, "0")}-${sequence.toString(16).padStart(SEQUENCE_DIGITS, "0")}` as Oid;
}

/** CORRUPT_DATA when the text is no oid. */
export function parseOid(text: string): { readonly epoch: number; readonly sequence: number } {
  if (!/^[0-9a-f]{8}-[0-9a-f]{12}$/.test(text)) throw new ConcordError("CORRUPT_DATA", `${JSON.stringify(text)} names no data blob`);
  return { epoch: Number.parseInt(text.slice(0, EPOCH_DIGITS), 16), sequence: Number.parseInt(text.slice(EPOCH_DIGITS + 1), 16) };
}

/** What a blob says of itself, so that recovery can find the rows that might name it (OGD6). */
export interface BlobDescription {
  readonly bucket: string;
  readonly key: string;
  /** The upload and part it was written for; undefined for a simple upload. */
  readonly part: { readonly uploadId: bigint; readonly number: number } | undefined;
  /** The upload's transaction. */
  readonly guid: bigint;
}

export interface SealedBlob {
  readonly lengthBytes: number;
  /** CRC32C of all its bytes. */
  readonly checksum: number;
}

export type BlobState =
  | { readonly kind: "absent" }
  /** Begun, not sealed; the description is undefined when not even that is whole. */
  | { readonly kind: "open"; readonly description: BlobDescription | undefined }
  | { readonly kind: "sealed"; readonly description: BlobDescription; readonly sealed: SealedBlob };

export interface BlobWriter {
  /** Appends; the bytes are the caller's again when it resolves. */
  write(bytes: Uint8Array): Promise<void>;
  /**
   * All bytes, the description and the blob's name are durable and readable. EPOCH_FENCED (applied: no) when the epoch was closed
   * before the blob could be found by its description: no row may refer to it (OGD3).
   */
  seal(): Promise<SealedBlob>;
  /** Abandons it unsealed; removing it is the caller's. */
  abandon(): Promise<void>;
}

export interface OidRange {
  readonly epoch: number;
  /** Inclusive. */
  readonly fromSequence: number;
  readonly limit: number;
}

/** Blobs of objects, written once. */
export interface ObjectData {
  /** PIECE_EXISTS when the oid is taken, EPOCH_FENCED when its epoch is closed: never an overwrite (OGD5). */
  create(oid: Oid, description: BlobDescription): Promise<BlobWriter>;
  /**
   * The bytes from `offset` on, `lengthBytes` of them, in chunks. Every byte given out passed its checksum; CORRUPT_DATA otherwise, and
   * when the blob is absent, not sealed or shorter. A chunk is the reader's until it asks for the next one or ends: its memory is used again.
   */
  read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array>;
  inspect(oid: Oid): Promise<BlobState>;
  /** False when there was none. Durable. */
  remove(oid: Oid): Promise<boolean>;
  /** Blobs of an epoch, sealed or not, in order. */
  list(range: OidRange): Promise<readonly Oid[]>;
  /** Epochs that may have blobs, ascending: at least those that have. Cheap: asked at each start. */
  epochs(): Promise<readonly number[]>;
  /** After it no blob of the epoch can be created or sealed-but-unlisted; durable and idempotent (OGD3). Blobs can be read and removed on. */
  closeEpoch(epoch: number): Promise<void>;
  /**
   * The caller knows that every epoch below was closed and recovered, or never used. What the store keeps of those without blobs may go, a
   * bounded part with each call; they stay closed. One call at a time.
   */
  releaseEpochs(below: number): Promise<void>;
}
