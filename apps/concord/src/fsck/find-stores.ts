import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";

/** How deep below the given folder data lies: nodes of `npm start`, their parts, partitions of a log. */
const DEPTH_MAX = 8;
/** LevelDB's pointer to its manifest, and the manifest. */
export const LEVEL_FILES = /^(CURRENT|MANIFEST-\d+)$/;
const CLOSED_BELOW = "closed-below";
const BLOBS = "pieces";
const SEGMENT = /\.journal$/;
/** What `concord repair` moved away: kept for its owner, no part of the data. */
export const QUARANTINE = /^quarantine-/;

export interface Found {
  /** Folders of LevelDB. */
  readonly levels: readonly string[];
  /** Folders of journals. */
  readonly journals: readonly string[];
  /** Folders of the file that says which epochs of object data are closed. */
  readonly closedBelow: readonly string[];
  /** Folders of object data. */
  readonly blobs: readonly string[];
}

/** What Concord keeps below `folder`, by the files that are there. Rejects when the folder cannot be read. */
export async function findStores(folder: string): Promise<Found> {
  const levels: string[] = [];
  const journals: string[] = [];
  const closedBelow: string[] = [];
  const blobs: string[] = [];
  const walk = async (path: string, depth: number): Promise<void> => {
    const entries = await readdir(path, { withFileTypes: true });
    const isThere = (pattern: RegExp): boolean => entries.some((entry) => entry.isFile() && pattern.test(entry.name));
    if (isThere(LEVEL_FILES)) levels.push(path);
    if (isThere(SEGMENT)) journals.push(path);
    if (basename(path) === CLOSED_BELOW) closedBelow.push(path);
    if (basename(path) === BLOBS) blobs.push(path);
    if (depth === DEPTH_MAX) return;
    for (const entry of entries) if (entry.isDirectory() && !QUARANTINE.test(entry.name)) await walk(join(path, entry.name), depth + 1);
  };
  await walk(folder, 0);
  return { levels: levels.sort(), journals: journals.sort(), closedBelow: closedBelow.sort(), blobs: blobs.sort() };
}
