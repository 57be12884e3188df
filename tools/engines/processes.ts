// Which process a record means. A process id alone may by now belong to another program; with its start time and the boot it belongs to one
// process only. Linux: it reads /proc.
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 25;
const KIBIBYTES_PER_MIBIBYTE = 1024;
/** Fields of /proc/PID/stat behind the command's name. */
const STATE_FIELD = 0;
const START_FIELD = 19;

export interface ProcessRecord {
  readonly pid: number;
  /** Clock ticks between the machine's boot and the process's start. */
  readonly startTicks: string;
  readonly bootId: string;
}

export interface ProcessState {
  readonly pid: number;
  readonly isPaused: boolean;
  readonly residentMib: number;
}

export interface SpawnOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly folder: string;
  /** Gets what the process prints. */
  readonly outFile: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Starts a program that outlives this one and records it. Rejects when it cannot be run. */
export async function spawnRecorded(recordFile: string, options: SpawnOptions): Promise<ProcessRecord> {
  mkdirSync(options.folder, { recursive: true });
  const out = openSync(options.outFile, "a");
  try {
    const child = spawn(options.command, options.args, {
      cwd: options.folder,
      detached: true,
      stdio: ["ignore", out, out],
      env: { ...process.env, ...options.environment },
    });
    await new Promise<void>((resolve, reject) => child.once("spawn", resolve).once("error", reject));
    child.unref();
    const record = { pid: child.pid!, startTicks: statOf(child.pid!)?.[START_FIELD] ?? "", bootId: bootId() };
    mkdirSync(dirname(recordFile), { recursive: true });
    writeFileSync(recordFile, JSON.stringify(record));
    return record;
  } finally {
    closeSync(out);
  }
}

export function readRecord(recordFile: string): ProcessRecord | undefined {
  const text = readOr(recordFile);
  return text === "" ? undefined : (JSON.parse(text) as ProcessRecord);
}

/** The recorded process, undefined when it has ended: another process with its id is not it. */
export function stateOf(record: ProcessRecord | undefined): ProcessState | undefined {
  if (record === undefined || record.bootId !== bootId()) return undefined;
  const fields = statOf(record.pid);
  if (fields === undefined || fields[START_FIELD] !== record.startTicks) return undefined;
  const state = fields[STATE_FIELD];
  if (state === "Z" || state === "X") return undefined;
  const resident = /VmRSS:\s+(\d+)/.exec(readOr(`/proc/${record.pid}/status`))?.[1] ?? "0";
  return { pid: record.pid, isPaused: state === "T" || state === "t", residentMib: Math.round(Number(resident) / KIBIBYTES_PER_MIBIBYTE) };
}

/** Sends the signal to the recorded process; false when it has ended. */
export function signalRecorded(record: ProcessRecord | undefined, signal: NodeJS.Signals): boolean {
  const state = stateOf(record);
  if (state === undefined) return false;
  process.kill(state.pid, signal);
  return true;
}

/** Ends the recorded process: SIGTERM (a paused one is resumed for it), SIGKILL after `graceMs`. Resolves when it has ended. */
export async function endRecorded(
  recordFile: string,
  signal: "SIGTERM" | "SIGKILL",
  graceMs: number,
): Promise<"ended" | "killed" | "gone"> {
  const record = readRecord(recordFile);
  if (!signalRecorded(record, signal)) return forget(recordFile, "gone");
  signalRecorded(record, "SIGCONT");
  const endMs = performance.now() + graceMs;
  while (stateOf(record) !== undefined && performance.now() < endMs) await sleep(POLL_MS);
  if (!signalRecorded(record, "SIGKILL")) return forget(recordFile, "ended");
  while (stateOf(record) !== undefined) await sleep(POLL_MS);
  return forget(recordFile, "killed");
}

function forget<Outcome>(recordFile: string, outcome: Outcome): Outcome {
  rmSync(recordFile, { force: true });
  return outcome;
}

function statOf(pid: number): readonly string[] | undefined {
  const line = readOr(`/proc/${pid}/stat`);
  // The command's name may hold blanks and brackets.
  return line === "" ? undefined : line.slice(line.lastIndexOf(")") + 2).split(" ");
}

function bootId(): string {
  return readOr("/proc/sys/kernel/random/boot_id").trim();
}

export function readOr(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
