import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Cluster } from "./cluster.ts";
import type { Engine } from "./engine.ts";
import { checkFree } from "./ports.ts";
import { fillTemplate } from "./template.ts";

const TEMPLATE = join(import.meta.dirname, "ceph/ceph.conf");
const INSTALL = "apt-get install --no-install-recommends ceph-mon ceph-osd ceph-common";
const POOL = "concord";
const PLACEMENT_GROUPS = "8";
/** Every call of the command line ends by itself: without a monitor it would try for five minutes. */
const CALL_TIMEOUT_MS = 60_000;
const CONNECT_TIMEOUT_S = "30";
const PROBE_TIMEOUT_MS = 2_000;

/** A real monitor and OSD (bluestore: what it acknowledged outlives a SIGKILL) with one pool. */
export const cephEngine: Engine = {
  name: "ceph",
  nodeCounts: [1],
  requirements: () => ["ceph-mon", "ceph-osd", "ceph", "rados", "monmaptool"].map((program) => ({ program, install: INSTALL })),
  version: () => /ceph version (\S+)/.exec(run("ceph-mon", ["--version"]))?.[1] ?? "unknown",
  portCount: () => 1,
  processNames: () => ["mon", "osd"],
  start: startCeph,
  connection: ({ folder }) => `conf ${join(folder, "ceph.conf")}, pool ${POOL}`,
};

async function startCeph(cluster: Cluster, names: readonly string[]): Promise<void> {
  const conf = join(cluster.folder, "ceph.conf");
  const made = join(cluster.folder, "made");
  const isNew = !existsSync(made);
  if (isNew) makeMonitor(cluster, conf);
  if (names.includes("mon")) {
    await checkFree(cluster.layout.ports[0]!, "127.0.0.1");
    await cluster.spawn("mon", { command: "ceph-mon", args: ["-c", conf, "-i", "a", "-f"] });
    await cluster.untilReady("mon", async () => run("ceph", ["-c", conf, "--connect-timeout", "2", "mon", "stat"]) !== "");
  }
  if (isNew) makeOsd(cluster, conf);
  if (!names.includes("osd")) return;
  await cluster.spawn("osd", { command: "ceph-osd", args: ["-c", conf, "-i", "0", "-f"] });
  if (isNew) call(conf, ["osd", "pool", "create", POOL, PLACEMENT_GROUPS]);
  // Usable means that a write is acknowledged; health cannot say it without a manager. The tick is how soon a waiting write is sent again.
  const write = ["-c", conf, "--objecter-tick-interval", "0.1", "-p", POOL, "put", ".probe", conf];
  await cluster.untilReady("osd", async () => run("rados", write, PROBE_TIMEOUT_MS) === "");
  run("rados", ["-c", conf, "-p", POOL, "rm", ".probe"]);
  if (isNew) call(conf, ["osd", "pool", "application", "enable", POOL, "rados"]);
  writeFileSync(made, "");
}

function makeMonitor(cluster: Cluster, conf: string): void {
  const { folder, layout } = cluster;
  const fsid = randomUUID();
  mkdirSync(join(folder, "mon/data"), { recursive: true });
  mkdirSync(join(folder, "osd/data"), { recursive: true });
  mkdirSync(join(folder, "crash"), { recursive: true });
  writeFileSync(conf, fillTemplate(TEMPLATE, { fsid, port: layout.ports[0]!, folder }));
  writeFileSync(join(folder, "keyring"), "", { mode: 0o600 });
  const map = join(folder, "monmap");
  const address = `[v2:127.0.0.1:${layout.ports[0]}/0]`;
  run("monmaptool", ["--create", "--clobber", "--fsid", fsid, "--enable-all-features", "--addv", "a", address, map]);
  run("ceph-mon", ["-c", conf, "-i", "a", "--mkfs", "--monmap", map]);
}

function makeOsd({ folder }: Cluster, conf: string): void {
  const file = join(folder, "osd/uuid");
  if (!existsSync(file)) writeFileSync(file, randomUUID());
  const uuid = readFileSync(file, "utf8");
  call(conf, ["osd", "new", uuid, "0"]);
  run("ceph-osd", ["-c", conf, "-i", "0", "--mkfs", "--osd-uuid", uuid]);
}

function call(conf: string, args: readonly string[]): string {
  return run("ceph", ["-c", conf, "--connect-timeout", CONNECT_TIMEOUT_S, ...args]);
}

/** What the program prints; throws with its complaint when it fails or takes too long. */
function run(program: string, args: readonly string[], timeout = CALL_TIMEOUT_MS): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: "utf8", timeout });
  if (status === 0) return stdout;
  throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? `exit code ${status}`}\n${stdout}${stderr}`);
}
