// A node of a ring as a process of its own, with its store on disk and its log at hand.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeClock } from "@concord/adapter-node-runtime";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import { RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { ReplicaService, RowsService } from "@concord/protos-storage";
import { bearer, callUnary } from "@concord/rpc";
import { encodeRange } from "@concord/rows";
import { sleep, toConcordError, toHex, type Channel } from "@concord/runtime";

export const PEER_TOKEN = "peer-secret";
/** Longest wait for a state, on a machine of any speed. */
export const PATIENCE_MS = 120_000;
const READ_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 10_000;
const MAIN = join(import.meta.dirname, "../main.ts");

export interface RingMember {
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
}

interface LogLine {
  readonly message: string;
  readonly [field: string]: unknown;
}

/** Three members on free ports of this machine. */
export async function threeMembers(): Promise<RingMember[]> {
  return Promise.all([1, 2, 3].map(async (n) => ({ name: `node-${n}`, address: await freeAddress(), datacenter: `dc${n}` })));
}

/** Every row of these owners in the table `notes` at one replica as it is stored, asked as a peer would: no quorum, no repair. */
export async function storedNotes(channel: Channel, owners: readonly string[], version = RING_PROTOCOL): Promise<string> {
  const options = { timeoutMs: READ_TIMEOUT_MS, metadata: { ...bearer(PEER_TOKEN), [RING_PROTOCOL_KEY]: String(version) } };
  const rows: string[] = [];
  for (const owner of owners) {
    const range = encodeRange({ table: "notes", partition: [{ kind: "text", value: owner }], reverse: false, limit: 1000 });
    const request = { fromKey: range.from, toKey: range.to, reverse: false, limit: 1000, after: [] };
    rows.push(...(await callUnary(channel, ReplicaService.methods.ReadRowRange, request, options)).images.map(toHex));
  }
  return `${rows.length}:${rows.join()}`;
}

/** Runs the statement at the first of these nodes that answers; repeats while none does and nothing is applied, as a client does. */
export async function query(channels: readonly Channel[], text: string): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  for (let turn = 0; ; turn += 1) {
    const channel = channels[turn % channels.length]!;
    try {
      await callUnary(channel, RowsService.methods.Query, { statement: { text, binds: [] } }, { timeoutMs: QUERY_TIMEOUT_MS });
      return;
    } catch (thrown) {
      const isLast = turn % channels.length === channels.length - 1;
      const { applied, retryAfterMs = 0 } = toConcordError(thrown);
      if (isLast && (applied !== "no" || performance.now() > until)) throw thrown;
      await sleep(nodeClock, retryAfterMs);
    }
  }
}

export class RingProcess {
  /** Of all its lives, oldest first. */
  readonly log: LogLine[] = [];
  readonly #member: RingMember;
  readonly #ring: readonly RingMember[];
  readonly #folder: string;
  readonly #flags: readonly string[];
  #child: ChildProcess | undefined;

  constructor(member: RingMember, ring: readonly RingMember[], folder: string, flags: readonly string[] = []) {
    this.#member = member;
    this.#ring = ring;
    this.#folder = folder;
    this.#flags = flags;
  }

  /** Resolves when it serves; fails when it ends before. */
  async start(nodeArguments: readonly string[] = []): Promise<void> {
    const { name, address } = this.#member;
    const flags = [...this.#flags, "--node-name", name, "--listen-address", address, "--admin-address", "127.0.0.1:0"];
    flags.push("--data-folder", join(this.#folder, name), "--peer-token", PEER_TOKEN, "--ring", JSON.stringify(this.#ring));
    this.#child = spawn(process.execPath, [...nodeArguments, MAIN, ...flags], { stdio: ["ignore", "pipe", "inherit"] });
    await this.#follow(this.#child);
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#child!.kill(name);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Its store is closed: what was written is below a checkpoint. */
  async stop(): Promise<void> {
    const child = this.#child!;
    child.kill("SIGTERM");
    await once(child, "exit");
  }

  #follow(child: ChildProcess): Promise<void> {
    return new Promise((resolve, reject) => {
      const lines = createInterface({ input: child.stdout! });
      lines.on("line", (line) => {
        const parsed = JSON.parse(line) as LogLine;
        this.log.push(parsed);
        if (parsed.message === "serving") resolve();
      });
      lines.on("close", () => reject(new Error("the process ended before it served")));
    });
  }
}
