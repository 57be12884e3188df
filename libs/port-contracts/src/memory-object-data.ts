import { assert, ConcordError, type Checksum } from "@concord/runtime";
import {
  oidOf,
  parseOid,
  type ObjectData,
  type Oid,
  type OidRange,
  type BlobDescription,
  type BlobState,
  type BlobWriter,
  type SealedBlob,
} from "@concord/ports";

export type DataOperation = "create" | "write" | "seal" | "read" | "inspect" | "remove" | "list" | "closeEpoch" | "releaseEpochs";

/** What a crash leaves of a blob that was begun: nothing, a file without a whole description, or all but its seal. */
export type Remains = "nothing" | "bare" | "described";

interface Blob {
  readonly description: BlobDescription;
  described: boolean;
  bytes: Uint8Array;
  sealed: SealedBlob | undefined;
  damaged: boolean;
}

export interface MemoryDataOptions {
  /** When a blob can be found by its description: at once, or not before its seal, as a store that gathers writes does. */
  readonly describedAt?: "create" | "seal";
  readonly chunkBytes?: number;
  /** CRC32C if absent. */
  readonly checksum?: Checksum;
}

const SEQUENCE_MAX = 2 ** 48 - 1;
const SPENT_BYTE = 0xdd;

/** The reference of the ObjectData port. Several gateways may share one; it knows what a crash leaves. */
export class MemoryObjectData implements ObjectData {
  /** Awaited before every operation: a test may hold it, or throw. `name` is the oid, the epoch for `list` and `closeEpoch`. */
  before: (operation: DataOperation, name: Oid | number) => Promise<void> | void = () => undefined;
  readonly #options: MemoryDataOptions;
  readonly #blobs = new Map<Oid, Blob>();
  readonly #closed = new Set<number>();
  #closedBelow = 0;
  /** After a crash: nothing of this instance's callers reaches the blobs any more. */
  #open = true;

  constructor(options: MemoryDataOptions = {}) {
    this.#options = options;
  }

