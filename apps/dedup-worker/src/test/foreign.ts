// The other programs of a Kafka cluster as a test runs them: librdkafka (PyPI's confluent-kafka), and workers beside them.
import { execFile, spawn, type ChildProcessByStdio } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { brokers, type Topics } from "@concord/adapter-kafka/testing";
import { WindowService } from "@concord/protos-dedup";
import { callUnary } from "@concord/rpc";
import { transport, type Started } from "./worker-process.ts";

export { brokers };

const PROGRAM = join(import.meta.dirname, "foreign_client.py");
const REQUIREMENTS = join(import.meta.dirname, "requirements.txt");
const CACHE = join(import.meta.dirname, "../../../../node_modules/.cache/concord-clients");
export const STATE_POLL_MS = 100;
const run = promisify(execFile);

/** Where the pinned packages are; installed once for each Python. */
async function packages(): Promise<string> {
  const { stdout: version } = await run("python3", ["-c", "import sys; print(sys.implementation.cache_tag, sys.platform)"]);
  const key = createHash("sha256").update(version).update(readFileSync(REQUIREMENTS)).digest("hex").slice(0, 16);
  const folder = join(CACHE, `librdkafka-${key}`);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const partial = mkdtempSync(join(CACHE, "installing-"));
  try {
    await run("python3", ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", partial, "-r", REQUIREMENTS]);
    if (!existsSync(folder)) renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return folder;
}

/** Environment in which python3 has confluent-kafka. */
export const env = { ...process.env, PYTHONPATH: await packages(), PYTHONDONTWRITEBYTECODE: "1" };

/** Where clients log in and have only the permissions that they were given; those of `brokers` may do anything. */
export function loginBrokers(): readonly string[] {
  const file = join(process.env["ENGINE_KAFKA_FOLDER"]!, "cluster.json");
  const { nodes, ports } = JSON.parse(readFileSync(file, "utf8")) as { readonly nodes: number; readonly ports: readonly number[] };
  return ports.slice(2 * nodes).map((port) => `127.0.0.1:${port}`);
}

export interface ForeignMessage {
  readonly key?: string | null;
  readonly value: string | null;
  readonly headers?: readonly (readonly [string, string | null])[];
}

const argsOf = (command: string, asked: object): string[] => [PROGRAM, brokers.join(","), command, JSON.stringify(asked)];

export async function foreign(command: string, asked: object): Promise<string> {
  return (await run("python3", argsOf(command, asked), { env, maxBuffer: 1 << 26 })).stdout;
}

/** Runs until its standard input ends. */
export function foreignProcess(command: string, asked: object): ChildProcessByStdio<Writable, Readable, null> {
  return spawn("python3", argsOf(command, asked), { env, stdio: ["pipe", "pipe", "inherit"] });
}

export async function consumed(topic: string): Promise<ForeignMessage[]> {
  const lines = (await foreign("consume", { topic })).split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as ForeignMessage);
}

export const values = async (topic: string): Promise<string[]> => (await consumed(topic)).map(({ value }) => String(value)).toSorted();

export function argumentsOf(topics: Topics, more: readonly string[]): string[] {
  const names = [
    "--kafka-input-topic",
    topics.input,
    "--kafka-output-topic",
    topics.output,
    "--kafka-dead-letters-topic",
    topics["dead-letters"],
  ];
  return [
    "--log",
    "kafka",
    "--kafka-brokers",
    brokers.join(","),
    "--kafka-replicas-min",
    "1",
    "--kafka-pipeline",
    topics.input,
    ...names,
    ...more,
  ];
}

export type Partition = Awaited<ReturnType<typeof statistics>>[number];

export async function statistics(address: string) {
  const channel = transport.connect(address);
  try {
    return (await callUnary(channel, WindowService.methods.GetStatistics, {}, { timeoutMs: 30_000 })).partitions;
  } finally {
    channel.close();
  }
}

/** Until the partitions are as wanted; the test's own limit of time ends it. */
export async function until(address: string, wanted: (partitions: readonly Partition[]) => boolean): Promise<readonly Partition[]> {
  for (;;) {
    const partitions = await statistics(address);
    if (wanted(partitions)) return partitions;
    await sleep(STATE_POLL_MS);
  }
}

export const processed =
  (count: number) =>
  (partitions: readonly Partition[]): boolean =>
    partitions.reduce((sum, { accepted }) => sum + Number(accepted), 0) >= count;

export async function kill(worker: Started, signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
  const exited = once(worker.child, "exit");
  worker.child.kill(signal);
  await exited;
}

export const ids = (count: number, name: string): string[] =>
  Array.from({ length: count }, (_, at) => `${name}-${String(at).padStart(4, "0")}`);
export const jsonOf = (id: string): string => JSON.stringify({ messageId: id });
export const byJson = (id: string): ForeignMessage => ({ key: `user of ${id}`, value: jsonOf(id) });
