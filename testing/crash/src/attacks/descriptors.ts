// A machine whose strangers have all descriptors: the process may open no file more, then not even those of its reserve.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { GetObjectCommand, PutObjectCommand, type S3Client, S3ServiceException } from "@aws-sdk/client-s3";
import { s3Client } from "@concord/constellation";
import type { Attack, Target } from "./attack.ts";
import { BUCKET, SERVED } from "./bystanders.ts";
import { openSilently } from "./silent-connections.ts";

/** Longer than stores leave changed rows without a checkpoint, which opens files. */
const STARVED_MS = 7_000;
/** Longer than one write of a file waits for a descriptor (30 s): whatever is written is tried again after that. */
const LONG_STARVED_MS = 40_000;
const PAUSE_MS = 100;
/** Longer than a read waits for a descriptor. */
const ANSWER_MS = 8_000;
const CONNECTIONS_PER_PORT = 20;
/** Standard input, output and error. */
const NONE = 3;
const OBJECTS = 8;
/** Such objects are files of their own. */
const OBJECT_BYTES = 2 * 1024 * 1024;
const HTTP_UNAVAILABLE = 503;

const keyOf = (number: number): string => `file-${number}`;
const bodyOf = (number: number): Uint8Array => new Uint8Array(OBJECT_BYTES).fill(number);

/** Sets the process's soft limit of open files; returns the one before. */
function limitFiles(pid: number, count: number): number {
  const before = Number(/^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, "utf8"))?.[1]);
  execFileSync("prlimit", ["--pid", String(pid), `--nofile=${count}:`]);
  return before;
}

/** With a limit of that many files the process opens one only when it closes one. */
function filesWithoutGap(pid: number): number {
  const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let count = 0;
  while (open.has(count)) count += 1;
  return count;
}

/** "read", "no connection", or the code of a refusal that says that the service is busy; throws on any other answer. */
async function readObject(s3: S3Client, number: number): Promise<string> {
  try {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: keyOf(number) }), {
      abortSignal: AbortSignal.timeout(ANSWER_MS),
    });
    if (Buffer.compare(await Body!.transformToByteArray(), bodyOf(number)) !== 0) throw new Error(`${keyOf(number)} has other bytes`);
    return "read";
  } catch (error) {
    if (error instanceof S3ServiceException && error.$metadata.httpStatusCode === HTTP_UNAVAILABLE) return error.name;
    if (error instanceof Error && /socket hang up|ECONNRESET|aborted/.test(error.message)) return "no connection";
    throw error;
  }
}

async function readAll(s3: S3Client): Promise<readonly string[]> {
  return Promise.all(Array.from({ length: OBJECTS }, (_, number) => readObject(s3, number)));
}

async function readsAll(target: Target, s3: S3Client, when: string): Promise<void> {
  for (const [number, answer] of (await readAll(s3)).entries())
    if (answer !== "read") target.fail(`${answer} for ${keyOf(number)} ${when}`);
}

async function partFailures({ adminAddress }: Target): Promise<readonly string[]> {
  const text = await (await fetch(`http://${adminAddress}/metrics`)).text();
  return text.split("\n").filter((line) => /^\w*part_failures_total\{.* [1-9]/.test(line));
}

async function starve(target: Target, s3: S3Client, sockets: Socket[], starvedMs: number): Promise<void> {
  const counted = SERVED.map((service) => target.bystanders.acknowledged(service));
  const until = Date.now() + starvedMs;
  for (const address of [target.address, target.httpAddress, target.adminAddress])
    sockets.push(...(await openSilently(address, CONNECTIONS_PER_PORT)));
  const answers = new Map<string, number>();
  while (Date.now() < until) {
    for (const answer of await readAll(s3)) answers.set(answer, (answers.get(answer) ?? 0) + 1);
    await sleep(PAUSE_MS);
  }
  const grown = SERVED.map((service, at) => `${service} ${target.bystanders.acknowledged(service) - counted[at]!}`);
  target.note(`without any descriptor: objects of a file ${[...answers].map(([answer, count]) => `${answer} ${count}`).join(", ")}`);
  target.note(`without any descriptor: acknowledged ${grown.join(", ")}`);
  target.note(`${SERVED.map((service) => `${service}: ${target.bystanders.lastError(service) || "no error"}`).join("; ")}`);
  if (!answers.has("SlowDown")) target.fail("no read was refused: the process had descriptors");
}

async function attack(target: Target, starvedMs: number): Promise<void> {
  const { s3Endpoints, tokens } = target.constellation;
  const s3 = s3Client(s3Endpoints[0]!, tokens.accessKeys[0]!);
  const sockets: Socket[] = [];
  for (let number = 0; number < OBJECTS; number += 1)
    await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: keyOf(number), Body: bodyOf(number) }));
  await readsAll(target, s3, "before");
  const pid = target.pid();
  const filesMax = limitFiles(pid, filesWithoutGap(pid));
  try {
    await readsAll(target, s3, "while the reserve has descriptors");
    await target.serves("while only the reserve has descriptors");
    limitFiles(pid, NONE);
    await starve(target, s3, sockets, starvedMs);
  } finally {
    limitFiles(pid, filesMax);
    for (const socket of sockets) socket.destroy();
  }
  await target.serves("once there are descriptors again");
  await readsAll(target, s3, "although there are descriptors again");
  s3.destroy();
  for (const line of await partFailures(target)) target.fail(`a part ended: ${line}`);
}

const missing = (): string | undefined => (process.platform === "linux" ? undefined : "limits of other processes are set on Linux only");

export const descriptors: Attack = {
  name: "descriptors",
  symptom: "a store that got EMFILE for one table or one checkpoint ended its service; a read was a server error",
  isShort: true,
  missing,
  run: (target) => attack(target, STARVED_MS),
};

export const descriptorsLong: Attack = {
  name: "descriptors-long",
  symptom: "a write of a store that found no descriptor for 30 s failed the store, and its part was out",
  isShort: false,
  missing,
  run: (target) => attack(target, LONG_STARVED_MS),
};
