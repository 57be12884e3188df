// Objects uploaded in parts into a bucket that keeps versions: parts replaced, uploads aborted, each end repeated until it is answered.
import { createHash, randomBytes } from "node:crypto";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  NoSuchUpload,
  UploadPartCommand,
  type CompletedPart,
  type S3Client,
} from "@aws-sdk/client-s3";
import { unreachable } from "@concord/runtime";
import { type Answered, type LoggedBucket, PART_BYTES } from "./bucket.ts";

const KIB = 1024;
/** Of the last part: one block of a blob, several. */
const SIZES = [200, 40 * KIB];
/** One upload in so many has two parts. */
const TWO_PARTS_EVERY = 20;
/** One upload in so many has a part that is sent twice. */
const REPLACED_EVERY = 3;

interface Upload {
  readonly Bucket: string;
  readonly Key: string;
  readonly UploadId: string;
}

interface Sent {
  readonly etag: string;
  readonly Parts: readonly CompletedPart[];
}

/** An upload of which the end was sent, and not answered; `sent` of one that is aborted: all its parts, where they came. */
type Ending =
  | { readonly kind: "completing"; readonly upload: Upload; readonly sent: Sent }
  | { readonly kind: "aborting"; readonly upload: Upload; readonly sent: Sent | undefined };

const md5 = (bytes: Uint8Array): Buffer => createHash("md5").update(bytes).digest();

/** One key's, which has no other writer: nothing else is done to the key before an end is answered. */
export class PartUploads {
  readonly #bucket: LoggedBucket;
  readonly #s3: S3Client;
  readonly #key: string;
  #ending: Ending | undefined;
  #uploads = 0;

  constructor(bucket: LoggedBucket, s3: S3Client, key: string) {
    this.#bucket = bucket;
    this.#s3 = s3;
    this.#key = key;
  }

  /** What has no answer from before is ended first, and nothing else then. */
  async complete(): Promise<void> {
    if (this.#ending !== undefined) return this.#resolve();
    const upload = await this.#begin();
    const sent = await this.#parts(upload);
    this.#bucket.ledger.sent(this.#key, sent.etag);
    this.#ending = { kind: "completing", upload, sent };
    await this.#resolve();
  }

  /** Of a version that was made, by its id. */
  async remove(): Promise<void> {
    if (this.#ending !== undefined) return this.#resolve();
    const kept = this.#bucket.ledger.kept(this.#key);
    if (kept.length > 0) await this.#bucket.remove(kept[this.#uploads % kept.length]!);
  }

  async abort(): Promise<void> {
    if (this.#ending !== undefined) return this.#resolve();
    const upload = await this.#begin();
    const sent = await this.#parts(upload);
    this.#ending = { kind: "aborting", upload, sent };
    await this.#resolve();
  }

  async #resolve(): Promise<void> {
    const ending = this.#ending;
    if (ending === undefined) return;
    switch (ending.kind) {
      case "completing":
        await this.#completed(ending.upload, ending.sent);
        break;
      case "aborting":
        await this.#aborted(ending.upload, ending.sent);
        break;
      default:
        unreachable(ending);
    }
    this.#ending = undefined;
  }

  /** To be aborted as long as its parts are not there. */
  async #begin(): Promise<Upload> {
    const named = { Bucket: this.#bucket.name, Key: this.#key };
    const { UploadId } = await this.#s3.send(new CreateMultipartUploadCommand(named));
    const upload = { ...named, UploadId: UploadId! };
    this.#ending = { kind: "aborting", upload, sent: undefined };
    this.#uploads += 1;
    return upload;
  }

  async #parts(upload: Upload): Promise<Sent> {
    const last = randomBytes(SIZES[this.#uploads % SIZES.length]!);
    const bodies = this.#uploads % TWO_PARTS_EVERY === 0 ? [randomBytes(PART_BYTES), last] : [last];
    if (this.#uploads % REPLACED_EVERY === 0) await this.#part(upload, bodies.length, randomBytes(SIZES[0]!));
    const Parts: CompletedPart[] = [];
    for (const [at, body] of bodies.entries()) Parts.push(await this.#part(upload, at + 1, body));
    return { Parts, etag: `${md5(Buffer.concat(bodies.map(md5))).toString("hex")}-${bodies.length}` };
  }

  async #part(upload: Upload, PartNumber: number, Body: Uint8Array): Promise<CompletedPart> {
    const { ETag } = await this.#s3.send(new UploadPartCommand({ ...upload, PartNumber, Body }));
    return { PartNumber, ETag: ETag! };
  }

  /** One version comes of it, however often it is completed: each answer names the same. */
  async #completed(upload: Upload, { etag, Parts }: Sent): Promise<void> {
    const first = await this.#complete(upload, Parts);
    const again = await this.#complete(upload, Parts);
    const found = (await this.#bucket.list(this.#key)).filter((version) => version.etag === etag).map(({ id }) => id);
    // A clock that stepped, or the judge's collection, may have forgotten the upload: then the version is there.
    const answers = [first, again].filter((id) => id !== undefined);
    if (found.length !== 1 || answers.some((id) => id !== found[0]))
      this.#bucket.wrong(`${this.#key}: upload ${upload.UploadId} was answered ${answers.join(", ")}, and made ${found.join(", ")}`);
    if (found[0] !== undefined) this.#bucket.ledger.acknowledged({ key: this.#key, id: found[0], etag }, "kept");
  }

  /** undefined: there is no such upload. */
  async #complete(upload: Upload, Parts: readonly CompletedPart[]): Promise<string | undefined> {
    const complete = new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: [...Parts] } });
    return (await this.#known(`a completion of ${this.#key}`, () => this.#s3.send(complete)))?.VersionId;
  }

  /** Completed afterwards it is unknown, and nothing came of it. */
  async #aborted(upload: Upload, sent: Sent | undefined): Promise<void> {
    await this.#known(`an abort of ${this.#key}`, () => this.#s3.send(new AbortMultipartUploadCommand(upload)));
    if (sent === undefined) return;
    const id = await this.#complete(upload, sent.Parts);
    if (id !== undefined) this.#bucket.wrong(`${this.#key}: upload ${upload.UploadId} was aborted, and completed as ${id}`);
  }

  async #known<Answer extends Answered>(what: string, send: () => Promise<Answer>): Promise<Answer | undefined> {
    try {
      return await this.#bucket.send(what, send);
    } catch (error) {
      if (error instanceof NoSuchUpload) return undefined;
      throw error;
    }
  }
}
