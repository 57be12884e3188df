import type { Oid, BlobDescription, BlobWriter, SealedBlob } from "@concord/ports";
import { assert, ConcordError, unreachable, type Checksum, type DiskFile } from "@concord/runtime";
import { Digest, type CombineChecksums } from "./digest.ts";
import { BLOB_BYTES_MAX, WRITE_BYTES } from "./limits.ts";
import { encodeEnd, encodeHeader } from "./blob-format.ts";

export interface BlobWriterOptions {
  readonly oid: Oid;
  readonly description: BlobDescription;
  readonly file: DiskFile;
  readonly checksum: Checksum;
  readonly combine: CombineChecksums | undefined;
  readonly failpoint: (name: string) => void;
  /** Name durable, epoch open: joined after all bytes were written. */
  readonly settle: () => Promise<void>;
}

type WriterState = "writing" | "failed" | "ended";

/** Gathers bytes to few writes; a short blob is one write and one sync. */
export class FileBlobWriter implements BlobWriter {
  readonly #options: BlobWriterOptions;
  readonly #digest: Digest;
  readonly #header: Uint8Array;
  #gathered: Uint8Array[];
  #gatheredBytes: number;
  #writtenBytes = 0;
  #state: WriterState = "writing";

  constructor(options: BlobWriterOptions) {
    const header = encodeHeader(options, options.checksum);
    this.#options = options;
    this.#digest = new Digest(options.checksum, options.combine);
    this.#header = header;
    this.#gathered = [header];
    this.#gatheredBytes = header.length;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#begin("is written");
    if (this.#digest.lengthBytes + bytes.length > BLOB_BYTES_MAX) {
      const metadata = { limit: "BLOB_BYTES_MAX", value: String(BLOB_BYTES_MAX) };
      throw new ConcordError("LIMIT_EXCEEDED", `data blob ${this.#options.oid} gets longer than ${BLOB_BYTES_MAX} bytes`, { metadata });
    }
    if (bytes.length === 0) return;
    this.#digest.update(bytes);
    if (this.#gatheredBytes + bytes.length >= WRITE_BYTES) return await this.#flush(bytes);
    this.#gathered.push(bytes.slice());
    this.#gatheredBytes += bytes.length;
  }

  async seal(): Promise<SealedBlob> {
    this.#begin("is sealed");
    const { oid, file, checksum, failpoint } = this.#options;
    const sealed = this.#digest.finish();
    await this.#flush(encodeEnd(oid, this.#header, sealed, this.#digest.table, checksum));
    failpoint("piece:written");
    this.#state = "ended";
    try {
      // Durable before it is referred to (I1); bytes and name are synced at the same time.
      await Promise.all([file.sync().then(() => failpoint("piece:synced")), this.#options.settle()]);
    } finally {
      await file.close();
    }
    failpoint("piece:sealed");
    return sealed;
  }

  async abandon(): Promise<void> {
    if (this.#state === "ended") return;
    this.#state = "ended";
    await this.#options.file.close();
  }

  /** One write for what was gathered and `bytes`. After a failed one the blob cannot be sealed. */
  async #flush(bytes: Uint8Array): Promise<void> {
    const parts = [...this.#gathered, bytes];
    const length = this.#gatheredBytes + bytes.length;
    const at = this.#writtenBytes;
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#writtenBytes += length;
    try {
      await this.#options.file.write(at, parts);
    } catch (thrown) {
      this.#state = "failed";
      throw thrown;
    }
  }

  #begin(what: string): void {
    switch (this.#state) {
      case "writing":
        return;
      case "failed":
        throw new ConcordError("STORE_FAILED", `data blob ${this.#options.oid} failed before`, { applied: "no" });
      case "ended":
        return assert(false, `an ended blob ${what}`);
      default:
        unreachable(this.#state);
    }
  }
}
