// Work on an object gateway that is killed again and again, and what must be true afterwards.
import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  NoSuchKey,
  PutObjectCommand,
  UploadPartCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { ObjectAdminService } from "@concord/protos-object";
import { type Constellation, isIndeterminate, type PlainGrpc, s3Client } from "@concord/constellation";
import { earlyHit, failpointsIn } from "./failpoints.ts";
import { AnnouncedBuckets } from "./objects/announced-buckets.ts";
import { SwitchedBuckets } from "./objects/switched-buckets.ts";
import { Downloads } from "./readers/downloads.ts";
import { newTally, type Subject } from "./subject.ts";

const HOUR_MS = 3_600_000;
/** Within the age of events; a day locks last is passed. */
const CLOCK_STEPS_MS = [72 * HOUR_MS, -3 * HOUR_MS, 6 * HOUR_MS, -48 * HOUR_MS];
const GATEWAY = "object-gateway-1";
const BUCKET = "crash";
const PROBES = "crash-probes";
const KEYS = 24;
const KIB = 1024;
/** In the row, one block of a blob, several blocks. */
const SIZES = [200, 16 * KIB, 16 * KIB + 1, 40 * KIB, 700 * KIB];
const FIRST_PART = 5 * KIB * KIB;
/** One upload in so many goes in parts. */
const PARTS_EVERY = 60;
const AHEAD_MS = 30 * 24 * 3_600_000;
const RECOVERY_MS = 60_000;
/** For all calls of the collection and of the check: each has a shorter time of its own. */
const JUDGE_MS = 180_000;
/** gRPC's code. */
const DEADLINE_EXCEEDED = 4;

/** First, so that short runs come to them. */
const FIRST: readonly string[] = [
  "events:after-send",
  "object:before-delete",
  "object:after-delete",
  "events:after-removal",
  "lifecycle:after-removal",
  "multipart:after-complete-commit",
  "multipart:after-abort",
  "multipart:after-completing",
  "events:before-send",
  "lifecycle:before-removal",
  "object:after-commit",
  "gateway:before-answer",
  "segment:synced",
  "piece:sealed",
  "journal:group-synced",
  "recovery:after-page",
  "object:after-seal",
  "segment:appended",
];
const PROJECTS = ["libs/objects", "libs/adapter-filesystem", "libs/adapter-key-value-metadata", "libs/journal", "apps/object-gateway"];

/** What a key may hold: hashes of contents, "" for none. More than one while an answer is missing. */
type Possible = Set<string>;

const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

export class ObjectSubject implements Subject {
  readonly service = "object-gateway";
  readonly nodes = [GATEWAY];
  readonly beside: readonly string[];
  readonly points: readonly string[];
  readonly reachMs = 1_200;
  readonly reachOperations = 60;
  readonly worksThroughRestarts = false;
  readonly clockStepsMs = CLOCK_STEPS_MS;
  readonly tally = newTally();
  readonly notes: string[] = [];
  readonly #constellation: Constellation;
  readonly #grpc: PlainGrpc;
  readonly #s3: S3Client;
  readonly #model: Possible[] = Array.from({ length: KEYS }, () => new Set([""]));
  readonly #announced: AnnouncedBuckets | undefined;
  readonly #switched: SwitchedBuckets | undefined;
  /** Slow ones; with the events alone. */
  readonly slowReaders: Downloads | undefined;
  #operations = 0;

