import { corrupt } from "@concord/codec";
import { type ObjectData, type Oid, type PieceDescription, type PieceState, type PieceWriter } from "@concord/ports";
import { ConcordError, type Checksum, type Disk, type DiskFile } from "@concord/runtime";
import { EpochFolders } from "./epoch-folders.ts";
import { inspectPiece, readPiece } from "./piece-reader.ts";
import { FilePieceWriter } from "./piece-writer.ts";

export interface FilesystemOptions {
  /** Pieces lie in its folder "pieces". Several gateways may share it. */
  readonly disk: Disk;
  readonly checksum: Checksum;
  readonly killPoint: (name: string) => void;
}

/** Pieces as files, one each. */
export class FilesystemObjectData implements ObjectData {
  readonly #options: FilesystemOptions;
  readonly #folders: EpochFolders;

  constructor(options: FilesystemOptions) {
    this.#options = options;
    this.#folders = new EpochFolders(options.disk);
  }

  async create(oid: Oid, description: PieceDescription): Promise<PieceWriter> {
    const path = await this.#folders.ready(oid);
    const file = await this.#options.disk.create(path).catch((thrown: unknown) => this.#folders.explain(oid, thrown));
    if (file === "exists") throw new ConcordError("PIECE_EXISTS", `data piece ${oid} exists already`);
    this.#options.killPoint("piece:created");
    const { checksum, killPoint } = this.#options;
    return new FilePieceWriter({ oid, description, file, checksum, killPoint, settle: () => this.#folders.settle(oid) });
  }

  async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    const file = await this.#open(oid);
    if (file === undefined) throw corrupt(`piece ${oid} is absent`);
    try {
      yield* readPiece(file, oid, { offset, lengthBytes }, this.#options.checksum);
    } finally {
      await file.close();
    }
  }

  async inspect(oid: Oid): Promise<PieceState> {
    const file = await this.#open(oid);
    if (file === undefined) return { kind: "absent" };
    try {
      return await inspectPiece(file, oid, this.#options.checksum);
    } finally {
      await file.close();
    }
  }

  async remove(oid: Oid): Promise<boolean> {
    let removed = false;
    for (const place of this.#folders.places(oid)) removed ||= await this.#options.disk.remove(place);
    this.#options.killPoint("piece:removed");
    await this.#folders.settleRemoval(oid);
    return removed;
  }

  list(epoch: number, fromSequence: number, limit: number): Promise<readonly Oid[]> {
    return this.#folders.list(epoch, fromSequence, limit);
  }

  async epochs(): Promise<readonly number[]> {
    const epochs: number[] = [];
    for (const epoch of await this.#folders.epochs()) if ((await this.list(epoch, 0, 1)).length > 0) epochs.push(epoch);
    return epochs;
  }

  closeEpoch(epoch: number): Promise<void> {
    return this.#folders.close(epoch);
  }

  async #open(oid: Oid): Promise<DiskFile | undefined> {
    for (const place of this.#folders.places(oid)) {
      const file = await this.#options.disk.open(place);
      if (file !== undefined) return file;
    }
    return undefined;
  }
}
