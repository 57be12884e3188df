import type { Oid, BlobDescription, BlobWriter, SealedBlob } from "@concord/ports";
import { parseOid } from "@concord/ports";
import { assert, ConcordError, toConcordError, unreachable, type Checksum } from "@concord/runtime";
import { Digest, type CombineChecksums } from "./digest.ts";
import type { Begun, PackedEpoch } from "./packed-epoch.ts";
import { encodeEnd, encodeHeader } from "./blob-format.ts";

/** Bytes in memory of all blobs that wait to be packed. */
export class PackBudget {
  readonly #maxBytes: number;
  #usedBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get isSpent(): boolean {
    return this.#usedBytes >= this.#maxBytes;
  }

  take(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.#maxBytes) return false;
    this.#usedBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes;
    assert(this.#usedBytes >= 0, "what is given back was taken");
  }
}

export interface PackingWriterOptions {
  readonly oid: Oid;
  readonly description: BlobDescription;
  readonly epoch: PackedEpoch;
  readonly begun: Begun;
  readonly packBytesMax: number;
  readonly budget: PackBudget;
  readonly checksum: Checksum;
  readonly combine: CombineChecksums | undefined;
  readonly failpoint: (name: string) => void;
  /** Creates a file of its own for a blob that gets too long. */
  readonly spill: () => Promise<BlobWriter>;
}

type State =
  | { readonly kind: "buffering"; readonly chunks: Uint8Array[]; bytes: number }
  | { readonly kind: "file"; readonly writer: BlobWriter }
  | { readonly kind: "failed" }
  | { readonly kind: "ended" };

/** Keeps a blob in memory until it is known to be short, then it becomes a needle; a longer one becomes a file. */
export class PackingWriter implements BlobWriter {
  readonly #options: PackingWriterOptions;
  readonly #header: Uint8Array;
  #state: State = { kind: "buffering", chunks: [], bytes: 0 };

  constructor(options: PackingWriterOptions) {
    this.#options = options;
    this.#header = encodeHeader(options, options.checksum);
  }

  async write(bytes: Uint8Array): Promise<void> {
    const state = this.#state;
    switch (state.kind) {
      case "buffering":
        if (bytes.length === 0) return;
        if (state.bytes + bytes.length > this.#options.packBytesMax || !this.#options.budget.take(bytes.length))
          return await this.#spill(state.chunks, state.bytes, bytes);
        state.chunks.push(bytes.slice());
        state.bytes += bytes.length;
        return;
      case "file":
        return await state.writer.write(bytes);
      case "failed":
        throw this.#failedBefore();
      case "ended":
        return assert(false, "an ended blob is written");
      default:
        return unreachable(state);
    }
  }

  async seal(): Promise<SealedBlob> {
    const state = this.#state;
    switch (state.kind) {
      case "buffering":
        this.#state = { kind: "ended" };
        return await this.#append(state.chunks, state.bytes);
      case "file":
        return await state.writer.seal();
      case "failed":
        throw this.#failedBefore();
      case "ended":
        assert(false, "an ended blob is sealed");
        break;
      default:
        return unreachable(state);
    }
  }

  /** What was buffered is gone; the name stays taken until it is removed. */
  async abandon(): Promise<void> {
    const state = this.#state;
    if (state.kind === "file") return await state.writer.abandon();
    if (state.kind === "buffering") this.#options.budget.give(state.bytes);
    this.#state = { kind: "ended" };
  }

  async #append(chunks: readonly Uint8Array[], bytes: number): Promise<SealedBlob> {
    const { oid, epoch, begun, budget, checksum, combine, failpoint } = this.#options;
    const digest = new Digest(checksum, combine);
    for (const chunk of chunks) digest.update(chunk);
    const sealed = digest.finish();
    const end = encodeEnd(oid, this.#header, sealed, digest.table, checksum);
    const lengthBytes = this.#header.length + bytes + end.length;
    try {
      await epoch.append(begun, { sequence: parseOid(oid).sequence, parts: [this.#header, ...chunks, end], lengthBytes });
    } finally {
      budget.give(bytes);
    }
    failpoint("segment:sealed");
    return sealed;
  }

  async #spill(chunks: readonly Uint8Array[], buffered: number, bytes: Uint8Array): Promise<void> {
    const { oid, epoch, begun, budget, spill } = this.#options;
    this.#state = { kind: "failed" };
    try {
      if (epoch.begun(parseOid(oid).sequence) !== begun)
        throw new ConcordError("EPOCH_FENCED", `data blob ${oid} was removed`, { applied: "no" });
      const writer = await spill();
      this.#state = { kind: "file", writer };
      epoch.release(parseOid(oid).sequence);
      for (const chunk of chunks) await writer.write(chunk);
      await writer.write(bytes);
    } catch (thrown) {
      // There is nothing to remove.
      if (toConcordError(thrown).code === "EPOCH_FENCED") epoch.release(parseOid(oid).sequence);
      throw thrown;
    } finally {
      budget.give(buffered);
    }
  }

  #failedBefore(): ConcordError {
    return new ConcordError("STORE_FAILED", `data blob ${this.#options.oid} failed before`, { applied: "no" });
  }
}
