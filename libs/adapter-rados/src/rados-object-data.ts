import { corrupt } from "@concord/codec";
import type { ObjectData, Oid, OidRange, BlobDescription, BlobState, BlobWriter } from "@concord/ports";
import { ConcordError, toConcordError, type Checksum } from "@concord/runtime";
import { RadosBlobWriter, type WriterEnd } from "./blob-writer.ts";
import type { Entry } from "./entry.ts";
import { atOnce, EpochIndex, type HeldEntry } from "./epoch-index.ts";
import { ABANDONED_MAX, ATTEMPTS_MAX, PART_BYTES, STRIPES_RESERVED_FIRST } from "./limits.ts";
import type { RadosPool } from "./pool.ts";
import { Stripes } from "./stripes.ts";

export interface RadosObjectDataOptions {
  readonly pool: RadosPool;
  readonly checksum: Checksum;
  readonly failpoint: (name: string) => void;
}

/** Blobs in a RADOS pool that any number of gateways share: an index entry each, and their bytes in stripes. */
export class RadosObjectData implements ObjectData {
  readonly #options: RadosObjectDataOptions;
  readonly #index: EpochIndex;
  readonly #stripes: Stripes;
  readonly #writers = new Map<Oid, RadosBlobWriter>();
  /** Unsealed, and nothing of them is on its way: their names need no burning. Oldest first. */
  readonly #abandoned = new Set<Oid>();
  /** Something of them may still come to be. */
  readonly #unknown = new Set<Oid>();

  constructor(options: RadosObjectDataOptions) {
    const { pool, checksum } = options;
    this.#options = options;
    this.#index = new EpochIndex(pool, checksum);
    this.#stripes = new Stripes(pool, checksum);
  }

  async create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    const begun = await this.#begin(oid, { kind: "begun", stripes: STRIPES_RESERVED_FIRST, description: { ...description } });
    this.#options.failpoint("piece:created");
    const { checksum, failpoint } = this.#options;
    const onEnded = (end: WriterEnd): void => this.#ended(oid, end);
    const [index, stripes] = [this.#index, this.#stripes];
    const writer = new RadosBlobWriter({ oid, description: { ...description }, begun, index, stripes, checksum, failpoint, onEnded });
    this.#writers.set(oid, writer);
    return writer;
  }

  async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    const entry = (await this.#index.get(oid))?.entry;
    if (entry?.kind !== "sealed") throw corrupt(`blob ${oid} is absent or not sealed`);
    const blobBytes = entry.sealed.lengthBytes;
    const end = offset + lengthBytes;
    if (end > blobBytes) throw corrupt(`blob ${oid} has ${blobBytes} bytes, ${end} were expected`);
    const read = (at: number): Promise<Uint8Array> => {
      const part = Math.floor(at / PART_BYTES);
      const start = part * PART_BYTES;
      const to = Math.min(end - start, PART_BYTES);
      return this.#stripes.readPart(oid, part, Math.min(blobBytes - start, PART_BYTES), at - start, to);
    };
    let next = offset < end ? read(offset) : undefined;
    try {
      for (let at = offset; next !== undefined;) {
        const bytes = await next;
        at += bytes.length;
        // Read ahead: the cluster works while the reader sends.
        next = at < end ? read(at) : undefined;
        next?.catch(() => undefined);
        yield bytes;
      }
    } finally {
      await next?.catch(() => undefined);
    }
  }

  async inspect(oid: Oid): Promise<BlobState> {
    const entry = (await this.#index.get(oid))?.entry;
    if (entry === undefined || entry.kind === "burnt") return { kind: "absent" };
    if (entry.kind === "sealed") return { kind: "sealed", description: entry.description, sealed: entry.sealed };
    return { kind: "open", description: entry.description };
  }

  /** The table of the README: what is removed how. */
  async remove(oid: Oid): Promise<boolean> {
    await this.#writers.get(oid)?.stop();
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
      const held = await this.#index.get(oid);
      if (held === undefined && this.#unknown.has(oid) && !(await this.#index.burnAbsent(oid))) continue;
      if (held === undefined || held.entry.kind === "burnt") return this.#removed(oid, false);
      const going = await this.#beginRemoval(oid, held);
      if (going !== undefined) return this.#removed(oid, await this.#finishRemoval(oid, going));
    }
    throw new ConcordError("STORE_FAILED", `blob ${oid} changes all the time`, { applied: "no" });
  }

  list(range: OidRange): Promise<readonly Oid[]> {
    return this.#index.list(range);
  }

  epochs(): Promise<readonly number[]> {
    return this.#index.epochs();
  }

  closeEpoch(epoch: number): Promise<void> {
    return this.#index.close(epoch);
  }

  /** Nothing goes: the object of a closed epoch is its fence, and no start lists it; `epochs` has those with blobs of theirs. */
  async releaseEpochs(): Promise<void> {}

  /** The caller has ended every operation it began. */
  close(): Promise<void> {
    return this.#options.pool.close();
  }

  async #begin(oid: Oid, entry: Entry): Promise<HeldEntry> {
    try {
      return await this.#index.begin(oid, entry);
    } catch (thrown) {
      if (toConcordError(thrown).applied !== "no") this.#unknown.add(oid);
      throw thrown;
    }
  }

  /** From here on its writer can neither seal nor name further stripes (I3). Undefined: the entry changed meanwhile. */
  async #beginRemoval(oid: Oid, held: HeldEntry): Promise<HeldEntry | undefined> {
    const { entry } = held;
    if (entry.kind === "removing" || entry.kind === "burning") return held;
    if (entry.kind === "burnt") return undefined;
    const kind = entry.kind === "sealed" || this.#abandoned.has(oid) ? "removing" : "burning";
    return this.#index.changeAnywhere(oid, held, { kind, stripes: entry.stripes, description: entry.description });
  }

  /** False: another process finished it. Also of stripes that are not there: a writer may have left gaps. */
  async #finishRemoval(oid: Oid, going: HeldEntry): Promise<boolean> {
    const { kind, stripes } = going.entry;
    const all = Array.from({ length: stripes }, (_, stripe) => stripe);
    await atOnce(all, (stripe) => (kind === "burning" ? this.#stripes.burn(oid, stripe) : this.#stripes.remove(oid, stripe)));
    this.#options.failpoint("piece:removed");
    if (kind === "removing") return this.#index.delete(oid, going);
    return (await this.#index.changeAnywhere(oid, going, { kind: "burnt", stripes })) !== undefined;
  }

  #removed(oid: Oid, removed: boolean): boolean {
    this.#abandoned.delete(oid);
    this.#unknown.delete(oid);
    return removed;
  }

  #ended(oid: Oid, end: WriterEnd): void {
    this.#writers.delete(oid);
    if (end === "unknown") this.#unknown.add(oid);
    if (end !== "known") return;
    const [oldest] = this.#abandoned;
    if (oldest !== undefined && this.#abandoned.size >= ABANDONED_MAX) this.#abandoned.delete(oldest);
    this.#abandoned.add(oid);
  }
}
