// Another program that fills the disk to its last byte, and takes what is freed there too: reads are served, also after a restart.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import type { ConcordClient } from "@concord/client";
import { s3Client } from "@concord/constellation";
import type { Attack, Target } from "./attack.ts";
import { BUCKET } from "./bystanders.ts";

export const DISK_MIB = 384;
export const RESERVE_BYTES = 32 * 1024 * 1024;
export const OPERATION_MS = 5_000;
/** A client repeats what is refused until then: long enough for one answer of a busy machine. */
const REFUSED_MS = 3_000;
/** Longer than stores leave changed rows without a checkpoint. */
export const FULL_MS = 7_000;
const PAUSE_MS = 100;
/** Much longer than it takes on a busy machine, too. */
const RESERVE_MS = 60_000;
export const KEPT = { table: "Kept", key: { id: 1n } };
export const LINE = "acknowledged before the disk was full";
/** Writes on until there is no space, and tries again for ever. */
const FILLER = 'while :; do cat /dev/zero >> "$0" 2>/dev/null; sleep 0.2; done';

export interface Clients {
  readonly db: ConcordClient;
  readonly s3: S3Client;
}

type Operations = Readonly<Record<string, (clients: Clients) => Promise<unknown>>>;

export const READS: Operations = {
  "storage-proxy": async ({ db }) => {
    const { rows } = await db.query("SELECT * FROM KeptPlain WHERE id = ?", [1n]);
    if (rows[0]?.["line"] !== LINE) throw new Error("the row is lost");
  },
  "txn-coordinator": async ({ db }) => {
    const row = await db.runTransaction(KEPT, (txn) => txn.read<{ line: string }>("Kept", KEPT.key), { deadlineMs: OPERATION_MS });
    if (row?.line !== LINE) throw new Error("the row is lost");
  },
  "object-gateway": async ({ s3 }) => {
    const abortSignal = AbortSignal.timeout(OPERATION_MS);
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: "kept" }), { abortSignal });
    if ((await Body!.transformToString()) !== LINE) throw new Error("the object is lost");
  },
  "dedup-worker": async ({ db }) => {
    const { partitions } = await db.messages.bounds(0);
    for (let partition = 0; partition < partitions; partition += 1) {
      const { start } = await db.messages.bounds(partition);
      const { messages } = await db.messages.read(partition, { from: start });
      if (messages.length > 0) return;
    }
    throw new Error("the messages are lost");
  },
};

export const WRITES: Operations = {
  "storage-proxy": ({ db }) => db.query("INSERT INTO KeptPlain (id, line) VALUES (?, ?)", [2n, LINE]),
  "txn-coordinator": ({ db }) =>
    db.runTransaction({ table: "Kept", key: { id: 2n } }, async (txn) => txn.insert("Kept", { id: 2n, line: LINE }), {
      deadlineMs: REFUSED_MS,
    }),
  "object-gateway": ({ s3 }) => s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: "refused", Body: LINE })),
  "dedup-worker": ({ db }) => db.messages.ingest([{ id: "refused", value: LINE }], { timeoutMs: REFUSED_MS }),
};
export const REFUSED = /STORAGE_FULL|StorageFull/;

const diskOf = (target: Target): string => dirname(target.folder);
const junkOn = (disk: string): string => join(disk, "junk");

/** Another program takes all space of the disk, and what is freed, until `act` has ended; what it wrote stays. */
export async function whileFilled(disk: string, act: () => Promise<void>): Promise<void> {
  const filler: ChildProcess = spawn("sh", ["-c", FILLER, junkOn(disk)], { stdio: "ignore", detached: true });
  try {
    while (statfsSync(disk).bavail > 0) await sleep(PAUSE_MS);
    await act();
  } finally {
    const ended = once(filler, "exit");
    process.kill(-filler.pid!, "SIGKILL");
    await ended;
  }
}

/** Removes what the other program wrote. */
export function makeSpace(disk: string): void {
  rmSync(junkOn(disk), { force: true });
}

/** The file comes back by itself. */
export async function judgeReserve(target: Target, name: string): Promise<void> {
  const file = join(target.dataFolder(name), "storage", "reserve");
  const until = Date.now() + RESERVE_MS;
  while (statSync(file, { throwIfNoEntry: false })?.size !== RESERVE_BYTES) {
    if (Date.now() > until) return target.fail(`the reserve is not whole ${RESERVE_MS / 1000} s after there was space again`);
    await sleep(PAUSE_MS);
  }
}

/** Writes what is read while the disk is full. */
export async function keep({ db, s3 }: Clients): Promise<void> {
  await db.createTables([
    "CREATE TABLE Kept (id bigint PRIMARY KEY, line text)",
    "CREATE TABLE KeptPlain (id bigint PRIMARY KEY, line text) WITH kind = 'plain'",
  ]);
  await db.runTransaction(KEPT, async (txn) => txn.insert("Kept", { ...KEPT.key, line: LINE }));
  await db.query("INSERT INTO KeptPlain (id, line) VALUES (?, ?)", [1n, LINE]);
  await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: "kept", Body: LINE }));
}

/** "stored", or the code and text of the error. */
export function answerOf(write: Promise<unknown>): Promise<string> {
  return write.then(
    () => "stored",
    (error: unknown) => `${(error as { code?: string }).code ?? ""} ${String(error)}`,
  );
}

/** Judges the answers of the services for so long while nothing is free. */
async function judgeFull(target: Target, clients: Clients, when: string): Promise<void> {
  const until = Date.now() + FULL_MS;
  const failed = new Map<string, string>();
  for (let round = 0; round === 0 || Date.now() < until; round += 1) {
    for (const [service, read] of Object.entries(READS)) await read(clients).catch((error: unknown) => failed.set(service, String(error)));
    await sleep(PAUSE_MS);
  }
  // The log is on the full disk too.
  if (failed.size > 0) target.note(`parts: ${await (await fetch(`http://${target.adminAddress}/parts`)).text()}`);
  for (const [service, error] of failed) target.fail(`${service} did not serve a read ${when}: ${error}`);
  for (const [service, write] of Object.entries(WRITES)) {
    const answer = await answerOf(write(clients));
    if (!REFUSED.test(answer)) target.fail(`${service} answered a write ${when}: ${answer}`);
  }
}

async function attack(target: Target): Promise<void> {
  const { coordinators, dedupWorkers, s3Endpoints, tokens } = target.constellation;
  const db = await target.client.connect({ coordinators, dedupWorker: dedupWorkers, token: target.clientToken, timeoutMs: OPERATION_MS });
  const clients = { db, s3: s3Client(s3Endpoints[0]!, tokens.accessKeys[0]!) };
  await keep(clients);
  try {
    await whileFilled(diskOf(target), () => judgeFull(target, clients, "while the disk was full"));
    target.note(`${statfsSync(target.folder).bavail} blocks were free before the restart`);
    await target.stop();
    await target.start();
    await whileFilled(diskOf(target), () => judgeFull(target, clients, "after a restart on the full disk"));
  } finally {
    makeSpace(diskOf(target));
  }
  await target.serves("once there was space again");
  await judgeReserve(target, target.name);
  db.close();
  clients.s3.destroy();
}

export const filledDisk: Attack = {
  name: "filled-disk",
  symptom: "within seconds the program ended, all four services with it, and did not start again until space was made",
  isShort: true,
  diskMiB: DISK_MIB,
  config: { lowSpaceBytes: RESERVE_BYTES, reserveBytes: RESERVE_BYTES },
  missing: () => (process.getuid?.() === 0 ? undefined : "only root mounts a file system"),
  run: attack,
};
