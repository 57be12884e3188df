// docker/ceph.sh as the containers of compose-engines.yaml run it (compose.test.ts compares), each of their volumes a folder: `npm run test:engines ceph`.
import assert from "node:assert/strict";
import { execFile, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { nodeClock } from "@concord/adapter-node-runtime";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import { connectPool } from "@concord/adapter-rados";

/** The 10 GiB of a container would only take longer to make. */
const OSD_BYTES = 1024 * 1024 * 1024;
/** Until the cluster knows that an OSD is gone: 20 s and more on a busy machine. */
const OPERATION_TIMEOUT_S = 120;
/** Generous: a cluster on a busy machine. */
const HEALTHY_WITHIN_MS = 300_000;
const SCRIPT = join(import.meta.dirname, "../../../../docker/ceph.sh");
const ROLES = new Map([
  ["ceph-mon", ["mon"]],
  ["ceph-mgr", ["mgr"]],
  ["ceph-osd-0", ["osd", "0"]],
  ["ceph-osd-1", ["osd", "1"]],
  ["ceph-osd-2", ["osd", "2"]],
  ["ceph-pool", ["pool"]],
]);
/** The engine itself has no manager. */
const MISSING = spawnSync("ceph-mgr", ["--version"]).status === 0 ? false : "install ceph-mgr";
const OPTIONS = { skip: process.env["CI"] === undefined && MISSING };
const OSDS = ["ceph-osd-0", "ceph-osd-1", "ceph-osd-2"];

const root = mkdtempSync(join(tmpdir(), "concord-compose-ceph-"));
// Daemons are of the user ceph when this one is root.
chmodSync(root, 0o711);
const running = new Map<string, ChildProcess>();
let address: string;

const volumeFolder = (name: string): string => join(root, name);

function environmentOf(name: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    CEPH_MONITOR_ADDRESS: address,
    CEPH_ADMIN_FOLDER: volumeFolder("ceph-admin"),
    CEPH_CLIENT_FOLDER: volumeFolder("ceph-client"),
    CEPH_CLIENT_MOUNT: volumeFolder("ceph-client"),
    CEPH_CLIENT_OWNER: `${process.getuid!()}:${process.getgid!()}`,
    CEPH_DATA_FOLDER: volumeFolder(name),
    CEPH_OSD_BYTES: String(OSD_BYTES),
  };
}

function start(name: string): void {
  const log = openSync(join(root, `${name}.log`), "a");
  running.set(
    name,
    spawn("/bin/bash", [SCRIPT, ...ROLES.get(name)!], { env: environmentOf(name), stdio: ["ignore", log, log], detached: true }),
  );
  closeSync(log);
}

async function kill(name: string): Promise<void> {
  const child = running.get(name)!;
  running.delete(name);
  const exited = once(child, "exit");
  if (child.exitCode !== null || child.signalCode !== null) return;
  // With what the script runs before it becomes the daemon.
  process.kill(-child.pid!, "SIGKILL");
  await exited;
}

const execute = promisify(execFile);

/** The same question as the container's health check asks. */
const isHealthy = (name: string): Promise<boolean> =>
  succeeds("/bin/bash", [SCRIPT, "health", ROLES.get(name)!.join(".")], environmentOf(name));

async function untilHealthy(name: string): Promise<void> {
  const endsAtMs = performance.now() + HEALTHY_WITHIN_MS;
  while (!(await isHealthy(name))) {
    assert.equal(running.get(name)!.exitCode, null, `${name} ended`);
    assert.ok(performance.now() < endsAtMs, `${name} is not healthy within ${HEALTHY_WITHIN_MS / 1000} s`);
  }
}

function succeeds(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<boolean> {
  return execute(program, args, { env }).then(
    () => true,
    () => false,
  );
}

const gatewayConf = (): string => join(volumeFolder("ceph-client"), "ceph.conf");
const poolAsGateway = () =>
  connectPool({
    conf: gatewayConf(),
    user: "concord",
    pool: "concord",
    namespace: "objects",
    clock: nodeClock,
    operationTimeoutS: OPERATION_TIMEOUT_S,
  });

async function makePool(): Promise<void> {
  await execute("/bin/bash", [SCRIPT, ...ROLES.get("ceph-pool")!], { env: environmentOf("ceph-pool") });
}

before(async () => {
  address = await freeAddress();
  for (const volume of ["ceph-admin", "ceph-client", ...ROLES.keys()]) {
    mkdirSync(volumeFolder(volume));
    chmodSync(volumeFolder(volume), 0o755);
  }
});

after(async () => {
  await Promise.all([...running.keys()].map(kill));
  rmSync(root, { recursive: true, force: true });
});

test("compose, Ceph: from empty volumes: every container becomes healthy, the pool is made, and once more", OPTIONS, async () => {
  start("ceph-mon");
  await untilHealthy("ceph-mon");
  // Cut off where the OSD is known to the monitor and has no data yet: the next start makes them.
  const programs = join(root, "programs");
  mkdirSync(programs);
  writeFileSync(join(programs, "ceph-osd"), "#!/bin/sh\nexit 7\n", { mode: 0o755 });
  const env = { ...environmentOf("ceph-osd-2"), PATH: `${programs}:${process.env["PATH"]}` };
  await assert.rejects(execute("/bin/bash", [SCRIPT, ...ROLES.get("ceph-osd-2")!], { env }), { code: 7 });
  assert.ok(!existsSync(join(volumeFolder("ceph-osd-2"), "made")));
  for (const name of ["ceph-mgr", ...OSDS]) start(name);
  for (const name of OSDS) await untilHealthy(name);
  await makePool();
  await makePool();
});

test("compose, Ceph: the gateways' user reads and writes the pool of three copies, and may do nothing else", OPTIONS, async () => {
  const pool = await poolAsGateway();
  try {
    const bytes = Buffer.from("of before");
    assert.equal(await pool.write("blob", [{ kind: "write", at: 0, bytes }]), "done");
    assert.deepEqual(Buffer.from((await pool.read("blob", 0, 100))!.bytes), bytes);
  } finally {
    await pool.close();
  }
  const asGateway = ["-c", gatewayConf(), "-n", "client.concord", "--connect-timeout", "30"];
  await assert.rejects(execute("ceph", [...asGateway, "auth", "ls"]), /EACCES|access denied/);
  const { stdout } = await execute("ceph", [...asGateway, "osd", "pool", "get", "concord", "all", "--format", "json"]);
  assert.match(stdout, /"size":3/);
  assert.match(stdout, /"min_size":2/);
});

test("compose, Ceph: an OSD is killed: writes go on; monitor and OSD come again with what they had", OPTIONS, async () => {
  await kill("ceph-osd-1");
  const pool = await poolAsGateway();
  try {
    assert.equal(await pool.write("later", [{ kind: "write", at: 0, bytes: Buffer.from("two copies") }]), "done");
    while (await isHealthy("ceph-osd-1"));
    await kill("ceph-mon");
    for (const name of ["ceph-mon", "ceph-osd-1"]) {
      start(name);
      await untilHealthy(name);
    }
    const read = async (object: string): Promise<string> => Buffer.from((await pool.read(object, 0, 100))!.bytes).toString();
    assert.deepEqual([await read("blob"), await read("later")], ["of before", "two copies"]);
  } finally {
    await pool.close();
  }
});
