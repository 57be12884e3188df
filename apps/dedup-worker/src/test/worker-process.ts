// The real program as a process: started and killed, sent messages, its output read.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeClock } from "@concord/adapter-node-runtime";
import { IngestService, OutputService, type IngestResult } from "@concord/protos-dedup";
import { callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";

export const PARTITIONS = 2;
export const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const { Ingest } = IngestService.methods;
const { Read } = OutputService.methods;

export interface Started {
  readonly child: ChildProcess;
  readonly address: string;
  /** Address of its pages; empty: it was started without them. */
  readonly adminAddress: string;
}

export interface StartOptions {
  /** Within the fixture's own folder. */
  readonly folder?: string;
  readonly args?: readonly string[];
  /** The process kills itself there. */
  readonly failpoint?: string | undefined;
}

/** Processes of the dedup-worker in a temporary folder; disposing kills those that run and removes it. */
export class WorkerProcesses implements AsyncDisposable {
  readonly #root: string;
  readonly #children: ChildProcess[] = [];

  private constructor(root: string) {
    this.#root = root;
  }

  static async create(): Promise<WorkerProcesses> {
    return new WorkerProcesses(await mkdtemp(join(tmpdir(), "concord-dedup-worker-")));
  }

  run({ folder = "data", args = [], failpoint }: StartOptions = {}): ChildProcess {
    const program = join(import.meta.dirname, "../main.ts");
    const all = [program, "--data-folder", join(this.#root, folder), "--partitions", String(PARTITIONS), ...args];
    const env = { ...process.env, ...(failpoint === undefined ? {} : { CONCORD_KILL_POINT: failpoint }) };
    const child = spawn(process.execPath, all, { stdio: ["ignore", "pipe", "pipe"], env });
    this.#children.push(child);
    return child;
  }

  /** Resolves with the process once it serves. */
  async start(options: StartOptions = {}): Promise<Started> {
    const child = this.run(options);
    let errors = "";
    child.stderr!.on("data", (bytes: Buffer) => (errors += bytes.toString()));
    const lines: string[] = [];
    let adminAddress = "";
    for await (const line of createInterface({ input: child.stdout! })) {
      lines.push(line);
      const entry = JSON.parse(line) as { message: string; address: string };
      if (entry.message === "admin") adminAddress = entry.address;
      if (entry.message === "serving") return { child, address: entry.address, adminAddress };
    }
    throw new Error(`the process ended before it served:\n${lines.join("\n")}\n${errors}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await rm(this.#root, { recursive: true });
  }
}

export async function ingest(address: string, ids: readonly string[]): Promise<readonly IngestResult[]> {
  const channel = transport.connect(address);
  try {
    const messages = ids.map((id) => ({ id, value: Buffer.from(id) }));
    return (await callUnary(channel, Ingest, { messages }, { timeoutMs: 30_000 })).results;
  } finally {
    channel.close();
  }
}

/** Ids in the output, sorted. */
export async function outputOf(address: string): Promise<string[]> {
  const ids: string[] = [];
  for (let partition = 0; partition < PARTITIONS; partition += 1) ids.push(...(await idsIn(address, partition)));
  return ids.sort();
}

/** Ids in one partition of the output; rejects with NOT_OWNER at a worker that does not have it. */
export async function idsIn(address: string, partition: number): Promise<string[]> {
  const channel = transport.connect(address);
  const ids: string[] = [];
  try {
    for (let fromOffset = 0n; ;) {
      const page = await callUnary(channel, Read, { partition, fromOffset }, { timeoutMs: 10_000 });
      ids.push(...page.messages.map(({ id }) => id));
      if (page.messages.length === 0) return ids;
      fromOffset = page.nextOffset;
    }
  } finally {
    channel.close();
  }
}

export function idsOf(count: number, name: string): string[] {
  return Array.from({ length: count }, (_, at) => `${name}-${String(at).padStart(4, "0")}`);
}

export function statusesOf(results: readonly IngestResult[]): Set<string> {
  return new Set(results.map((result) => result.verdict));
}