  /** `eventsWorker`: the dedup-worker that events go to, by name; undefined: without buckets of versions, locks, rules and events, without those whose versioning is switched, and without slow downloads. */
  constructor(constellation: Constellation, grpc: PlainGrpc, eventsWorker?: string) {
    this.#constellation = constellation;
    this.#grpc = grpc;
    this.#s3 = s3Client(constellation.s3Endpoints[0]!, constellation.tokens.accessKeys[0]!);
    const all = failpointsIn(PROJECTS);
    this.points = eventsWorker === undefined ? all : [...FIRST, ...all.filter((point) => !FIRST.includes(point))];
    this.beside = eventsWorker === undefined ? [] : [eventsWorker];
    const { s3, tally, notes } = { s3: this.#s3, tally: this.tally, notes: this.notes };
    this.#switched = eventsWorker === undefined ? undefined : new SwitchedBuckets({ s3, tally, notes, random: Math.random });
    this.slowReaders = eventsWorker === undefined ? undefined : new Downloads({ constellation, bucket: PROBES, tally, notes });
    this.#announced =
      eventsWorker === undefined
        ? undefined
        : new AnnouncedBuckets({ s3, tally, notes, grpc, worker: constellation.process(eventsWorker).plan.address });
  }

  hitOf(_point: string, cycle: number): number {
    return earlyHit(this.points, cycle);
  }

  died(): void {}

  async prepare(): Promise<void> {
    for (const Bucket of [BUCKET, PROBES]) await this.#s3.send(new CreateBucketCommand({ Bucket }));
    await this.#announced?.prepare();
    await this.#switched?.prepare();
    await this.slowReaders?.prepare();
  }

  /** One writer per key, until told to stop. Failures are doubts, told apart by what is read later. */
  async work(signal: AbortSignal): Promise<void> {
    const writer = async (at: number): Promise<void> => {
      while (!signal.aborted) {
        await this.#settle(at).catch(() => undefined);
        await this.#change(at).catch(() => sleep(5));
      }
    };
    await Promise.all([
      ...this.#model.map((_, at) => writer(at)),
      this.#announced?.work(signal),
      this.#switched?.work(signal),
      this.slowReaders?.work(signal),
    ]);
  }

  /** Everything is what it may be and announced as it was, nothing leaks, nothing dangles. */
  async judge(): Promise<void> {
    await this.#writable();
    for (let at = 0; at < KEYS; at += 1) await this.#settle(at);
    const listed = await this.#s3.send(new ListObjectsV2Command({ Bucket: BUCKET }));
    const names = new Set((listed.Contents ?? []).map(({ Key }) => Key!));
    this.#model.forEach((possible, at) => {
      if (names.has(keyOf(at)) !== possible.has("")) return;
      this.tally.lost += 1;
      this.notes.push(`${keyOf(at)} is ${names.has(keyOf(at)) ? "listed" : "not listed"}`);
    });
    await this.#announced?.judge();
    await this.#switched?.judge();
    await this.#consistency();
  }

  close(): void {
    this.#s3.destroy();
    this.slowReaders?.close();
  }

  /** Whatever clocks did, a write is taken. Behind a step the client learns the server's time from a first refusal. */
  async #writable(): Promise<void> {
    const giveUpAt = performance.now() + RECOVERY_MS;
    const probe = new PutObjectCommand({ Bucket: PROBES, Key: "probe", Body: "x" });
    for (;;) {
      try {
        await this.#s3.send(probe);
        return;
      } catch (error) {
        if (performance.now() > giveUpAt) throw error;
        await sleep(50);
      }
    }
  }

  async #change(at: number): Promise<void> {
    const [possible, Key] = [this.#model[at]!, keyOf(at)];
    this.#operations += 1;
    if (this.#operations % 7 === 0) {
      await this.#indeterminate(possible, "", () => this.#s3.send(new DeleteObjectCommand({ Bucket: BUCKET, Key })));
      return;
    }
    if (this.#operations % PARTS_EVERY === 0) {
      await this.#upload(possible, Key);
      return;
    }
    const Body = randomBytes(SIZES[this.#operations % SIZES.length]!);
    await this.#indeterminate(possible, hashOf(Body), () => this.#s3.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body })));
  }

  async #upload(possible: Possible, Key: string): Promise<void> {
    const target = { Bucket: BUCKET, Key };
    const { UploadId } = await this.#s3.send(new CreateMultipartUploadCommand(target));
    const bodies = [randomBytes(FIRST_PART), randomBytes(1000)];
    const Parts: { PartNumber: number; ETag: string }[] = [];
    for (const [n, Body] of bodies.entries()) {
      const { ETag } = await this.#s3.send(new UploadPartCommand({ ...target, UploadId, PartNumber: n + 1, Body }));
      Parts.push({ PartNumber: n + 1, ETag: ETag! });
    }
    const complete = new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } });
    await this.#indeterminate(possible, hashOf(Buffer.concat(bodies)), () => this.#s3.send(complete));
  }

  /** Until it is answered the key may hold the old or the new; answered, only the new. */
  async #indeterminate(possible: Possible, next: string, send: () => Promise<unknown>): Promise<void> {
    possible.add(next);
    try {
      await send();
    } catch (error) {
      if (isIndeterminate(error)) this.tally.indeterminate += 1;
      throw error;
    }
    this.tally.acknowledged += 1;
    possible.clear();
    possible.add(next);
  }

  /** What is there is one of the contents it may be, and from now on the only one: this loop is the key's only writer. */
  async #settle(at: number): Promise<void> {
    const possible = this.#model[at]!;
    const found = await this.#read(keyOf(at));
    if (!possible.has(found)) {
      this.tally.lost += 1;
      this.notes.push(
        `${new Date().toISOString()} ${keyOf(at)} is ${found.slice(0, 8)}, may be ${[...possible].map((one) => one.slice(0, 8)).join(" ")}`,
      );
    }
    possible.clear();
    possible.add(found);
  }

  async #read(Key: string): Promise<string> {
    try {
      const { Body } = await this.#s3.send(new GetObjectCommand({ Bucket: BUCKET, Key }));
      return hashOf(await Body!.transformToByteArray());
    } catch (error) {
      if (error instanceof NoSuchKey) return "";
      throw error;
    }
  }

  async #consistency(): Promise<void> {
    const admin = this.#grpc(this.#constellation.process(GATEWAY).plan.address, ObjectAdminService);
    const { operator } = this.#constellation.tokens;
    const giveUpAt = performance.now() + RECOVERY_MS;
    while (!(await admin.call("GetStatus", {}, operator)).recovered) {
      if (performance.now() > giveUpAt) throw new Error(`recovery has not ended after ${RECOVERY_MS / 1000} s`);
      await sleep(50);
    }
    // On engines and a busy machine one call's time is short for all that a collection removes; the next one goes on.
    await answered(() => admin.call("CollectGarbage", { aheadMs: BigInt(AHEAD_MS) }, operator));
    const found = await answered(() => admin.call("CheckConsistency", {}, operator));
    this.tally.leaked += found.leaked.length;
    this.tally.dangling += Number(found.danglingRefs);
    admin.close();
  }
}

/** Again while the call's time is too short. */
async function answered<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  const giveUpAt = performance.now() + JUDGE_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const isLate = (error as { readonly code?: unknown }).code === DEADLINE_EXCEEDED;
      if (!isLate || performance.now() > giveUpAt) throw error;
    }
  }
}

function keyOf(at: number): string {
  return `key/${at}`;
}
