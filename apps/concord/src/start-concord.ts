import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeRandom } from "@concord/adapter-node-runtime";
import { readText } from "@concord/server";
import { buildOf } from "@concord/config";
import { toHex } from "@concord/runtime";
import { createLog } from "@concord/telemetry";
import { concordSchema } from "./config.ts";
import { openProgram } from "./program.ts";

export interface StartOptions {
  /** Where data is kept and found again. A folder for this life only when not given: `stop` removes it. */
  readonly dataFolder?: string;
  /** Lines of JSON on standard output; "silent" when not given. */
  readonly logLevel?: "debug" | "info" | "warn" | "error" | "silent";
  /** Other keys of the configuration, as `concord --help` lists them. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface RunningConcord extends AsyncDisposable {
  /** gRPC, every service: `connect({ coordinators: [address], dedupWorker: address })`. */
  readonly address: string;
  /** For any S3 client with path-style addresses. */
  readonly s3: {
    readonly endpoint: string;
    readonly region: string;
    readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  };
  /** /metrics, /healthz, /readyz. */
  readonly adminAddress: string;
  readonly dataFolder: string;
  /** Drains, closes, removes a folder that the start made. Never rejects because of Concord; a second call waits for the first. */
  stop(): Promise<void>;
}

/**
 * Concord in this process, on free ports of loopback, for integration tests: `await using concord = await startConcord()`. Resolves when
 * it is ready. Rejects with every mistake of the configuration, or with the reason why it must not start, as STORE_FAILED when another
 * process has the data folder. A disk that fails later is an unhandled rejection.
 */
export async function startConcord(options: StartOptions = {}): Promise<RunningConcord> {
  const accessKey = { accessKeyId: "CONCORD", secretAccessKey: toHex(nodeRandom.bytes(20)), tenant: "main" };
  const dataFolder = options.dataFolder ?? (await mkdtemp(join(tmpdir(), "concord-")));
  const removeFolder = async (): Promise<void> => {
    if (options.dataFolder === undefined) await rm(dataFolder, { recursive: true, force: true });
  };
  try {
    const { logLevel = "silent" } = options;
    const config = checked({ accessKeys: [accessKey], ...options.config, dataFolder, logLevel });
    const build = buildOf(import.meta.dirname, process.version, readText);
    const log = createLog({ name: config.nodeName, level: config.logLevel });
    const { program, open } = openProgram({ name: "concord", config, build, log }, undefined);
    const served = await open();
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => (stopped ??= program.stop(served).then(removeFolder));
    const { address, httpAddress, adminAddress } = await started(
      program.start(served, () => false),
      stop,
    );
    const [{ accessKeyId, secretAccessKey }] = config.accessKeys as [typeof accessKey];
    const scheme = config.tlsCertificateFile === undefined ? "http" : "https";
    const s3 = { endpoint: `${scheme}://${httpAddress}`, region: config.region, credentials: { accessKeyId, secretAccessKey } };
    return { address, s3, adminAddress, dataFolder, stop, [Symbol.asyncDispose]: stop };
  } catch (thrown) {
    await removeFolder();
    throw thrown;
  }
}

/** Addresses of a start; what a failed one opened is stopped. */
async function started<Addresses>(start: Promise<Addresses>, stop: () => Promise<void>): Promise<Addresses> {
  try {
    return await start;
  } catch (thrown) {
    await stop();
    throw thrown;
  }
}

function checked(values: object): ReturnType<typeof concordSchema.parse> {
  const parsed = concordSchema.safeParse(values);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new TypeError(`the configuration has mistakes:\n${problems.join("\n")}`);
}
