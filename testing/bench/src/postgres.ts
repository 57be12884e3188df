// PostgreSQL as Debian ships it, on a private cluster in a temporary folder: the yardstick that runs beside ours.
import { execFile, execFileSync, spawn, type ChildProcess } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Latencies, childCpuSeconds, cpuSeconds, memoryMiB, processTree } from "@concord/constellation";
import type { LoadOptions, LoadResult } from "./load.ts";

const run = promisify(execFile);
const DEBIAN_BIN = "/usr/lib/postgresql";
const CONNECTIONS_MAX = 400;
const START_MS = 20_000;

export interface PostgresResult extends LoadResult {
  readonly serverCpuSeconds: number;
  readonly clientCpuSeconds: number;
  readonly memoryMiB: number;
}

export interface Postgres {
  readonly version: string;
  sql(text: string): Promise<void>;
  /** Runs a pgbench script with prepared statements in a closed loop. */
  pgbench(script: string, options: LoadOptions): Promise<PostgresResult>;
  stop(): Promise<void>;
}

/** Starts a cluster in a temporary folder; installs PostgreSQL with apt-get when it is missing and we may. Undefined: not to be had here. */
export async function startPostgres(onProgress: (line: string) => void): Promise<Postgres | undefined> {
  const bin = findBin() ?? installed(onProgress);
  if (bin === undefined) return undefined;
  // A folder of its own: the system's user for PostgreSQL must be able to reach it.
  const folder = mkdtempSync(join(tmpdir(), "concord-postgres-"));
  const owner = unprivileged();
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid);
  const data = join(folder, "data");
  // initdb's defaults: fsync and synchronous_commit on, shared_buffers 128 MB.
  await run(join(bin, "initdb"), ["-D", data, "-A", "trust", "-U", "bench", "--no-instructions"], owner);
  const settings = ["-c", `max_connections=${CONNECTIONS_MAX}`, "-c", "listen_addresses=", "-c", `unix_socket_directories=${folder}`];
  const server = spawn(join(bin, "postgres"), ["-D", data, ...settings], { ...owner, stdio: "ignore" });
  const postgres = new PrivatePostgres(bin, folder, server, owner);
  await postgres.ready();
  return postgres;
}

class PrivatePostgres implements Postgres {
  readonly version: string;
  readonly #bin: string;
  readonly #folder: string;
  readonly #server: ChildProcess;
  readonly #owner: Owner | undefined;

  constructor(bin: string, folder: string, server: ChildProcess, owner: Owner | undefined) {
    this.#bin = bin;
    this.#folder = folder;
    this.#server = server;
    this.#owner = owner;
    this.version = execFileSync(join(bin, "postgres"), ["--version"], { encoding: "utf8" }).trim();
  }

  async ready(): Promise<void> {
    const giveUpAt = performance.now() + START_MS;
    for (;;) {
      try {
        await this.sql("SELECT 1");
        return;
      } catch (error) {
        if (performance.now() > giveUpAt || this.#server.exitCode !== null) throw error;
        await sleep(100);
      }
    }
  }

  async sql(text: string): Promise<void> {
    await run(
      join(this.#bin, "psql"),
      ["-h", this.#folder, "-U", "bench", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-q", "-c", text],
      this.#owner,
    );
  }

  async pgbench(script: string, options: LoadOptions): Promise<PostgresResult> {
    const name = join(this.#folder, `script-${options.inFlight}.sql`);
    writeFileSync(name, script);
    await this.#pgbench(name, options.inFlight, options.warmUpSeconds, undefined);
    const [server, client] = [this.#cpuSeconds(), childCpuSeconds(process.pid)];
    // pgbench names its logs after its process: one of an earlier run would be counted again.
    const log = "log";
    for (const file of this.#logs(log)) rmSync(join(this.#folder, file));
    const memory = sleep(options.seconds * 500).then(() => memoryMiB(processTree(this.#server.pid!)));
    const output = await this.#pgbench(name, options.inFlight, options.seconds, log);
    const latencies = this.#latencies(log);
    const processed = Number(/^number of transactions actually processed: (\d+)/m.exec(output)?.[1]);
    if (latencies.count !== processed) throw new Error(`pgbench did ${processed} transactions, its logs have ${latencies.count}`);
    return {
      perSecond: latencies.count / options.seconds,
      p50Ms: latencies.percentileMs(0.5),
      p99Ms: latencies.percentileMs(0.99),
      serverCpuSeconds: this.#cpuSeconds() - server,
      clientCpuSeconds: childCpuSeconds(process.pid) - client,
      memoryMiB: await memory,
    };
  }

  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.#server.once("exit", resolve));
    this.#server.kill("SIGINT");
    await exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #pgbench(script: string, clients: number, seconds: number, log: string | undefined): Promise<string> {
    const logging = log === undefined ? [] : ["--log", `--log-prefix=${join(this.#folder, log)}`];
    const load = ["-c", String(clients), "-j", String(Math.min(2, clients)), "-T", String(seconds)];
    const { stdout } = await run(
      join(this.#bin, "pgbench"),
      ["-h", this.#folder, "-U", "bench", "-n", "-M", "prepared", "-f", script, ...load, ...logging, "postgres"],
      {
        ...this.#owner,
        cwd: this.#folder,
      },
    );
    return stdout;
  }

  /** Third column of pgbench's logs: microseconds of each transaction. */
  #latencies(prefix: string): Latencies {
    const latencies = new Latencies();
    for (const file of this.#logs(prefix)) {
      for (const line of readFileSync(join(this.#folder, file), "utf8").split("\n")) {
        const us = line.split(" ")[2];
        if (us !== undefined) latencies.add(Number(us) / 1000);
      }
    }
    return latencies;
  }

  #logs(prefix: string): readonly string[] {
    return readdirSync(this.#folder).filter((name) => name.startsWith(`${prefix}.`));
  }

  /** Backends that have ended are in the server's own account. */
  #cpuSeconds(): number {
    return processTree(this.#server.pid!).reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  }
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** PostgreSQL refuses to run as root: then the system's user of that name runs it. */
function unprivileged(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

function findBin(): string | undefined {
  const versions = existsSync(DEBIAN_BIN) ? readdirSync(DEBIAN_BIN).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [...versions.map((version) => join(DEBIAN_BIN, version, "bin")), ...(process.env["PATH"] ?? "").split(delimiter)];
  return folders.find((folder) => ["initdb", "postgres", "psql", "pgbench"].every((program) => existsSync(join(folder, program))));
}

function installed(onProgress: (line: string) => void): string | undefined {
  if (process.getuid?.() !== 0) return undefined;
  onProgress("installing PostgreSQL with apt-get ...");
  try {
    execFileSync("apt-get", ["install", "-y", "--no-install-recommends", "postgresql", "postgresql-contrib"], { stdio: "ignore" });
  } catch {
    return undefined;
  }
  return findBin();
}
