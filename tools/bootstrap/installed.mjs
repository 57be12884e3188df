import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const readLock = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")).packages : {});

/**
 * Does node_modules of `root` hold what the lock file says, without what only tests and tools need when `forRunning`? npm leaves the list of
 * what it installed beside it, also when a user ran npm.
 */
export function isInstalled(root, forRunning = false) {
  const wanted = readLock(join(root, "package-lock.json"));
  const present = readLock(join(root, "node_modules", ".package-lock.json"));
  return Object.entries(wanted).every(([path, entry]) => {
    const found = present[path];
    const isSpare = entry.optional === true || entry.devOptional === true || (forRunning && entry.dev === true);
    if (found === undefined) return path === "" || isWorkspaceFolder(path) || isSpare;
    return found.version === entry.version && found.integrity === entry.integrity && found.resolved === entry.resolved;
  });
}

/** The lock file lists a workspace project twice: as its folder and as the link in node_modules. The link is what counts. */
const isWorkspaceFolder = (path) => !path.startsWith("node_modules/");
