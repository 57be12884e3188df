// Real processes under one attack: started with its limits, measured, and judged when it is over.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Client,
  type Constellation,
  type Exit,
  type NodeProcess,
  ONE_PROCESS,
  type Service,
  startConstellation,
} from "@concord/constellation";
import type { Attack, Environment, Measured, Target } from "./attack.ts";
import { Bystanders, SERVED, type Served } from "./bystanders.ts";

/** A service that acknowledges nothing for so long is lost, on a busy machine too. */
const SERVE_MS = 60_000;
const START_MS = 180_000;
/** What the caches of a process may take while it works, beside what an attack makes it keep. */
export const GROWTH_MIB_MAX = 192;
/**
 * Maximum of resident memory that a process keeps beyond what it had before, once it was quiet for a while: it gives back a growth of 96 MiB and more
 * (`MEMORY_GROWN_BYTES` of libs/adapter-node-runtime), and its caches are filled.
 */
const KEPT_MIB_MAX = 128;
/** Several looks of the process at its memory, and those in which a busy machine gave it too little CPU to be quiet. */
const RETURN_MS = 300_000;
const KIB_PER_MIB = 1024;
const LOOK_MS = 50;
const CLIENT_TOKEN = "token-of-honest-clients-of-this-run";
const SETTINGS = { logLevel: "warn", clientToken: CLIENT_TOKEN };

export interface Result {
  readonly attack: string;
  /** Services that stopped serving others. */
  readonly lost: readonly Served[];
  readonly problems: readonly string[];
  readonly notes: readonly string[];
  readonly before: Measured;
  readonly peak: Measured;
  readonly after: Measured;
  readonly acknowledged: Readonly<Record<Served, number>>;
}

