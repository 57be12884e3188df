// The real program as a process of its own: started, killed, asked over S3 and over gRPC.
import { spawn, type ChildProcess, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { after } from "node:test";
import { FAILPOINT_VARIABLE, nodeClock } from "@concord/adapter-node-runtime";
import { contract } from "@concord/protos-object";
import { bearer, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import { ANN, OPERATOR } from "./gateway.ts";
import { send, type Answer } from "./http-client.ts";
import { sign } from "./signing.ts";

const ADMIN = contract.service("ObjectAdminService").methods;
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const children = new Set<ChildProcess>();
const folders: string[] = [];

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  for (const folder of folders) await rm(folder, { recursive: true });
});

/** Removed after the tests. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "concord-object-gateway-"));
  folders.push(folder);
  return folder;
}

export interface Program {
  readonly child: ChildProcess;
  readonly address: string;
  readonly httpAddress: string;
}

/** `failpoint`: NAME:N, it is killed when it comes there for the nth time. */
export function run(folder: string, more: readonly string[], failpoint = ""): ChildProcessByStdio<null, Readable, null> {
  const args = ["--data-folder", folder, "--operator-token", OPERATOR, "--access-keys", JSON.stringify([ANN]), ...more];
  const env = { ...process.env, [FAILPOINT_VARIABLE]: failpoint };
  const child = spawn(process.execPath, [join(import.meta.dirname, "../main.ts"), ...args], { stdio: ["ignore", "pipe", "inherit"], env });
  children.add(child);
  return child;
}

/** Resolves when it serves. */
export async function start(folder: string, more: readonly string[], failpoint = ""): Promise<Program> {
  const child = run(folder, more, failpoint);
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { message: string; address: string; httpAddress: string };
    if (entry.message === "serving") return { child, ...entry };
  }
  throw new Error("the process ended before it served");
}

export async function stop({ child }: Program, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill(signal);
    await once(child, "exit");
  }
  children.delete(child);
}

export async function admin<Response>(program: Program, method: string, request: object = {}): Promise<Response> {
  const channel = transport.connect(program.address);
  try {
    return (await channel.unary(ADMIN[method]!, request, { timeoutMs: 10_000, metadata: bearer(OPERATOR) })) as Response;
  } finally {
    channel.close();
  }
}

export const call = (program: Program, method: string, path: string, body?: string, query: [string, string][] = []): Promise<Answer> =>
  send(
    program.httpAddress,
    sign({ method, path, query, ...(body === undefined ? {} : { body }) }, { key: ANN, host: program.httpAddress }),
  );

export interface Report {
  readonly pieces: bigint;
  readonly referenced: bigint;
  readonly garbage: bigint;
  readonly leaked: readonly string[];
  readonly dangling: readonly string[];
}
