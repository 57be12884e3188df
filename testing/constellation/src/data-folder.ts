// What a constellation keeps on disk beside the nodes' own data: secrets, who uses the folder, which processes belong to it.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { nodeRandom } from "@concord/adapter-node-runtime";
import { CREDENTIALS_FILE, keptTokens, type AccessKey, type Tokens } from "@concord/concord/kept-tokens";

const PRIVATE_FOLDER_MODE = 0o700;
const LOCK_TRIES = 3;
export { CREDENTIALS_FILE, type AccessKey, type Tokens };

/** A process as the system knows it: its id may be given to another one later, its start time may not. */
interface ProcessMark {
  readonly pid: number;
  readonly startedAt: string;
}

export interface LockedFolder {
  readonly path: string;
  readonly tokens: Tokens;
  /** The folder of one node. */
  nodeFolder(name: string): string;
  /** Remembers which processes to end should this one be killed without a chance to. */
  rememberProcesses(pids: readonly number[]): void;
  release(): void;
}

export class FolderInUseError extends Error {}

/** Takes the folder for this process; FolderInUseError when another living process has it. */
export function lockFolder(folder: string): LockedFolder {
  const path = resolve(folder);
  mkdirSync(path, { recursive: true, mode: PRIVATE_FOLDER_MODE });
  const lock = join(path, "lock");
  takeLock(path, lock);
  endLeftovers(path);
  return {
    path,
    tokens: keptTokens(path, nodeRandom),
    nodeFolder(name) {
      const nodeFolder = join(path, name);
      mkdirSync(nodeFolder, { recursive: true, mode: PRIVATE_FOLDER_MODE });
      return nodeFolder;
    },
    rememberProcesses(pids) {
      writeFileSync(join(path, "processes"), JSON.stringify(pids.map(markOf)));
    },
    release() {
      rmSync(join(path, "processes"), { force: true });
      rmSync(lock, { force: true });
    },
  };
}

function takeLock(path: string, lock: string): void {
  for (let attempt = 0; attempt < LOCK_TRIES; attempt += 1) {
    try {
      writeFileSync(lock, JSON.stringify(markOf(process.pid)), { flag: "wx" });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      const holder = readMarks(lock)[0];
      if (holder !== undefined && isAlive(holder)) {
        throw new FolderInUseError(`${path} is in use by another constellation (process ${holder.pid}); stop it or give another --data`);
      }
      rmSync(lock, { force: true });
    }
  }
  throw new FolderInUseError(`${path} cannot be locked: others keep taking it`);
}

/** Nodes of a start that was killed itself. */
function endLeftovers(path: string): void {
  for (const mark of readMarks(join(path, "processes"))) {
    if (isAlive(mark)) process.kill(mark.pid, "SIGKILL");
  }
}

function readMarks(file: string): ProcessMark[] {
  try {
    const marks = JSON.parse(readFileSync(file, "utf8")) as ProcessMark | ProcessMark[];
    return Array.isArray(marks) ? marks : [marks];
  } catch {
    return [];
  }
}

function markOf(pid: number): ProcessMark {
  return { pid, startedAt: startTimeOf(pid) };
}

function isAlive(mark: ProcessMark): boolean {
  try {
    process.kill(mark.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  return startTimeOf(mark.pid) === mark.startedAt;
}

/** Clock ticks since boot at which the process began, where the system tells (Linux); "" elsewhere. */
function startTimeOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}
