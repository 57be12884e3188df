// MinIO over one folder, as its documentation starts it on one drive: a yardstick of S3 that runs beside ours. Built from its Go module, once.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { type AccessKey, reservePorts } from "@concord/constellation";

const run = promisify(execFile);
const MODULE = "github.com/minio/minio";
/** The newest one that the module proxy has; its makers ship no programs any more. */
const VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c";
const CACHE = resolve(import.meta.dirname, `../../../node_modules/.cache/concord-bench/minio-${VERSION}`);
const READY_MS_MAX = 60_000;
const POLL_MS = 100;

export interface Minio {
  readonly version: string;
  readonly endpoint: string;
  readonly key: AccessKey;
  readonly pids: readonly number[];
  stop(): Promise<void>;
}

/** Starts it in a temporary folder; builds it when that was not done before. Undefined: not to be had here. */
export async function startMinio(onProgress: (line: string) => void): Promise<Minio | undefined> {
  const program = join(CACHE, "minio");
  if (!existsSync(program) && !(await build(onProgress))) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-minio-"));
  const reserved = await reservePorts(1);
  const address = `127.0.0.1:${reserved.ports[0]}`;
  const key: AccessKey = { accessKeyId: "BENCH", secretAccessKey: "bench-secret", tenant: "main" };
  const env = { ...process.env, MINIO_ROOT_USER: key.accessKeyId, MINIO_ROOT_PASSWORD: key.secretAccessKey, MINIO_UPDATE: "off" };
  const child = spawn(program, ["server", "--quiet", "--address", address, folder], { env, stdio: ["ignore", "ignore", "inherit"] });
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    await reserved.release();
    rmSync(folder, { recursive: true, force: true });
  };
  const endpoint = `http://${address}`;
  if (await isReady(endpoint)) return { version: `MinIO ${VERSION}`, endpoint, key, pids: [child.pid!], stop };
  await stop();
  throw new Error(`MinIO was not ready after ${READY_MS_MAX / 1000} s`);
}

async function isReady(endpoint: string): Promise<boolean> {
  const endsAtMs = performance.now() + READY_MS_MAX;
  while (performance.now() < endsAtMs) {
    const response = await fetch(`${endpoint}/minio/health/ready`).catch(() => undefined);
    if (response?.ok === true) return true;
    await sleep(POLL_MS);
  }
  return false;
}

async function build(onProgress: (line: string) => void): Promise<boolean> {
  onProgress("building MinIO with go install, some minutes ...");
  mkdirSync(CACHE, { recursive: true });
  try {
    await run("go", ["install", `${MODULE}@${VERSION}`], { env: { ...process.env, GOBIN: CACHE }, maxBuffer: 64 * 1024 * 1024 });
    return true;
  } catch (thrown) {
    onProgress(`MinIO cannot be built: ${String((thrown as { readonly stderr?: string }).stderr ?? thrown).slice(-500)}`);
    return false;
  }
}
