// etcd, built from the Go module proxy, as three nodes on loopback: the yardstick of failover that runs beside ours.
import { execFile, execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Latencies, reservePorts } from "@concord/constellation";

const run = promisify(execFile);
const VERSION = "v3.6.7";
const CACHE = resolve(import.meta.dirname, `../../../node_modules/.cache/concord-etcd-${VERSION}`);
const BUILD_MS = 1_200_000;
const NODES = 3;
const START_MS = 30_000;
const WRITERS = 6;
/** A put that waits for a leader is sent again by its writer, to another node. */
const PUT_TIMEOUT_MS = 250;
const CALM_MS = 1_500;
const GIVE_UP_MS = 30_000;

/** Beats and patience of a node, milliseconds: etcd's defaults, and the least that suits the beats of ours. */
export const ETCD_TIMES = [
  { heartbeatMs: 100, electionMs: 1_000 },
  { heartbeatMs: 50, electionMs: 250 },
] as const;
export type EtcdTimes = (typeof ETCD_TIMES)[number];

interface Node {
  readonly name: string;
  readonly url: string;
  readonly start: () => ChildProcess;
  process: ChildProcess;
}

/** The program; undefined, with the reason told, where it cannot be built. */
export async function findEtcd(onProgress: (line: string) => void): Promise<string | undefined> {
  const program = join(CACHE, "etcd");
  if (existsSync(program)) return program;
  try {
    mkdirSync(CACHE, { recursive: true });
    onProgress(`building etcd ${VERSION} from the Go module proxy ...`);
    const options = { cwd: CACHE, timeout: BUILD_MS };
    if (!existsSync(join(CACHE, "go.mod"))) await run("go", ["mod", "init", "concord-etcd"], options);
    await run("go", ["get", `go.etcd.io/etcd/server/v3@${VERSION}`], options);
    await run("go", ["build", "-o", "etcd", "go.etcd.io/etcd/server/v3"], options);
    return program;
  } catch (error) {
    onProgress(`etcd is left out: it cannot be built here: ${String(error).split("\n", 1)[0]}`);
    return undefined;
  }
}

/** Milliseconds from SIGKILL of the leader to the first put that began later and is committed. */
export async function etcdFailover(program: string, times: EtcdTimes, kills: number): Promise<Latencies> {
  const folder = mkdtempSync(join(tmpdir(), "concord-etcd-"));
  const reserved = await reservePorts(2 * NODES);
  const nodes = nodesOf(program, times, folder, reserved.ports);
  const firstCommit = new Latencies();
  const puts = new Puts(nodes.map(({ url }) => url));
  try {
    await leaderOf(nodes);
    puts.begin();
    for (let kill = 0; kill < kills; kill += 1) {
      await sleep(CALM_MS);
      const victim = await leaderOf(nodes);
      const exited = new Promise((resolve) => victim.process.once("exit", resolve));
      const killedAt = performance.now();
      victim.process.kill("SIGKILL");
      firstCommit.add((await puts.firstBegunAfter(killedAt)) - killedAt);
      await exited;
      victim.process = victim.start();
    }
    return firstCommit;
  } finally {
    await puts.stop();
    for (const { process } of nodes) process.kill("SIGKILL");
    await reserved.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

function nodesOf(program: string, { heartbeatMs, electionMs }: EtcdTimes, folder: string, ports: readonly number[]): Node[] {
  const places = Array.from({ length: NODES }, (_, at) => ({
    name: `n${at}`,
    url: `http://127.0.0.1:${ports[2 * at]}`,
    peer: `http://127.0.0.1:${ports[2 * at + 1]}`,
  }));
  const cluster = places.map(({ name, peer }) => `${name}=${peer}`).join(",");
  return places.map(({ name, url, peer }) => {
    const urls = [`--listen-client-urls=${url}`, `--advertise-client-urls=${url}`, `--listen-peer-urls=${peer}`];
    const clusterArguments = [`--initial-advertise-peer-urls=${peer}`, `--initial-cluster=${cluster}`, "--logger=zap", "--log-level=error"];
    const patience = [`--heartbeat-interval=${heartbeatMs}`, `--election-timeout=${electionMs}`];
    const given = [`--name=${name}`, `--data-dir=${join(folder, name)}`, ...urls, ...clusterArguments, ...patience];
    const start = (): ChildProcess => spawn(program, given, { stdio: "ignore" });
    return { name, url, start, process: start() };
  });
}

/** The node that all living ones call their leader. */
async function leaderOf(nodes: readonly Node[]): Promise<Node> {
  const giveUpAt = performance.now() + START_MS;
  for (;;) {
    const said = await Promise.all(nodes.map(({ url }) => statusOf(url).catch(() => undefined)));
    const leaders = new Set(said.map((status) => status?.leader));
    const at = said.findIndex((status) => status !== undefined && status.leader === status.header.member_id);
    if (leaders.size === 1 && at >= 0) return nodes[at]!;
    if (performance.now() > giveUpAt) throw new Error("etcd has no leader");
    await sleep(50);
  }
}

interface Status {
  readonly leader: string;
  readonly header: { readonly member_id: string };
}

async function statusOf(url: string): Promise<Status> {
  const response = await fetch(`${url}/v3/maintenance/status`, { method: "POST", body: "{}", signal: AbortSignal.timeout(1_000) });
  return (await response.json()) as Status;
}

interface Waiting {
  readonly afterMs: number;
  readonly resolve: (atMs: number) => void;
}

/** Writers that put all the time, each at one node after the other where it gets no answer. */
class Puts {
  readonly #urls: readonly string[];
  #isStopped = false;
  #waiting: Waiting | undefined;
  #writers: Promise<void>[] = [];

  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  begin(): void {
    this.#writers = Array.from({ length: WRITERS }, (_, at) => this.#write(at));
  }

  /** When the first put was committed that began after `afterMs`. */
  firstBegunAfter(afterMs: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no put of etcd for ${GIVE_UP_MS} ms`)), GIVE_UP_MS);
      this.#waiting = {
        afterMs,
        resolve: (atMs) => {
          clearTimeout(timer);
          resolve(atMs);
        },
      };
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#writers);
  }

  async #write(writer: number): Promise<void> {
    const body = JSON.stringify({ key: btoa(`writer-${writer}`), value: btoa("a value") });
    for (let at = writer; !this.#isStopped;) {
      const beganAt = performance.now();
      const isDone = await put(this.#urls[at % NODES]!, body);
      if (!isDone) at += 1;
      if (!isDone || this.#waiting === undefined || beganAt < this.#waiting.afterMs) continue;
      this.#waiting.resolve(performance.now());
      this.#waiting = undefined;
    }
  }
}

async function put(url: string, body: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v3/kv/put`, { method: "POST", body, signal: AbortSignal.timeout(PUT_TIMEOUT_MS) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    // A refused connection answers at once: no busy loop.
    await sleep(5);
    return false;
  }
}

/** "etcd Version: 3.6.7" */
export function etcdVersion(program: string): string {
  return execFileSync(program, ["--version"], { encoding: "utf8" }).split("\n", 1)[0]!;
}