  /** The store as a power cut now would leave it: sealed blobs, closed epochs, and `remains` of the others. */
  crash(remains: (oid: Oid) => Remains = () => "described"): MemoryObjectData {
    this.#open = false;
    const next = new MemoryObjectData(this.#options);
    for (const epoch of this.#closed) next.#closed.add(epoch);
    next.#closedBelow = this.#closedBelow;
    for (const [oid, blob] of this.#blobs) {
      const left = blob.sealed !== undefined ? "described" : remains(oid);
      if (left !== "nothing") next.#blobs.set(oid, { ...blob, described: left === "described" });
    }
    return next;
  }

  /** All blobs in order: what tests compare with the references. */
  contents(): readonly { readonly oid: Oid; readonly state: BlobState; readonly bytes: Uint8Array }[] {
    return [...this.#blobs.keys()].sort().map((oid) => ({ oid, state: this.#stateOf(oid), bytes: this.#blobs.get(oid)!.bytes.slice() }));
  }

  /** Flips one bit of a sealed blob's bytes. */
  damage(oid: Oid, at = 0): void {
    const blob = this.#blobs.get(oid);
    assert(blob?.sealed !== undefined && at < blob.bytes.length, "a sealed blob with this byte");
    blob.bytes[at]! ^= 1;
    blob.damaged = true;
  }

  async create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    await this.#begin("create", oid);
    if (this.#isClosed(parseOid(oid).epoch)) throw fenced(oid);
    if (this.#blobs.has(oid)) throw new ConcordError("PIECE_EXISTS", `data blob ${oid} exists already`);
    const blob: Blob = {
      description: { ...description },
      described: this.#options.describedAt !== "seal",
      bytes: new Uint8Array(),
      sealed: undefined,
      damaged: false,
    };
    this.#blobs.set(oid, blob);
    return this.#writerOf(oid, blob);
  }

  async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    await this.#begin("read", oid);
    const blob = this.#blobs.get(oid);
    if (blob?.sealed === undefined) throw new ConcordError("CORRUPT_DATA", `data blob ${oid} is not there or not whole`);
    if (offset + lengthBytes > blob.bytes.length) throw new ConcordError("CORRUPT_DATA", `data blob ${oid} is shorter than asked for`);
    if (blob.damaged) throw new ConcordError("CORRUPT_DATA", `data blob ${oid} fails its checksum`);
    const chunkBytes = this.#options.chunkBytes ?? 65_536;
    for (let at = offset; at < offset + lengthBytes; at += chunkBytes) {
      const chunk = blob.bytes.slice(at, Math.min(at + chunkBytes, offset + lengthBytes));
      try {
        yield chunk;
      } finally {
        // A reader that keeps what is no longer its own gets wrong bytes.
        chunk.fill(SPENT_BYTE);
      }
    }
  }

  async inspect(oid: Oid): Promise<BlobState> {
    await this.#begin("inspect", oid);
    return this.#stateOf(oid);
  }

  async remove(oid: Oid): Promise<boolean> {
    await this.#begin("remove", oid);
    return this.#blobs.delete(oid);
  }

  async list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    await this.#begin("list", epoch);
    const [first, last] = [oidOf(epoch, fromSequence), oidOf(epoch, SEQUENCE_MAX)];
    return [...this.#blobs.keys()]
      .filter((oid) => oid >= first && oid <= last)
      .sort()
      .slice(0, limit);
  }

  epochs(): Promise<readonly number[]> {
    const epochs = new Set([...this.#blobs.keys()].map((oid) => parseOid(oid).epoch));
    if (this.#closedBelow > 1) epochs.add(this.#closedBelow - 1);
    return Promise.resolve([...epochs].sort((left, right) => left - right));
  }

  async closeEpoch(epoch: number): Promise<void> {
    await this.#begin("closeEpoch", epoch);
    this.#closed.add(epoch);
  }

  /** Forgets which closed epochs have no blob: one number says it of all. */
  async releaseEpochs(below: number): Promise<void> {
    await this.#begin("releaseEpochs", below);
    for (const epoch of this.#closed) if (epoch < below) this.#closed.delete(epoch);
    this.#closedBelow = Math.max(this.#closedBelow, below);
  }

  #isClosed(epoch: number): boolean {
    return epoch < this.#closedBelow || this.#closed.has(epoch);
  }

  #writerOf(oid: Oid, blob: Blob): BlobWriter {
    let state: "writing" | "ended" = "writing";
    const checksum = this.#options.checksum ?? crc32c;
    return {
      write: async (bytes) => {
        const own = Uint8Array.from(bytes);
        await this.#begin("write", oid);
        assert(state === "writing", "a blob is written before it is sealed or abandoned");
        blob.bytes = joined(blob.bytes, own);
      },
      seal: async () => {
        await this.#begin("seal", oid);
        assert(state === "writing", "a blob is sealed once");
        state = "ended";
        const closed = this.#isClosed(parseOid(oid).epoch) && !blob.described;
        if (closed || this.#blobs.get(oid) !== blob) throw fenced(oid);
        blob.described = true;
        blob.sealed = { lengthBytes: blob.bytes.length, checksum: checksum(blob.bytes) };
        return blob.sealed;
      },
      abandon: () => {
        state = "ended";
        return Promise.resolve();
      },
    };
  }

  #stateOf(oid: Oid): BlobState {
    const blob = this.#blobs.get(oid);
    if (blob === undefined) return { kind: "absent" };
    if (blob.sealed !== undefined) return { kind: "sealed", description: blob.description, sealed: blob.sealed };
    return { kind: "open", description: blob.described ? blob.description : undefined };
  }

  async #begin(operation: DataOperation, name: Oid | number): Promise<void> {
    await this.before(operation, name);
    if (!this.#open) throw new ConcordError("STORE_FAILED", "the store is gone", { applied: "unknown" });
  }
}

const fenced = (oid: Oid): ConcordError => new ConcordError("EPOCH_FENCED", `the epoch of data blob ${oid} is closed`, { applied: "no" });

function joined(left: Uint8Array, right: Uint8Array): Uint8Array {
  const whole = new Uint8Array(left.length + right.length);
  whole.set(left);
  whole.set(right, left.length);
  return whole;
}

const POLYNOMIAL = 0x82f63b78;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit += 1) remainder = (remainder & 1) === 1 ? (remainder >>> 1) ^ POLYNOMIAL : remainder >>> 1;
  return remainder >>> 0;
});

/** CRC32C as the reference and the suites compute it: slow, and without an import. */
export const crc32c: Checksum = (bytes, previous = 0) => {
  let remainder = ~previous >>> 0;
  for (const byte of bytes) remainder = (remainder >>> 8) ^ TABLE[(remainder ^ byte) & 0xff]!;
  return ~remainder >>> 0;
};
