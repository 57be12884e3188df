// Objects and messages written all the time at nodes that die, wake and return, and the check that what was answered is there, each message once,
// and nothing leaks or dangles.
import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import type { ConcordClient } from "@concord/client";
import { ObjectAdminService } from "@concord/protos-object";
import { s3Client } from "./clients/s3.ts";
import type { Constellation } from "./constellation.ts";
import { objectAdmin } from "./object-admin.ts";
import { until } from "./until.ts";

const { CheckConsistency, CollectGarbage, GetStatus } = ObjectAdminService.methods;

const BUCKET = "nodes";
const AHEAD_MS = 30n * 24n * 3_600_000n;
const PRODUCERS = 3;
const BATCH = 20;
/** Of the batch before, sent again. */
const REPEATED = 5;
const SIZES = [300, 40_000, 200_000];
const PUT_TIMEOUT_MS = 10_000;
/** Reads and CreateBucket: a busy machine answers late, a dead node never. */
const READ_TIMEOUT_MS = 60_000;
const RETRY_MS = 50;

export interface ObjectMessageOptions {
  readonly constellation: Constellation;
  /** Connected to the dedup-workers. */
  readonly db: ConcordClient;
  /** Pause of a writer between two requests, milliseconds. */
  readonly pauseMs: number;
}

export class ObjectMessageLoad {
  /** Hashes by key, of what was answered. */
  readonly #objects = new Map<string, string>();
  /** Ids of the messages that were answered. */
  readonly #messages = new Set<string>();
  readonly #options: ObjectMessageOptions;
  readonly #gateways: readonly S3Client[];
  readonly #stopping = new AbortController();
  readonly #closing = new AbortController();
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(options: ObjectMessageOptions) {
    const { s3Endpoints, tokens } = options.constellation;
    this.#options = options;
    this.#gateways = s3Endpoints.map((endpoint) => s3Client(endpoint, tokens.accessKeys[0]!, 1));
  }

  static async start(options: ObjectMessageOptions): Promise<ObjectMessageLoad> {
    const load = new ObjectMessageLoad(options);
    await load.#gateways[0]!.send(new CreateBucketCommand({ Bucket: BUCKET }), { abortSignal: load.#within(READ_TIMEOUT_MS) });
    const producers = Array.from({ length: PRODUCERS }, (_, at) => load.#ingest(at));
    load.#ended = Promise.all([...load.#gateways.map((gateway, at) => load.#put(gateway, at)), ...producers]);
    return load;
  }

  get objects(): number {
    return this.#objects.size;
  }

  get messages(): number {
    return this.#messages.size;
  }

  /** Resolves when each request under way has its answer or its time is up. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  /** What is wrong; undefined: nothing. After the stop, with all nodes up. */
  async check(): Promise<string | undefined> {
    return (await this.#checkMessages()) ?? (await this.#checkObjects()) ?? (await this.#checkBlobs());
  }

  /** Ends the load also when the test failed before its stop. Without nodes no request is answered, so those under way are aborted. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#closing.abort();
    for (const gateway of this.#gateways) gateway.destroy();
    await this.#ended;
  }

  /** New keys only: what was answered must be there. */
  async #put(gateway: S3Client, at: number): Promise<void> {
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const Key = `${at}/${n}`;
      const Body = randomBytes(SIZES[n % SIZES.length]!);
      await gateway
        .send(new PutObjectCommand({ Bucket: BUCKET, Key, Body }), { abortSignal: this.#within(PUT_TIMEOUT_MS) })
        .then(() => this.#objects.set(Key, hashOf(Body)))
        .catch(() => sleep(RETRY_MS));
      await sleep(this.#options.pauseMs);
    }
  }

  #within(timeoutMs: number): AbortSignal {
    return AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#closing.signal]);
  }

  /** Each batch has the newest messages of the one before again. */
  async #ingest(at: number): Promise<void> {
    const { messages } = this.#options.db;
    let before: string[] = [];
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const fresh = Array.from({ length: BATCH }, (_, one) => `m-${at}-${n}-${one}`);
      const ids = [...before.slice(-REPEATED), ...fresh];
      await messages
        .ingest(ids.map((id) => ({ id, value: id })))
        .then((results) => results.forEach(({ id }) => this.#messages.add(id)))
        .catch(() => sleep(RETRY_MS));
      before = fresh;
      await sleep(this.#options.pauseMs);
    }
  }

  async #checkMessages(): Promise<string | undefined> {
    const { messages } = this.#options.db;
    const times = new Map<string, number>();
    const { partitions } = await messages.bounds(0);
    for (let partition = 0; partition < partitions; partition += 1) {
      for (let from = 0n; ;) {
        const page = await messages.read(partition, { from });
        for (const { id } of page.messages) times.set(id, (times.get(id) ?? 0) + 1);
        if (page.messages.length === 0) break;
        from = page.next;
      }
    }
    const doubled = [...times].find(([, count]) => count > 1);
    if (doubled !== undefined) return `message ${doubled[0]} came ${doubled[1]} times`;
    const lost = [...this.#messages].find((id) => !times.has(id));
    return lost === undefined ? undefined : `message ${lost} was acknowledged and is lost`;
  }

  async #checkObjects(): Promise<string | undefined> {
    const reader = this.#gateways.at(-1)!;
    for (const [Key, hash] of this.#objects) {
      const { Body } = await reader.send(new GetObjectCommand({ Bucket: BUCKET, Key }), { abortSignal: this.#within(READ_TIMEOUT_MS) });
      if (hashOf(await Body!.transformToByteArray()) !== hash) return `object ${Key} has other bytes than were acknowledged`;
    }
    return undefined;
  }

  /** No blob that no row names, no row without its blob. */
  async #checkBlobs(): Promise<string | undefined> {
    const admin = objectAdmin(this.#options.constellation);
    try {
      await until("recovery of epochs", async () => (await admin.call(GetStatus, {})).inDoubt === 0);
      await admin.call(CollectGarbage, { aheadMs: AHEAD_MS });
      const { leaked, dangling } = await admin.call(CheckConsistency, {});
      return leaked.length + dangling.length === 0 ? undefined : `${leaked.length} blobs leaked, ${dangling.length} rows dangle`;
    } finally {
      admin.close();
    }
  }
}

function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
