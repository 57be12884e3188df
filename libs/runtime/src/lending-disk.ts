import type { Disk, DiskFile } from "./disk.ts";
import { ConcordError } from "./errors.ts";
import type { Log } from "./observe.ts";
import type { SpaceReserve } from "./space-reserve.ts";

/** Maximum tries of one call: another program may take what is given before the call does, and each time that costs a loan. */
const LOANS_MAX = 16;
/** So many of them have the space that the call needs; each further one has more beyond that, since file systems take some for themselves. */
const EXACT_LOANS = 8;
const SPARE_BYTES = 8 * 1024;
/** Maximum bytes of an unsynced write that gets a loan: larger ones are data of uploads, or files that are prepared, and would use up the reserve. */
const UNSYNCED_BYTES_MAX = 256 * 1024;
/** Space for a name in a folder. */
const NAME_BYTES = 4096;

export interface LendingDiskOptions {
  /** A disk on the file system of the reserve. */
  readonly disk: Disk;
  readonly reserve: SpaceReserve;
  readonly log: Log;
}

/** A disk whose calls, when they find no space, are made again with space from the reserve. They reject with STORAGE_FULL once it has none. */
export function lendingDisk({ disk, reserve, log }: LendingDiskOptions): Disk {
  const lender = new Lender(reserve, log);
  const named = <Answer>(act: () => Promise<Answer>): Promise<Answer> => lender.within(NAME_BYTES, act);
  return {
    create: async (path) => {
      const file = await named(() => disk.create(path));
      return file === "exists" ? file : new LendingFile(file, lender);
    },
    open: async (path) => {
      const file = await disk.open(path);
      return file === undefined ? undefined : new LendingFile(file, lender);
    },
    list: (folder) => disk.list(folder),
    makeFolder: (folder) => named(() => disk.makeFolder(folder)),
    syncFolder: (folder) => disk.syncFolder(folder),
    rename: (from, to) => named(() => disk.rename(from, to)),
    remove: (path) => named(() => disk.remove(path)),
    freeBytes: () => disk.freeBytes(),
  };
}

class Lender {
  readonly #reserve: SpaceReserve;
  readonly #log: Log;
  #isNoted = false;

  constructor(reserve: SpaceReserve, log: Log) {
    this.#reserve = reserve;
    this.#log = log;
  }

  /** `act` changes nothing that a second call of it does not change. */
  async within<Answer>(bytes: number, act: () => Promise<Answer>): Promise<Answer> {
    try {
      return await act();
    } catch (thrown) {
      if (!isFull(thrown)) throw thrown;
      return await this.#borrow(bytes, act, thrown);
    }
  }

  async #borrow<Answer>(bytes: number, act: () => Promise<Answer>, refusal: unknown): Promise<Answer> {
    for (let loan = 0; loan < LOANS_MAX; loan += 1) {
      const outcome = await this.#reserve.lend(bytes + SPARE_BYTES * Math.max(0, loan + 1 - EXACT_LOANS), () => attempted(act));
      if (outcome === "nothing") {
        this.#note("the reserve is used up", bytes);
        throw refusal;
      }
      if ("answer" in outcome) {
        this.#isNoted = false;
        return outcome.answer;
      }
      if (!isFull(outcome.thrown)) throw outcome.thrown;
    }
    this.#note("another program takes what the reserve gives", bytes);
    throw refusal;
  }

  /** Once, until a write succeeds with a loan. */
  #note(reason: string, wantedBytes: number): void {
    if (this.#isNoted || !this.#reserve.isWanted) return;
    this.#isNoted = true;
    const text = "the disk is full: writes wait or are refused until there is space; make room, a larger reserveBytes lasts longer";
    this.#log.error(text, { reason, reserveBytes: this.#reserve.heldBytes, wantedBytes });
  }
}

type Outcome<Answer> = { readonly answer: Answer } | { readonly thrown: unknown };

async function attempted<Answer>(act: () => Promise<Answer>): Promise<Outcome<Answer>> {
  try {
    return { answer: await act() };
  } catch (thrown) {
    return { thrown };
  }
}

class LendingFile implements DiskFile {
  readonly #file: DiskFile;
  readonly #lender: Lender;

  constructor(file: DiskFile, lender: Lender) {
    this.#file = file;
    this.#lender = lender;
  }

  get size(): number {
    return this.#file.size;
  }

  write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    const bytes = bytesOf(parts);
    if (bytes > UNSYNCED_BYTES_MAX) return this.#file.write(offset, parts);
    return this.#lender.within(bytes, () => this.#file.write(offset, parts));
  }

  writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.#lender.within(bytesOf(parts), () => this.#file.writeSynced(offset, parts));
  }

  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    return this.#file.read(offset, length, into);
  }

  /** Not made again when it fails: a later sync of the file proves nothing. */
  sync(): Promise<void> {
    return this.#file.sync();
  }

  truncate(size: number): Promise<void> {
    return this.#lender.within(NAME_BYTES, () => this.#file.truncate(size));
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

const bytesOf = (parts: readonly Uint8Array[]): number => parts.reduce((sum, { length }) => sum + length, 0);

function isFull(thrown: unknown): boolean {
  return thrown instanceof ConcordError && thrown.code === "STORAGE_FULL";
}