/** Starts what the attack needs, attacks, judges. Rejects when the processes do not start at all. */
export async function runAttack(attack: Attack, client: Client): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), `concord-attack-${attack.name}-`));
  const data = join(folder, "data");
  const disk = attack.diskOf === undefined ? folder : join(data, attack.diskOf);
  if (attack.diskMiB !== undefined) {
    mkdirSync(disk, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${attack.diskMiB}m`, "tmpfs", disk]);
  }
  try {
    return await attackIn(data, attack, client);
  } finally {
    if (attack.diskMiB !== undefined) execFileSync("umount", ["--lazy", disk]);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The attack's settings are for rows; a program of one service refuses those of another. */
function settingsOf({ config }: Attack): Partial<Record<Service, object>> {
  const rows = { ...SETTINGS, ...config };
  return { concord: rows, "storage-proxy": rows, "txn-coordinator": SETTINGS, "object-gateway": SETTINGS, "dedup-worker": SETTINGS };
}

async function attackIn(folder: string, attack: Attack, client: Client): Promise<Result> {
  mkdirSync(folder, { recursive: true });
  const ended: string[] = [];
  const { descriptorsMax } = attack;
  const constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: attack.members ?? ONE_PROCESS,
    config: settingsOf(attack),
    readyTimeoutMs: START_MS,
    launcher: descriptorsMax === undefined ? undefined : ["prlimit", `--nofile=${descriptorsMax}:${descriptorsMax}`],
    onCrash: (node: NodeProcess, { code, signal }: Exit) =>
      ended.push(`${node.plan.name} ended by itself with ${code ?? signal}\n${node.logTail()}`),
  });
  let bystanders: Bystanders | undefined;
  let watch: Watch | undefined;
  try {
    bystanders = await Bystanders.start(constellation, client, CLIENT_TOKEN);
    const target = new RunningTarget(constellation, client, bystanders, folder);
    await target.serves("before the attack");
    const before = target.measure();
    watch = new Watch(() => constellation.process(target.name).pid);
    await attack.run(target).catch((error: unknown) => target.fail(`the attack could not go on: ${String(error)}`));
    bystanders.resume();
    await target.serves("after the attack");
    target.problems.push(...(await bystanders.judge()), ...ended);
    const limitMiB = before.residentMiB + (attack.growthMiBMax ?? GROWTH_MIB_MAX);
    const { peak } = watch;
    if (peak.residentMiB > limitMiB)
      target.fail(`resident memory rose from ${mib(before)} to ${mib(peak)} MiB, limit ${Math.round(limitMiB)}`);
    const after = await target.returned(before);
    const acknowledged = Object.fromEntries(SERVED.map((one) => [one, bystanders!.acknowledged(one)])) as Record<Served, number>;
    const { problems, notes, lost } = target;
    return { attack: attack.name, lost: [...lost], problems, notes, before, peak, after, acknowledged };
  } finally {
    watch?.close();
    await bystanders?.close();
    await constellation.stop();
  }
}

export const mib = ({ residentMiB }: Measured): number => Math.round(residentMiB);

function measureProcess(pid: number): Measured | undefined {
  try {
    const resident = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    if (resident === undefined) return undefined;
    return { residentMiB: Number(resident) / KIB_PER_MIB, descriptors: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return undefined;
  }
}

/** The most of everything over all lives of the process. */
class Watch {
  readonly #timer: NodeJS.Timeout;
  peak: Measured = { residentMiB: 0, descriptors: 0 };

  constructor(pid: () => number | undefined) {
    this.#timer = setInterval(() => {
      const now = pid();
      const { residentMiB, descriptors } = (now === undefined ? undefined : measureProcess(now)) ?? this.peak;
      this.peak = {
        residentMiB: Math.max(residentMiB, this.peak.residentMiB),
        descriptors: Math.max(descriptors, this.peak.descriptors),
      };
    }, LOOK_MS);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

class RunningTarget implements Target {
  readonly constellation: Constellation;
  readonly client: Client;
  readonly bystanders: Bystanders;
  readonly name: string;
  readonly address: string;
  readonly httpAddress: string;
  readonly adminAddress: string;
  readonly folder: string;
  readonly clientToken = CLIENT_TOKEN;
  readonly lost = new Set<Served>();
  readonly problems: string[] = [];
  readonly notes: string[] = [];

  constructor(constellation: Constellation, client: Client, bystanders: Bystanders, folder: string) {
    const { name, address, adminAddress } = constellation.nodes[0]!;
    this.constellation = constellation;
    this.client = client;
    this.bystanders = bystanders;
    this.folder = folder;
    this.name = name;
    this.address = address;
    this.httpAddress = constellation.nodes.flatMap(({ httpAddress }) => (httpAddress === undefined ? [] : [httpAddress]))[0]!;
    this.adminAddress = adminAddress;
  }

  dataFolder(name: string): string {
    return join(this.folder, name, "store");
  }

  pid(): number {
    const { pid } = this.constellation.process(this.name);
    if (pid === undefined) throw new Error(`${this.name} does not run`);
    return pid;
  }

  async serves(when: string, out: readonly Served[] = []): Promise<void> {
    for (const service of await this.bystanders.unserved(SERVE_MS, out)) {
      this.lost.add(service);
      this.fail(`${service} served no other user for ${SERVE_MS / 1000} s, ${when}: ${this.bystanders.lastError(service)}`);
    }
  }

  async stop(name = this.name): Promise<void> {
    this.bystanders.pause();
    const node = this.constellation.process(name);
    await node.stop();
    if (node.exit?.code !== 0) this.fail(`${name} ended with ${node.exit?.code ?? node.exit?.signal} after SIGTERM`);
  }

  async kill(name = this.name): Promise<void> {
    await this.constellation.kill(name);
  }

  async start(environment: Environment = {}, name = this.name): Promise<void> {
    await this.constellation.restart(name, environment).catch((error: unknown) => this.fail(String(error)));
    this.bystanders.resume();
  }

  measure(): Measured {
    const { pid } = this.constellation.process(this.name);
    return (pid === undefined ? undefined : measureProcess(pid)) ?? { residentMiB: 0, descriptors: 0 };
  }

  /** Waits until the quiet process has given back what the attack took. */
  async returned(before: Measured): Promise<Measured> {
    const untilMs = Date.now() + RETURN_MS;
    const limitMiB = before.residentMiB + KEPT_MIB_MAX;
    while (this.measure().residentMiB > limitMiB && Date.now() < untilMs) await sleep(LOOK_MS);
    const after = this.measure();
    if (after.residentMiB > limitMiB) this.fail(`${mib(after)} MiB stay resident, ${mib(before)} before, limit ${Math.round(limitMiB)}`);
    return after;
  }

  note(text: string): void {
    this.notes.push(text);
  }

  fail(text: string): void {
    this.problems.push(text);
  }
}
