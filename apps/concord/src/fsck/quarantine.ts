import { appendFile, mkdir, open, rename } from "node:fs/promises";
import { dirname, join, relative } from "node:path";

const PRIVATE = 0o700;
const REPORT = "report.txt";

/** A folder below the data folder that keeps what was replaced, byte for byte, and the reasons. Nothing in it is ever deleted by Concord. */
export class Quarantine {
  readonly folder: string;
  readonly #root: string;

  /** `nowMs` tells it from that of another run. */
  constructor(root: string, nowMs: number) {
    this.#root = root;
    this.folder = join(root, `quarantine-${new Date(nowMs).toISOString().replaceAll(/[:.]/g, "")}`);
  }

  /** Where something of the data folder is kept; its parents are made. */
  async placeOf(path: string): Promise<string> {
    const place = join(this.folder, relative(this.#root, path));
    await mkdir(dirname(place), { recursive: true, mode: PRIVATE });
    return place;
  }

  /** The report says so before anything moves. */
  async move(path: string, reason: string): Promise<void> {
    const place = await this.placeOf(path);
    await this.#note(`${relative(this.#root, path)}: ${reason}`);
    await rename(path, place);
    await sync(dirname(place));
    await sync(dirname(path));
  }

  async #note(line: string): Promise<void> {
    const path = join(this.folder, REPORT);
    await appendFile(path, `${line}\n`, { mode: 0o600, flush: true });
    await sync(this.folder);
  }
}

/** A folder's entries, or a file. */
export async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    // Node ends a process that leaves one to the garbage collector.
    await handle.close();
  }
}
