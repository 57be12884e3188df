// An S3 client uploads this project's own files and a file in parts; the gateway dies meanwhile. Nothing may be lost, leaked or dangling.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  UploadPartCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { ObjectAdminService, type CheckConsistencyResponse } from "@concord/protos-object";
import { type Constellation, isIndeterminate, Latencies, type PlainGrpc, type PlainService, s3Client } from "@concord/constellation";
import type { ScenarioResult } from "./figures.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const GATEWAY = "object-gateway-1";
/** The gateway dies when the blob of so many uploads is sealed and no row names it yet. */
export const OBJECT_FAILPOINT = "object:after-seal:25";
const BUCKET = "tree";
const WORKERS = 16;
const BIG_KEY = "big/13-mib";
const MIB = 1024 * 1024;
const BIG_PARTS = [5 * MIB, 5 * MIB, 3 * MIB];
const KILL_WITHIN_MS = 60_000;
/** A request is repeated for so long: far longer than the gateway needs to start on a machine whose processors are all in use. */
const REPEATED_FOR_MS = 60_000;
const RETRY_MS = 100;
/** Far more than any grace: everything that is garbage goes now. */
const AHEAD_MS = 30 * 24 * 3_600_000;

interface Run {
  readonly s3: S3Client;
  readonly latencies: Latencies;
  /** Requests that the gateway's death left without an answer. */
  indeterminate: number;
  repeated: number;
}

export async function objectScenario(constellation: Constellation, grpc: PlainGrpc): Promise<ScenarioResult> {
  await constellation.process(GATEWAY).stop();
  await constellation.restart(GATEWAY, { CONCORD_KILL_POINT: OBJECT_FAILPOINT });
  const [endpoint, key] = [constellation.s3Endpoints[0]!, constellation.tokens.accessKeys[0]!];
  const run: Run = { s3: s3Client(endpoint, key), latencies: new Latencies(), indeterminate: 0, repeated: 0 };
  try {
    await run.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const files = new Map(projectFiles().map((file) => [file, readFileSync(join(ROOT, file))]));
    const big = bigFile();
    const startedAt = performance.now();
    const uploading = Promise.all([uploadTree(run, files), uploadInParts(run, big)]);
    const [died] = await Promise.all([restartAfterKill(constellation), uploading]);
    const seconds = (performance.now() - startedAt) / 1000;
    if (!died) return { held: false, line: `object: the failpoint ${OBJECT_FAILPOINT} was not reached` };
    const expected = new Map([...files, [BIG_KEY, big]]);
    const problem = (await differences(run.s3, expected)) ?? (await leftovers(constellation, grpc));
    const figures =
      `${files.size} files and ${big.length / MIB} MiB in parts in ${seconds.toFixed(1)} s, ${run.latencies.text()}, ` +
      `${run.indeterminate} indeterminate when the gateway was killed at ${OBJECT_FAILPOINT}, ${run.repeated} repeated`;
    if (run.indeterminate === 0)
      return { held: false, line: `object: ${figures}; nothing was indeterminate at the kill: the run does not count` };
    return {
      held: problem === undefined,
      line: `object: ${figures}; ${problem ?? `all read back byte-exact; ${await gone(constellation, grpc)}`}`,
    };
  } finally {
    run.s3.destroy();
  }
}

/** What git keeps, or what lies there when this is no clone. */
function projectFiles(): string[] {
  const listed = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT, encoding: "utf8" });
  return listed.split("\0").filter((file) => file !== "" && statSync(join(ROOT, file)).isFile());
}

/** Bytes that repeat nowhere, the same in every run. */
function bigFile(): Buffer {
  const blocks: Buffer[] = [];
  const length = BIG_PARTS.reduce((sum, part) => sum + part, 0);
  for (let at = 0; at * 32 < length; at += 1) blocks.push(createHash("sha256").update(`block ${at}`).digest());
  return Buffer.concat(blocks, length);
}

async function uploadTree(run: Run, files: ReadonlyMap<string, Buffer>): Promise<void> {
  const queue = [...files];
  const worker = async (): Promise<void> => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      const [file, bytes] = next;
      await tried(run, () => run.s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: file, Body: bytes })));
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, worker));
}

