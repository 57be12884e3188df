import type { Oid, BlobDescription, BlobWriter, SealedBlob } from "@concord/ports";
import { assert, ConcordError, toConcordError, unreachable, type Checksum } from "@concord/runtime";
import { Digest } from "./digest.ts";
import { fencedBlob, type EpochIndex, type HeldEntry } from "./epoch-index.ts";
import { BLOB_BYTES_MAX, PARTS_IN_FLIGHT, PART_BYTES, STRIPES_MAX, STRIPES_RESERVED_FACTOR, STRIPE_BYTES } from "./limits.ts";
import { stripesOf, type Stripes } from "./stripes.ts";

export interface BlobWriterOptions {
  readonly oid: Oid;
  readonly description: BlobDescription;
  readonly begun: HeldEntry;
  readonly index: EpochIndex;
  readonly stripes: Stripes;
  readonly checksum: Checksum;
  readonly failpoint: (name: string) => void;
  /** The writer sends nothing any more. Called once. `known`: not sealed, and the cluster has answered everything it sent. */
  readonly onEnded: (end: WriterEnd) => void;
}

export type WriterEnd = "sealed" | "known" | "unknown";

type State =
  | { readonly kind: "writing" }
  | { readonly kind: "failed"; readonly cause: ConcordError }
  /** By the removal of its blob, or by `abandon`. */
  | { readonly kind: "stopped" }
  | { readonly kind: "ended" };

/** Gathers bytes to parts and keeps some of them on their way. */
export class RadosBlobWriter implements BlobWriter {
  readonly #options: BlobWriterOptions;
  readonly #digest: Digest;
  #held: HeldEntry;
  #gathered: Uint8Array | undefined;
  #gatheredBytes = 0;
  #parts = 0;
  readonly #sending: Promise<void>[] = [];
  #isKnown = true;
  #isEnded = false;
  #state: State = { kind: "writing" };

  constructor(options: BlobWriterOptions) {
    this.#options = options;
    this.#digest = new Digest(options.checksum);
    this.#held = options.begun;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#assertWriting();
    if (this.#digest.lengthBytes + bytes.length > BLOB_BYTES_MAX) {
      const metadata = { limit: "BLOB_BYTES_MAX", value: String(BLOB_BYTES_MAX) };
      throw new ConcordError("LIMIT_EXCEEDED", `data blob ${this.#options.oid} gets longer than ${BLOB_BYTES_MAX} bytes`, { metadata });
    }
    this.#digest.update(bytes);
    for (let at = 0; at < bytes.length;) {
      const rest = bytes.subarray(at, at + PART_BYTES - this.#gatheredBytes);
      at += rest.length;
      // A whole part goes out without a copy of its own.
      if (rest.length === PART_BYTES) {
        await this.#send(rest);
        continue;
      }
      this.#gather(rest);
      if (this.#gatheredBytes === PART_BYTES) await this.#flush();
    }
  }

  async seal(): Promise<SealedBlob> {
    this.#assertWriting();
    const { oid, description, index, failpoint } = this.#options;
    const sealed = this.#digest.finish();
    if (this.#gatheredBytes > 0) await this.#flush();
    await this.#sent();
    failpoint("piece:written");
    // Every stripe was acknowledged (I2): the removal of a sealed blob needs no burnt name.
    const entry = { kind: "sealed", stripes: stripesOf(sealed.lengthBytes), description, sealed } as const;
    const held = await this.#guarded(() => index.change(oid, this.#held, entry));
    this.#end(held === undefined ? "known" : "sealed");
    if (held === undefined) throw fencedBlob(oid);
    failpoint("piece:sealed");
    return sealed;
  }

  async abandon(): Promise<void> {
    await this.stop();
  }

  /** Sends no more parts; resolves when those sent are answered. */
  async stop(): Promise<void> {
    if (this.#isEnded) return;
    this.#state = { kind: "stopped" };
    await Promise.allSettled(this.#sending);
    this.#end(this.#isKnown ? "known" : "unknown");
  }

  #end(end: WriterEnd): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#state.kind !== "stopped") this.#state = { kind: "ended" };
    this.#options.onEnded(end);
  }

  #gather(bytes: Uint8Array): void {
    if (this.#gathered === undefined || this.#gathered.length < this.#gatheredBytes + bytes.length) {
      const larger = new Uint8Array(Math.min(PART_BYTES, Math.max(this.#gatheredBytes + bytes.length, this.#gatheredBytes * 4)));
      if (this.#gathered !== undefined) larger.set(this.#gathered.subarray(0, this.#gatheredBytes));
      this.#gathered = larger;
    }
    this.#gathered.set(bytes, this.#gatheredBytes);
    this.#gatheredBytes += bytes.length;
  }

  async #flush(): Promise<void> {
    const bytes = this.#gathered!.subarray(0, this.#gatheredBytes);
    this.#gatheredBytes = 0;
    await this.#send(bytes);
  }

  /** The part's bytes are the caller's again when it resolves. */
  async #send(bytes: Uint8Array): Promise<void> {
    const part = this.#parts;
    this.#parts += 1;
    await this.#reserve(Math.floor((part * PART_BYTES) / STRIPE_BYTES));
    this.#assertWriting();
    const { oid, stripes } = this.#options;
    const sending = this.#guarded(async () => {
      if ((await stripes.writePart(oid, part, bytes)) !== "done") throw fencedBlob(oid);
    });
    sending.catch(() => undefined);
    this.#sending.push(sending);
    if (this.#sending.length >= PARTS_IN_FLIGHT) await this.#sending.shift();
  }

  async #sent(): Promise<void> {
    await Promise.all(this.#sending);
    this.#assertWriting();
  }

  /** The stripe's name is in the blob's entry before its object is made (I2). */
  async #reserve(stripe: number): Promise<void> {
    const { entry } = this.#held;
    assert(entry.kind === "begun", "a blob that is written has begun");
    if (stripe < entry.stripes) return;
    const { oid, index } = this.#options;
    const more = { ...entry, stripes: Math.min(STRIPES_MAX, entry.stripes * STRIPES_RESERVED_FACTOR) };
    const held = await this.#guarded(() => index.change(oid, this.#held, more));
    if (held === undefined) throw this.#failed(fencedBlob(oid));
    this.#held = held;
  }

  async #guarded<Result>(action: () => Promise<Result>): Promise<Result> {
    try {
      return await action();
    } catch (thrown) {
      throw this.#failed(toConcordError(thrown));
    }
  }

  #failed(cause: ConcordError): ConcordError {
    if (cause.applied !== "no") this.#isKnown = false;
    if (this.#state.kind === "writing") this.#state = { kind: "failed", cause };
    return cause;
  }

  #assertWriting(): void {
    const { oid } = this.#options;
    switch (this.#state.kind) {
      case "writing":
        return;
      case "failed":
        throw this.#state.cause;
      case "stopped":
        throw fencedBlob(oid);
      case "ended":
        return assert(false, "an ended blob is neither written nor sealed");
      default:
        return unreachable(this.#state);
    }
  }
}
