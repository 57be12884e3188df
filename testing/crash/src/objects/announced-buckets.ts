// Buckets with versions, locks and rules, whose events go to a dedup-worker: the work on them, and what must be true of rows, bytes and events.
import { setTimeout as sleep } from "node:timers/promises";
import type { S3Client } from "@aws-sdk/client-s3";
import type { NodePlan, PlainGrpc } from "@concord/constellation";
import type { Tally } from "../subject.ts";
import { bucketLoads, LIFECYCLE_CONFIG, type BucketLoad } from "./bucket-loads.ts";
import { OutputReader } from "./output-reader.ts";
import type { Finding, VersionEvent } from "./version-ledger.ts";

const TARGET = { name: "events", tenant: "main" } as const;
const TARGET_ARN = `arn:aws:sqs::${TARGET.tenant}:${TARGET.name}`;
const RETRY_MS = 10;
/** What is on its way must have come by then: events behind a worker that starts, what rules remove on a busy machine. */
const QUIET_MS = 180_000;
const LOOK_MS = 100;
const NOTES_MAX = 10;

/** Of the gateway: where its events go, short days. */
export function announcingConfig(worker: NodePlan): object {
  return { ...LIFECYCLE_CONFIG, eventTargets: [{ ...TARGET, workers: [worker.address] }] };
}

export interface AnnouncedOptions {
  readonly s3: S3Client;
  readonly grpc: PlainGrpc;
  /** Address of the dedup-worker that the events go to. */
  readonly worker: string;
  readonly tally: Tally;
  readonly notes: string[];
}

interface S3Event {
  readonly Records?: readonly S3Record[];
}

interface S3Record {
  readonly eventName: string;
  readonly responseElements: { readonly "x-amz-request-id": string };
  readonly s3: {
    readonly bucket: { readonly name: string };
    readonly object: { readonly key: string; readonly eTag?: string; readonly versionId?: string };
  };
}

export class AnnouncedBuckets {
  readonly #options: AnnouncedOptions;
  readonly #loads: readonly BucketLoad[];
  readonly #output: OutputReader;
  readonly #ids = new Set<string>();

  constructor(options: AnnouncedOptions) {
    this.#options = options;
    const { s3, tally, grpc, worker } = options;
    this.#loads = bucketLoads({ s3, tally, target: TARGET_ARN, random: Math.random });
    this.#output = new OutputReader(worker, grpc);
  }

  async prepare(): Promise<void> {
    for (const load of this.#loads) await load.prepare();
  }

  async work(signal: AbortSignal): Promise<void> {
    const write = async (load: BucketLoad, writer: number): Promise<void> => {
      while (!signal.aborted) await load.change(writer).catch(() => sleep(RETRY_MS));
    };
    await Promise.all(this.#loads.flatMap((load) => Array.from({ length: load.writers }, (_, writer) => write(load, writer))));
  }

  /** While nothing writes; waits for events that are on their way and for what rules are to remove. */
  async judge(): Promise<void> {
    for (const load of this.#loads) await this.#judgeBucket(load);
  }

  async #judgeBucket({ bucket }: BucketLoad): Promise<void> {
    const endsAtMs = performance.now() + QUIET_MS;
    for (;;) {
      await this.#read();
      const listed = await bucket.list();
      const { findings, open } = bucket.ledger.judge(listed, bucket.fateOf);
      const isOver = performance.now() > endsAtMs;
      if (findings.length === 0 && open.length > 0 && !isOver) {
        await sleep(LOOK_MS);
        continue;
      }
      const late = open.map((text): Finding => ({ kind: "lost", text: `${bucket.name}: ${text}, ${QUIET_MS / 1000} s after the load` }));
      const { wrong, gone } = await bucket.verify(listed);
      this.#report(wrong.map((text): Finding => ({ kind: "lost", text })));
      // Removed since it was listed: a newer list has it no more, or else it is lost.
      if (gone.length > 0 && !isOver) {
        await sleep(LOOK_MS);
        continue;
      }
      const unread = gone.map((name): Finding => ({ kind: "lost", text: `${bucket.name}: ${name} is listed and cannot be read` }));
      this.#report([...findings, ...unread, ...(isOver ? late : [])]);
      bucket.ledger.decide(listed, bucket.fateOf);
      return;
    }
  }

  /** An id that comes out again, at whatever offset, was delivered twice. */
  async #read(): Promise<void> {
    this.#options.tally.lost += await this.#output.read({
      TOPIC_OUTPUT: ({ id, value }) => {
        if (this.#ids.has(id)) this.#report([{ kind: "duplicated", text: `event ${id}` }]);
        this.#ids.add(id);
        for (const record of (JSON.parse(Buffer.from(value).toString()) as S3Event).Records ?? []) this.#came(record);
      },
    });
  }

  #came({ eventName: name, responseElements, s3 }: S3Record): void {
    const { key, versionId: id = "null", eTag } = s3.object;
    const etag = name.startsWith("ObjectCreated:") ? eTag : undefined;
    const requestId = responseElements["x-amz-request-id"];
    const event: VersionEvent = { name, key: decodeURIComponent(key.replaceAll("+", "%20")), id, etag, requestId };
    this.#loads.find(({ bucket }) => bucket.name === s3.bucket.name)?.bucket.ledger.came(event);
  }

  #report(findings: readonly Finding[]): void {
    const { tally, notes } = this.#options;
    for (const { kind } of findings) tally[kind] += 1;
    notes.push(...findings.slice(0, NOTES_MAX).map(({ kind, text }) => `${kind}: ${text}`));
  }
}
