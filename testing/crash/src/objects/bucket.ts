// One bucket of which every change is written down: what clients sent, what was answered, what is there.
import { createHash, randomBytes } from "node:crypto";
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandOutput,
  PutObjectCommand,
  type PutObjectCommandInput,
  type S3Client,
} from "@aws-sdk/client-s3";
import { isIndeterminate } from "@concord/constellation";
import type { Tally } from "../subject.ts";
import { type Fate, type ListedVersion, VersionLedger, type VersionName } from "./version-ledger.ts";

const KIB = 1024;
/** In the row, one block of a blob, several blocks. */
const SIZES = [200, 16 * KIB + 1, 90 * KIB];
const READERS = 8;
/** Answers to a read of what is not there. */
const GONE = new Set(["NoSuchVersion", "NoSuchKey"]);
/** Of all parts of an object but the last: what S3 demands of them. */
export const PART_BYTES = 5 * KIB * KIB;

const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");

/** Of an object in parts, of which only the last is short: the digest of the digests. */
function etagLike(etag: string, body: Uint8Array): string {
  const count = Number(etag.split("-")[1] ?? 0);
  if (count === 0) return md5(body);
  const parts = Array.from({ length: count }, (_, at) =>
    body.subarray(at * PART_BYTES, at === count - 1 ? body.length : (at + 1) * PART_BYTES),
  );
  return `${md5(Buffer.concat(parts.map((part) => Buffer.from(md5(part), "hex"))))}-${count}`;
}

export interface Answered {
  readonly $metadata: { readonly httpStatusCode?: number; readonly requestId?: string };
}

export class LoggedBucket {
  readonly name: string;
  readonly ledger: VersionLedger;
  /** Of versions that only the listing knows, too. */
  readonly fateOf: (key: string) => Fate;
  readonly #s3: S3Client;
  readonly #tally: Tally;
  #puts = 0;
  #wrong: string[] = [];

  constructor(name: string, { s3, tally, fateOf }: { s3: S3Client; tally: Tally; fateOf: (key: string) => Fate }) {
    this.name = name;
    this.ledger = new VersionLedger(name);
    this.fateOf = fateOf;
    this.#s3 = s3;
    this.#tally = tally;
  }

  async put(Key: string, fate: Fate, more: Partial<PutObjectCommandInput> = {}): Promise<VersionName> {
    const { Body, etag } = this.body();
    this.ledger.sent(Key, etag);
    const { VersionId = "null" } = await this.send(`a put of ${Key}`, () =>
      this.#s3.send(new PutObjectCommand({ ...more, Bucket: this.name, Key, Body })),
    );
    const name = { key: Key, id: VersionId };
    this.ledger.acknowledged({ ...name, etag }, fate);
    return name;
  }

  /** Of sizes in turn, and the ETag of an object that has it. */
  body(): { readonly Body: Uint8Array; readonly etag: string } {
    this.#puts += 1;
    const Body = randomBytes(SIZES[this.#puts % SIZES.length]!);
    return { Body, etag: md5(Body) };
  }

  /** A delete marker. */
  async hide(Key: string, fate: Fate): Promise<void> {
    const { VersionId } = await this.send(`a delete of ${Key}`, () => this.#s3.send(new DeleteObjectCommand({ Bucket: this.name, Key })));
    this.ledger.acknowledged({ key: Key, id: VersionId!, etag: undefined }, fate);
  }

  async remove(name: VersionName, more: { readonly BypassGovernanceRetention?: boolean } = {}): Promise<void> {
    this.ledger.removing(name);
    const removal = new DeleteObjectCommand({ ...more, Bucket: this.name, Key: name.key, VersionId: name.id });
    await this.send(`a removal of ${name.key}`, () => this.#s3.send(removal));
    this.ledger.removed(name);
  }

  /** What locks forbid: done all the same, it is lost. An error that is no refusal says nothing. */
  async forbidden(what: string, send: () => Promise<Answered>): Promise<void> {
    try {
      await this.send(what, send);
    } catch (error) {
      const { httpStatusCode } = (error as Partial<Answered>).$metadata ?? {};
      if (httpStatusCode === 403) return;
      throw error;
    }
    this.#tally.lost += 1;
  }

  /** What was answered and must not be; told with the next judgement. */
  wrong(text: string): void {
    this.#wrong.push(`${this.name}: ${text}`);
  }

  /** Newest of a key first; delete markers behind all objects. */
  async list(Prefix = ""): Promise<readonly ListedVersion[]> {
    const objects: ListedVersion[] = [];
    const markers: ListedVersion[] = [];
    let place: { readonly KeyMarker?: string | undefined; readonly VersionIdMarker?: string | undefined } | undefined = {};
    while (place !== undefined) {
      const page: ListObjectVersionsCommandOutput = await this.#s3.send(
        new ListObjectVersionsCommand({ Bucket: this.name, Prefix, ...place }),
      );
      for (const { Key, VersionId, ETag } of page.Versions ?? [])
        objects.push({ key: Key!, id: VersionId!, etag: ETag!.replaceAll('"', "") });
      for (const { Key, VersionId } of page.DeleteMarkers ?? []) markers.push({ key: Key!, id: VersionId!, etag: undefined });
      const { IsTruncated, NextKeyMarker: KeyMarker, NextVersionIdMarker: VersionIdMarker } = page;
      place = IsTruncated === true ? { KeyMarker, VersionIdMarker } : undefined;
    }
    return [...objects, ...markers];
  }

  /**
   * Every version byte by byte. `wrong`: in words. `gone`: not there any more; a rule may have removed them since they were listed, which a
   * judgement of a newer list says.
   */
  async verify(listed: readonly ListedVersion[]): Promise<{ readonly wrong: readonly string[]; readonly gone: readonly string[] }> {
    const wrong = this.#wrong;
    this.#wrong = [];
    const gone: string[] = [];
    const waiting = listed.filter(({ etag }) => etag !== undefined).values();
    const read = async (): Promise<void> => {
      for (const { key, id, etag } of waiting) {
        const body = await this.#bytes({ key, id });
        const found = body === undefined ? undefined : etagLike(etag!, body);
        if (found === undefined) gone.push(`${key}?versionId=${id}`);
        else if (found !== etag) wrong.push(`${this.name}: ${key}?versionId=${id} has bytes of ${found}, not ${etag}`);
      }
    };
    await Promise.all(Array.from({ length: READERS }, read));
    return { wrong, gone };
  }

  async #bytes({ key, id }: VersionName): Promise<Uint8Array | undefined> {
    try {
      const { Body } = await this.#s3.send(new GetObjectCommand({ Bucket: this.name, Key: key, VersionId: id }));
      return await Body!.transformToByteArray();
    } catch (error) {
      if (GONE.has((error as Partial<Error>).name ?? "")) return undefined;
      throw error;
    }
  }

  /** Counted; what was refused must not be announced. */
  async send<Answer extends Answered>(what: string, send: () => Promise<Answer>): Promise<Answer> {
    try {
      const answer = await send();
      this.#tally.acknowledged += 1;
      return answer;
    } catch (error) {
      const { httpStatusCode = 0, requestId } = (error as Partial<Answered>).$metadata ?? {};
      if (requestId !== undefined && httpStatusCode >= 400 && httpStatusCode < 500) this.ledger.refused(requestId, what);
      if (isIndeterminate(error)) this.#tally.indeterminate += 1;
      throw error;
    }
  }
}
