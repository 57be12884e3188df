// What a constellation keeps on disk beside the nodes' own data: secrets, who uses the folder, which processes belong to it.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const PRIVATE_MODE = 0o600;
const PRIVATE_FOLDER_MODE = 0o700;
const LOCK_TRIES = 3;
/** Access keys in the form that S3 clients know. */
export const CREDENTIALS_FILE = "s3-credentials";

export interface AccessKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly tenant: string;
}

export interface Tokens {
  readonly coordinator: string;
  readonly peer: string;
  readonly operator: string;
  /** Of the S3 endpoint: tenants main and alt. */
  readonly accessKeys: readonly AccessKey[];
}

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
    tokens: tokensIn(path),
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

/** Made once; a folder of an earlier version gets those that it lacks. */
function tokensIn(path: string): Tokens {
  const file = join(path, "tokens.json");
  const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Partial<Tokens>) : {};
  const tokens: Tokens = {
    coordinator: kept.coordinator ?? newToken(),
    peer: kept.peer ?? newToken(),
    operator: kept.operator ?? newToken(),
    accessKeys: kept.accessKeys ?? ["main", "alt"].map(newAccessKey),
  };
  writeFileSync(file, JSON.stringify(tokens), { mode: PRIVATE_MODE });
  writeFileSync(join(path, CREDENTIALS_FILE), credentialsText(tokens.accessKeys), { mode: PRIVATE_MODE });
  return tokens;
}

function newToken(): string {
  return randomBytes(24).toString("base64url");
}

function newAccessKey(tenant: string): AccessKey {
  const accessKeyId = `CONCORD${randomBytes(8).toString("hex").toUpperCase()}`;
  return { accessKeyId, secretAccessKey: randomBytes(30).toString("base64url"), tenant };
}

/** As every S3 client and SDK reads it: tenant main is the default profile. */
function credentialsText(keys: readonly AccessKey[]): string {
  return keys
    .map(({ accessKeyId, secretAccessKey, tenant }) => {
      const profile = tenant === "main" ? "default" : tenant;
      return `[${profile}]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`;
    })
    .join("\n");
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
