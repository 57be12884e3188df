// Downloads of a large object that read slowly, or ask for it and read nothing, while the gateway is killed.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { type Constellation, s3Client } from "@concord/constellation";
import { HOLD_MS, type SlowReaders, type Tally } from "../subject.ts";

const KEY = "slow";
/** More than the kernel keeps of a connection on both sides. */
const BYTES = 24 * 1024 * 1024;
const SLOW = 2;
/** In one life of three. */
const STUCK = 24;
const STUCK_EVERY = 3;
/** A slow one takes so long for each chunk. */
const SLOW_MS = 2;
const AGAIN_MS = 20;
/** One that reads nothing holds its answer for so long at most, if the gateway does not end it before. */
const HELD_MS = 30_000;

type Download = AsyncIterable<Uint8Array> & { on(event: "error" | "close", listener: () => void): unknown; destroy(): void };

export interface DownloadsOptions {
  readonly constellation: Pick<Constellation, "s3Endpoints" | "tokens">;
  readonly bucket: string;
  readonly tally: Tally;
  readonly notes: string[];
}

export class Downloads implements SlowReaders {
  readonly #options: DownloadsOptions;
  readonly #s3: S3Client;
  readonly #bytes = randomBytes(BYTES);
  readonly #open = new Set<Download>();
  #lives = 0;
  #whole = 0;
  #brokenOff = 0;
  #held = 0;
  #heldMost = 0;

  constructor(options: DownloadsOptions) {
    this.#options = options;
    const { s3Endpoints, tokens } = options.constellation;
    this.#s3 = s3Client(s3Endpoints[0]!, tokens.accessKeys[0]!, 1, SLOW + STUCK);
  }

  async prepare(): Promise<void> {
    await this.#s3.send(new PutObjectCommand({ Bucket: this.#options.bucket, Key: KEY, Body: this.#bytes }));
  }

  async work(signal: AbortSignal): Promise<void> {
    this.#lives += 1;
    const stuck = this.#lives % STUCK_EVERY === 0 ? STUCK : 0;
    signal.addEventListener("abort", () => this.#open.forEach((body) => body.destroy()), { once: true });
    await Promise.all([...each(SLOW, signal, () => this.#slow(signal)), ...each(stuck, signal, () => this.#stuck(signal))]);
  }

  async hold(): Promise<void> {
    const stopping = new AbortController();
    const held = each(STUCK, stopping.signal, () => this.#stuck(stopping.signal));
    await sleep(HOLD_MS);
    stopping.abort();
    this.#open.forEach((body) => body.destroy());
    await Promise.all(held);
  }

  describe(): string {
    return `${SLOW} slow downloads: ${this.#whole} whole, ${this.#brokenOff} broken off, each byte compared; at most ${this.#heldMost} read nothing`;
  }

  close(): void {
    this.#s3.destroy();
  }

  async #slow(signal: AbortSignal): Promise<void> {
    const body = await this.#get(signal);
    if (await this.compare(body, () => sleep(SLOW_MS))) this.#whole += 1;
    else this.#brokenOff += 1;
  }

  /** False: it was broken off, which the client sees. For tests, too. */
  async compare(body: AsyncIterable<Uint8Array>, pause: () => Promise<unknown>): Promise<boolean> {
    let at = 0;
    try {
      for await (const chunk of body) {
        if (!this.#bytes.subarray(at, at + chunk.length).equals(chunk))
          return this.#wrong("dirty", `other bytes than were stored at ${at}`);
        at += chunk.length;
        await pause();
      }
    } catch {
      return false;
    }
    if (at < BYTES) return this.#wrong("lost", `an answer of ${at} of ${BYTES} bytes that ended well`);
    return true;
  }

  /** The object as it was stored. */
  get stored(): Uint8Array {
    return this.#bytes;
  }

  async #stuck(signal: AbortSignal): Promise<void> {
    const body = await this.#get(signal);
    this.#held += 1;
    this.#heldMost = Math.max(this.#heldMost, this.#held);
    const ended = new Promise<void>((resolve) => {
      body.on("error", resolve);
      body.on("close", resolve);
    });
    await Promise.race([ended, sleep(HELD_MS, undefined, { signal, ref: false }).catch(() => undefined)]);
    body.destroy();
    this.#held -= 1;
  }

  async #get(signal: AbortSignal): Promise<Download> {
    const { Body } = await this.#s3.send(new GetObjectCommand({ Bucket: this.#options.bucket, Key: KEY }), { abortSignal: signal });
    const body = Body as unknown as Download;
    this.#open.add(body);
    body.on("error", () => undefined);
    body.on("close", () => this.#open.delete(body));
    if (signal.aborted) body.destroy();
    return body;
  }

  #wrong(kind: "lost" | "dirty", text: string): false {
    const { tally, notes } = this.#options;
    tally[kind] += 1;
    notes.push(`slow download: ${text}`);
    return false;
  }
}

function each(count: number, signal: AbortSignal, download: () => Promise<void>): readonly Promise<void>[] {
  return Array.from({ length: count }, async () => {
    while (!signal.aborted) await download().catch(() => sleep(AGAIN_MS));
  });
}