/** 5 + 5 + 3 MiB; the second part is sent twice, first with other bytes. */
async function uploadInParts(run: Run, bytes: Buffer): Promise<void> {
  const target = { Bucket: BUCKET, Key: BIG_KEY };
  const { UploadId } = await tried(run, () => run.s3.send(new CreateMultipartUploadCommand(target)));
  const send = async (number: number, body: Buffer): Promise<{ PartNumber: number; ETag: string }> => {
    const { ETag } = await tried(run, () => run.s3.send(new UploadPartCommand({ ...target, UploadId, PartNumber: number, Body: body })));
    return { PartNumber: number, ETag: ETag! };
  };
  await send(2, Buffer.alloc(BIG_PARTS[1]!, "other"));
  const slices = BIG_PARTS.map((length, at) => {
    const from = BIG_PARTS.slice(0, at).reduce((sum, part) => sum + part, 0);
    return bytes.subarray(from, from + length);
  });
  const parts = await Promise.all(slices.map((slice, at) => send(at + 1, slice)));
  await tried(run, () => run.s3.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts: parts } })));
}

/** As a client does: again until it is answered. */
async function tried<Answer>(run: Run, send: () => Promise<Answer>): Promise<Answer> {
  const endsAtMs = performance.now() + REPEATED_FOR_MS;
  for (;;) {
    const startedAt = performance.now();
    try {
      const answer = await send();
      run.latencies.add(performance.now() - startedAt);
      return answer;
    } catch (error) {
      const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
      if (performance.now() > endsAtMs || (status !== undefined && status < 500)) throw error;
      run.repeated += 1;
      if (isIndeterminate(error)) run.indeterminate += 1;
    }
    await sleep(RETRY_MS);
  }
}

/** False: the gateway did not die in time. */
async function restartAfterKill(constellation: Constellation): Promise<boolean> {
  const died = constellation
    .process(GATEWAY)
    .exited()
    .then(() => true);
  const isDead = await Promise.race([died, sleep(KILL_WITHIN_MS, false, { ref: false })]);
  if (isDead) await constellation.restart(GATEWAY);
  return isDead;
}

async function differences(s3: S3Client, expected: ReadonlyMap<string, Buffer>): Promise<string | undefined> {
  const listed = new Set<string>();
  for (let token: string | undefined, more = true; more;) {
    const page = await s3.send(
      new ListObjectsV2Command({ Bucket: BUCKET, MaxKeys: 300, ...(token === undefined ? {} : { ContinuationToken: token }) }),
    );
    for (const { Key } of page.Contents ?? []) listed.add(Key!);
    token = page.NextContinuationToken;
    more = page.IsTruncated === true;
  }
  const unlisted = [...expected.keys()].filter((key) => !listed.has(key));
  if (unlisted.length > 0 || listed.size !== expected.size) {
    return `${listed.size} keys are listed, ${expected.size} were uploaded; missing: ${unlisted.slice(0, 3).join(", ")}`;
  }
  for (const [key, bytes] of expected) {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
    if (!bytes.equals(await Body!.transformToByteArray())) return `${key} came back with other bytes`;
  }
  return undefined;
}

async function consistency(admin: PlainService<ObjectAdminService>, token: string): Promise<CheckConsistencyResponse> {
  await admin.call("CollectGarbage", { aheadMs: BigInt(AHEAD_MS) }, token);
  return admin.call("CheckConsistency", {}, token);
}

/** Waits for the recovery behind the restart, collects, compares; says what is wrong. */
async function leftovers(constellation: Constellation, grpc: PlainGrpc): Promise<string | undefined> {
  const admin = grpc(constellation.process(GATEWAY).plan.address, ObjectAdminService);
  const { operator } = constellation.tokens;
  try {
    const giveUpAt = performance.now() + KILL_WITHIN_MS;
    while (!(await admin.call("GetStatus", {}, operator)).recovered) {
      if (performance.now() > giveUpAt) return `recovery has not ended after ${KILL_WITHIN_MS / 1000} s`;
      await sleep(RETRY_MS);
    }
    const found = await consistency(admin, operator);
    if (found.leaked.length > 0 || found.garbage > 0n) return `${found.leaked.length} blobs leaked, ${found.garbage} not collected`;
    if (found.danglingRefs > 0n) return `${found.danglingRefs} rows name blobs that are not there`;
    return undefined;
  } finally {
    admin.close();
  }
}

async function gone(constellation: Constellation, grpc: PlainGrpc): Promise<string> {
  const admin = grpc(constellation.process(GATEWAY).plan.address, ObjectAdminService);
  const { operator } = constellation.tokens;
  const { recovery } = await admin.call("GetStatus", {}, operator);
  const found = await consistency(admin, operator);
  admin.close();
  return (
    `recovery kept ${recovery?.referenced} and collected ${recovery?.collected} blobs; after gc ${found.pieces} blobs, all named by rows, ` +
    `${found.leaked.length} without an owner, ${found.danglingRefs} rows without a blob`
  );
}
