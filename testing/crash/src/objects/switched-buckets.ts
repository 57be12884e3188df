// Buckets whose versioning is suspended and enabled again and again: the work on them, and what must be true of every version.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  NoSuchKey,
  PutBucketVersioningCommand,
  PutObjectCommand,
  UploadPartCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import type { Tally } from "../subject.ts";
import { type Answered, LoggedBucket } from "./bucket.ts";
import { KeyHistory, NULL_ID, type KeyChange, type KeyVersion } from "./key-history.ts";

const BUCKETS = 6;
/** Few, so that the changes of a short run meet on one. */
const KEYS = 2;
/** Share of the changes. */
const SWITCHES = 0.15;
const RETRY_MS = 10;
/** Of a key; above it versions are removed more often than made. */
const VERSIONS_MAX = 8;

export interface SwitchedOptions {
  readonly s3: S3Client;
  readonly tally: Tally;
  readonly notes: string[];
  readonly random: () => number;
}

interface Written extends Answered {
  readonly VersionId?: string | undefined;
}

export class SwitchedBuckets {
  readonly #buckets: readonly SwitchedBucket[];

  constructor(options: SwitchedOptions) {
    this.#buckets = Array.from({ length: BUCKETS }, (_, at) => new SwitchedBucket(`crash-switched-${at}`, options));
  }

  async prepare(): Promise<void> {
    for (const bucket of this.#buckets) await bucket.prepare();
  }

  async work(signal: AbortSignal): Promise<void> {
    const write = async (bucket: SwitchedBucket): Promise<void> => {
      while (!signal.aborted) await bucket.change().catch(() => sleep(RETRY_MS));
    };
    await Promise.all(this.#buckets.map(write));
  }

  /** While nothing writes. */
  async judge(): Promise<void> {
    for (const bucket of this.#buckets) await bucket.judge();
  }
}

/** Has one writer, which alone knows whether versions are made: a switch is answered before anything else is sent. */
class SwitchedBucket {
  readonly #options: SwitchedOptions;
  readonly #bucket: LoggedBucket;
  readonly #keys = Array.from({ length: KEYS }, (_, at) => ({ key: `switched/${at}`, history: new KeyHistory() }));
  #withVersions = true;
  #switching = false;

  constructor(name: string, options: SwitchedOptions) {
    this.#options = options;
    this.#bucket = new LoggedBucket(name, { ...options, fateOf: () => "kept" });
  }

  async prepare(): Promise<void> {
    await this.#options.s3.send(new CreateBucketCommand({ Bucket: this.#bucket.name }));
    await this.#setVersioning("Enabled");
  }

  /** What has no answer from before is settled first. */
  async change(): Promise<void> {
    const { random } = this.#options;
    if (this.#switching || random() < SWITCHES) return this.#switch();
    const { key, history } = this.#keys[Math.floor(random() * KEYS)]!;
    if (!history.isSettled) await this.#settle(key, history);
    const { known } = history;
    const dice = random() * (known.length > VERSIONS_MAX ? 0.5 : 1);
    const one = known[Math.floor(random() * known.length)];
    if (dice < 0.25 && one !== undefined) await this.#remove(key, history, one);
    else if (dice < 0.4) await this.#hide(key, history);
    else if (dice < 0.5) await this.#upload(key, history);
    else if (dice < 0.6 && one?.etag !== undefined && !one.etag.includes("-")) await this.#copy(key, history, one);
    else await this.#put(key, history);
  }

  async judge(): Promise<void> {
    for (const { key, history } of this.#keys) {
      await this.#settle(key, history);
      await this.#checkCurrent(key, history.known[0]);
    }
    const { wrong, gone } = await this.#bucket.verify(await this.#bucket.list());
    for (const text of [...wrong, ...gone.map((name) => `${this.#bucket.name}: ${name} is listed and cannot be read`)]) this.#lost(text);
  }

  async #switch(): Promise<void> {
    this.#switching = true;
    await this.#setVersioning(this.#withVersions ? "Suspended" : "Enabled");
    this.#withVersions = !this.#withVersions;
    this.#switching = false;
  }

  async #setVersioning(Status: "Enabled" | "Suspended"): Promise<void> {
    await this.#options.s3.send(new PutBucketVersioningCommand({ Bucket: this.#bucket.name, VersioningConfiguration: { Status } }));
  }

  async #put(Key: string, history: KeyHistory): Promise<void> {
    const { Body, etag } = this.#bucket.body();
    await this.#write(history, etag, (Bucket) => this.#options.s3.send(new PutObjectCommand({ Bucket, Key, Body })));
  }

  async #hide(Key: string, history: KeyHistory): Promise<void> {
    await this.#write(history, undefined, (Bucket) => this.#options.s3.send(new DeleteObjectCommand({ Bucket, Key })));
  }

