import { ConcordError, Rounds, type Disk } from "@concord/runtime";

/** One process's ownership of a partition, and where the partition's journals lie while it lasts. */
export interface Tenure {
  readonly folder: string;
  /** A later owner may follow at any time, while this one still holds the files open. */
  readonly isShared: boolean;
  /** Resolves when the tenure lasted at some time after the call. NOT_OWNER (applied: unknown) for good once another process took over. */
  held(): Promise<void>;
}

/** Of a log that one process has: the lock of the data folder says so. */
export function soleTenure(folder: string): Tenure {
  return { folder, isShared: false, held: () => Promise.resolve() };
}

/** A file in each epoch's folder: it moves along, and a folder that an earlier owner makes again has none. */
const MARK = "epoch";
const EPOCH_NAME = /^epoch-([0-9a-f]{8})$/;
const EPOCH_DIGITS = 8;
const EPOCH_MAX = 0xffff_ffff;
/** Owners that may take over at the same time. */
const TAKE_ATTEMPTS_MAX = 16;

/**
 * Raises the partition's epoch by one: the folder of its journals is renamed from `epoch-<n>` to `epoch-<n + 1>`. One process succeeds, and
 * from then on the tenure of the one before is over: it looks for its own folder before it answers anything (I8).
 */
export async function takeOver(disk: Disk, parent: string): Promise<Tenure> {
  await disk.makeFolder(parent);
  for (let attempt = 0; attempt < TAKE_ATTEMPTS_MAX; attempt += 1) {
    const epoch = await newestEpoch(disk, parent);
    if (epoch === undefined) await makeFirst(disk, parent);
    const next = (epoch ?? 0) + 1;
    if (next > EPOCH_MAX) throw new ConcordError("INTERNAL", `${parent} has no epoch left`);
    if (!(await raise(disk, parent, epoch ?? 0, next))) continue;
    const tenure = new EpochTenure(disk, epochPath(parent, next));
    if (await tenure.lasts()) return tenure;
  }
  throw new ConcordError("STORE_FAILED", `no epoch of ${parent} could be taken in ${TAKE_ATTEMPTS_MAX} attempts`, { applied: "no" });
}

class EpochTenure implements Tenure {
  readonly folder: string;
  readonly isShared = true;
  readonly #disk: Disk;
  readonly #looks: Rounds;
  #isOver = false;

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.folder = folder;
    this.#looks = new Rounds(() => this.#look());
  }

  held(): Promise<void> {
    return this.#isOver ? Promise.reject(notOwner(this.folder)) : this.#looks.join();
  }

  async lasts(): Promise<boolean> {
    await this.#looks.join().catch((thrown: unknown) => {
      if (!this.#isOver) throw thrown;
    });
    return !this.#isOver;
  }

  async #look(): Promise<void> {
    const mark = await this.#disk.open(`${this.folder}/${MARK}`);
    if (mark === undefined) this.#isOver = true;
    await mark?.close();
    if (this.#isOver) throw notOwner(this.folder);
  }
}

async function newestEpoch(disk: Disk, parent: string): Promise<number | undefined> {
  const epochs = (await disk.list(parent)).flatMap(({ name, kind }) => {
    const digits = kind === "folder" ? EPOCH_NAME.exec(name)?.[1] : undefined;
    return digits === undefined ? [] : [Number.parseInt(digits, 16)];
  });
  return epochs.length === 0 ? undefined : Math.max(...epochs);
}

/** The epoch of no owner. Its mark is durable before any rename: every later one has it too. */
async function makeFirst(disk: Disk, parent: string): Promise<void> {
  const path = epochPath(parent, 0);
  try {
    await disk.makeFolder(path);
    const mark = await disk.create(`${path}/${MARK}`);
    if (mark !== "exists") await mark.close();
    await disk.syncFolder(path);
  } catch (thrown) {
    // Another owner made it and has raised it meanwhile.
    if ((await newestEpoch(disk, parent)) === 0) throw thrown;
  }
}

/** False: another process raised it. The new name is durable before anything is read or written below it. */
async function raise(disk: Disk, parent: string, from: number, to: number): Promise<boolean> {
  try {
    if (!(await disk.rename(epochPath(parent, from), epochPath(parent, to)))) return false;
  } catch (thrown) {
    // The next epoch is in the way: another process's.
    if ((await newestEpoch(disk, parent)) === from) throw thrown;
    return false;
  }
  await disk.syncFolder(parent);
  return true;
}

const epochPath = (parent: string, epoch: number): string => `${parent}/epoch-${epoch.toString(16).padStart(EPOCH_DIGITS, "0")}`;

const notOwner = (folder: string): ConcordError =>
  new ConcordError("NOT_OWNER", `another worker took over from ${folder}`, { applied: "unknown" });
