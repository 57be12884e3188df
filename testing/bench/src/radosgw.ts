// radosgw as Debian ships it, over one bluestore OSD and one monitor of its own: the yardstick of S3 that runs beside ours.
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type AccessKey, reservePorts } from "@concord/constellation";

const run = promisify(execFile);
const SCRIPT = resolve(import.meta.dirname, "../start-ceph.sh");
const PACKAGES = ["ceph-mon", "ceph-osd", "ceph-common", "radosgw"];
/** Ceph's sockets lie in the folder, and their paths may have 107 bytes. */
const PARENT = "/tmp";
const POOL = "concord";
/** A sparse file. */
const BLOCK_MB = "16384";

export interface Radosgw {
  readonly version: string;
  readonly endpoint: string;
  readonly key: AccessKey;
  /** Monitor, OSD and gateway. */
  readonly pids: readonly number[];
  /** A gateway of ours with its objects in the same cluster: its configuration. */
  readonly rados: { readonly objects: "rados"; readonly cephConf: string; readonly cephUser: string; readonly cephPool: string };
  stop(): Promise<void>;
}

/** Starts a cluster in a temporary folder; installs Ceph with apt-get when it is missing and we may. Undefined: not to be had here. */
export async function startRadosgw(onProgress: (line: string) => void): Promise<Radosgw | undefined> {
  if (!isThere() && !install(onProgress)) return undefined;
  const folder = mkdtempSync(join(PARENT, "cc-ceph-"));
  const reserved = await reservePorts(2);
  const [monitor, gateway] = reserved.ports;
  const env = { ...process.env, OSD_STORE: "bluestore", RGW: "1", POOL, BLOCK_MB, MON_PORT: String(monitor), RGW_PORT: String(gateway) };
  await run(SCRIPT, ["start", folder], { env });
  const key: AccessKey = { accessKeyId: "BENCH", secretAccessKey: "bench-secret", tenant: "main" };
  const user = ["--uid=bench", "--display-name=bench", `--access-key=${key.accessKeyId}`, `--secret-key=${key.secretAccessKey}`];
  await run("radosgw-admin", ["-c", join(folder, "ceph.conf"), "-n", "client.rgw.a", "user", "create", ...user]);
  return {
    version: execFileSync("radosgw", ["--version"], { encoding: "utf8" }).trim().split(" ").slice(0, 3).join(" "),
    endpoint: `http://127.0.0.1:${gateway}`,
    key,
    pids: ["mon.a", "osd.0", "radosgw"].map((name) => Number(readFileSync(join(folder, "run", `${name}.pid`), "utf8"))),
    rados: { objects: "rados", cephConf: join(folder, "ceph.conf"), cephUser: "admin", cephPool: POOL },
    stop: async () => {
      await run(SCRIPT, ["clean", folder], { env });
      await reserved.release();
    },
  };
}

function isThere(): boolean {
  return ["ceph-mon", "ceph-osd", "rados", "radosgw", "radosgw-admin"].every((program) => {
    try {
      execFileSync("which", [program], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  });
}

function install(onProgress: (line: string) => void): boolean {
  if (process.getuid?.() !== 0) return false;
  onProgress("installing radosgw with apt-get ...");
  try {
    execFileSync("apt-get", ["update", "-qq"], { stdio: "ignore" });
    execFileSync("apt-get", ["install", "-y", "--no-install-recommends", ...PACKAGES], { stdio: "ignore" });
  } catch {
    return false;
  }
  return isThere();
}