  async #copy(Key: string, history: KeyHistory, { id, etag }: KeyVersion): Promise<void> {
    const CopySource = `${this.#bucket.name}/${Key}?versionId=${id}`;
    await this.#write(history, etag, (Bucket) => this.#options.s3.send(new CopyObjectCommand({ Bucket, Key, CopySource })));
  }

  async #upload(Key: string, history: KeyHistory): Promise<void> {
    const { s3 } = this.#options;
    const { Body, etag: md5 } = this.#bucket.body();
    const named = { Bucket: this.#bucket.name, Key };
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(named));
    const { ETag } = await s3.send(new UploadPartCommand({ ...named, UploadId, PartNumber: 1, Body }));
    const complete = new CompleteMultipartUploadCommand({ ...named, UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } });
    const etag = `${createHash("md5").update(Buffer.from(md5, "hex")).digest("hex")}-1`;
    await this.#write(history, etag, () => s3.send(complete));
  }

  async #remove(Key: string, history: KeyHistory, { id }: KeyVersion): Promise<void> {
    const removal = new DeleteObjectCommand({ Bucket: this.#bucket.name, Key, VersionId: id });
    await this.#send(history, { kind: "removed", id }, () => this.#options.s3.send(removal));
    history.answered(id);
  }

  async #write(history: KeyHistory, etag: string | undefined, send: (bucket: string) => Promise<Written>): Promise<void> {
    const change: KeyChange = { kind: "written", etag, withVersions: this.#withVersions };
    const { VersionId: id = "none" } = await this.#send(history, change, () => send(this.#bucket.name));
    if (id === "none" || (id === NULL_ID) === this.#withVersions) this.#lost(`${this.#bucket.name}: version ${id} was answered`);
    history.answered(id);
  }

  async #send<Answer extends Answered>(history: KeyHistory, change: KeyChange, send: () => Promise<Answer>): Promise<Answer> {
    history.sent(change);
    return await this.#bucket.send(`${change.kind} in ${this.#bucket.name}`, send);
  }

  async #settle(key: string, history: KeyHistory): Promise<void> {
    const wrong = history.settle(await this.#bucket.list(key));
    if (wrong !== undefined) this.#lost(`${this.#bucket.name}: ${key} has ${wrong}`);
  }

  /** What a read without an id serves: the newest version, none where that is a delete marker. */
  async #checkCurrent(key: string, newest: KeyVersion | undefined): Promise<void> {
    const found = await this.#current(key);
    if (found !== newest?.etag) this.#lost(`${this.#bucket.name}: ${key} is served as ${found}, its newest version has ${newest?.etag}`);
  }

  async #current(Key: string): Promise<string | undefined> {
    try {
      const { ETag } = await this.#options.s3.send(new HeadObjectCommand({ Bucket: this.#bucket.name, Key }));
      return ETag!.replaceAll('"', "");
    } catch (error) {
      if (error instanceof NoSuchKey || (error as Partial<Error>).name === "NotFound") return undefined;
      throw error;
    }
  }

  #lost(text: string): void {
    this.#options.tally.lost += 1;
    this.#options.notes.push(text);
  }
}
