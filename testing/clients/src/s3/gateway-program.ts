// An object-gateway as a process of its own, for one client.
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { metricSamples, metricsPage } from "@concord/constellation";

const PROGRAM = resolve(import.meta.dirname, "../../../../apps/object-gateway/src/main.ts");
const START_MS_MAX = 60_000;

export const ACCESS_KEY = { accessKeyId: "CLIENTSKEY", secretAccessKey: "a-secret-of-clients", tenant: "clients" } as const;
export const REGION = "us-east-1";

export interface GatewayProgram {
  /** "127.0.0.1:40123" */
  readonly address: string;
  /** Its own, removed with it: clients keep their files there. */
  readonly folder: string;
  /** Which operations succeeded since the start, sorted. */
  operations(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

export async function startGateway(config: object = {}): Promise<GatewayProgram> {
  const folder = mkdtempSync(join(tmpdir(), "concord-s3-client-"));
  const file = join(folder, "config.json");
  const encryptionKeys = [{ id: "clients", key: randomBytes(32).toString("base64") }];
  const standard = { dataFolder: join(folder, "data"), accessKeys: [ACCESS_KEY], encryptionKeys, region: REGION };
  writeFileSync(file, JSON.stringify({ ...standard, ...config }), { mode: 0o600 });
  const child = spawn(process.execPath, [PROGRAM, "--config", file], { stdio: ["ignore", "pipe", "inherit"] });
  const stop = async (): Promise<void> => {
    await end(child);
    rmSync(folder, { recursive: true, force: true });
  };
  const serving = await servingLine(child).catch((thrown: unknown) => stop().then(() => Promise.reject(thrown as Error)));
  return { address: serving.httpAddress, folder, operations: () => operationsOf(serving.adminAddress), stop };
}

interface Serving {
  readonly httpAddress: string;
  readonly adminAddress: string;
}

async function servingLine(child: ChildProcess): Promise<Serving> {
  const late = setTimeout(() => child.kill("SIGKILL"), START_MS_MAX);
  let adminAddress = "";
  try {
    for await (const line of createInterface({ input: child.stdout! })) {
      const { message, address, httpAddress } = JSON.parse(line) as Readonly<Record<string, string>>;
      if (message === "admin") adminAddress = address!;
      if (message === "serving") return { httpAddress: httpAddress!, adminAddress };
    }
  } finally {
    clearTimeout(late);
    child.stdout!.resume();
  }
  throw new Error("the object-gateway ended before it served");
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

async function operationsOf(adminAddress: string): Promise<readonly string[]> {
  const samples = metricSamples(await metricsPage(adminAddress), "s3_requests_total");
  return [...new Set(samples.filter(({ labels }) => labels["code"] === "OK").map(({ labels }) => labels["operation"]!))].sort();
}
