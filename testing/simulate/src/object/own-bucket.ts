// A bucket that one client makes, uses and removes: it alone knows what is in it, so each answer is exact. What others never do in the shared bucket: conditions,
// tags, ACLs, listings by pages, uploads that are listed and completed by parts, removals of many, the end of a bucket.
import { createHash } from "node:crypto";
import type { Environment } from "@concord/runtime";
import type { World } from "@concord/simulation";
import { md5 } from "./history.ts";
import { PART_BYTES_MIN } from "./limits.ts";
import { tagged, type S3Answer, type S3Request } from "./s3-client.ts";

/** In the row, and in a blob. */
const SIZES = [0, 500, 20_000];
const KEYS = ["a", "b/1", "b/2", "c"];
const PAST = "Sun, 01 Jan 2017 00:00:00 GMT";
const PAGES_MAX = 40;

export interface OwnBucketOptions {
  readonly world: World;
  readonly env: Environment;
  /** No other client uses it, and it is used once. */
  readonly bucket: string;
  /** Undefined: it is not known what became of it. */
  readonly send: (request: S3Request) => Promise<S3Answer | undefined>;
}

/** An answer that did not come: the bucket is left as it is. */
class Unanswered extends Error {}

type Asked = Omit<S3Request, "bucket">;

export async function useOwnBucket(options: OwnBucketOptions): Promise<void> {
  try {
    await new OwnBucket(options).use();
    options.world.count("object:own-buckets", 1);
  } catch (thrown) {
    if (!(thrown instanceof Unanswered)) throw thrown;
    options.world.count("object:own-buckets-left", 1);
  }
}

const sha256 = (body: Uint8Array): string => createHash("sha256").update(body).digest("base64");
const partOf = (number: number, body: Uint8Array): string =>
  `<Part><PartNumber>${number}</PartNumber><ETag>"${md5(body)}"</ETag><ChecksumSHA256>${sha256(body)}</ChecksumSHA256></Part>`;
const tagsOf = (value: string): Uint8Array =>
  Buffer.from(`<Tagging><TagSet><Tag><Key>is</Key><Value>${value}</Value></Tag></TagSet></Tagging>`);

class OwnBucket {
  readonly #options: OwnBucketOptions;
  readonly #isVersioned: boolean;
  readonly #stored = new Map<string, Uint8Array>();

  constructor(options: OwnBucketOptions) {
    this.#options = options;
    this.#isVersioned = options.env.random.below(2) === 0;
  }

  async use(): Promise<void> {
    const ownership = { "x-amz-object-ownership": "ObjectWriter" };
    await this.#ask({ method: "PUT", headers: ownership }, 200);
    await this.#ask({ method: "PUT", headers: ownership }, 200);
    await this.#ask({ method: "PUT", headers: { "x-amz-object-ownership": "BucketOwnerPreferred" } }, 409);
    await this.#ask({ method: "PUT", key: "k".repeat(1_025), body: Buffer.from("x") }, 400);
    const versioning = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    if (this.#isVersioned) await this.#ask({ method: "PUT", query: { versioning: "" }, body: Buffer.from(versioning) }, 200);
    await this.#describeBucket();
    for (const key of KEYS) await this.#put(key);
    await this.#put(KEYS[0]!);
    await this.#readByConditions(KEYS[0]!);
    await this.#writeByConditions(KEYS[1]!);
    await this.#describe(KEYS[2]!);
    await this.#upload("d/uploaded");
    await this.#uploadAndLeaveOut("d/without-a-part");
    await this.#list();
    await this.#remove();
  }

  /** `status`: what it must be. */
  async #ask(asked: Asked, status: number): Promise<S3Answer> {
    const { world, bucket, send } = this.#options;
    const answer = await send({ ...asked, bucket });
    if (answer === undefined || answer.status >= 500) throw new Unanswered();
    if (answer.status === status) return answer;
    const what = `${asked.method} ${bucket}/${asked.key?.slice(0, 20) ?? ""} ${JSON.stringify(asked.query ?? {})} ${JSON.stringify(asked.headers ?? {})}`;
    world.violation("own bucket", `${what}: ${answer.status} ${answer.code}, not ${status}`);
    throw new Unanswered();
  }

  #expect(isSo: boolean, text: string): void {
    if (!isSo) this.#options.world.violation("own bucket", `${this.#options.bucket}: ${text}`);
  }

  async #put(key: string): Promise<void> {
    const { random } = this.#options.env;
    const body = random.bytes(SIZES[random.below(SIZES.length)]!);
    await this.#ask({ method: "PUT", key, body }, 200);
    this.#stored.set(key, body);
  }

  async #readByConditions(key: string): Promise<void> {
    const body = this.#stored.get(key)!;
    const etag = `"${md5(body)}"`;
    const get = async (headers: Readonly<Record<string, string>>, status: number): Promise<void> => {
      const answer = await this.#ask({ method: "GET", key, headers }, status);
      if (status === 200) this.#expect(Buffer.compare(answer.body, body) === 0, `${key} has other bytes`);
    };
    await get({ "if-match": etag, "if-unmodified-since": PAST }, 200);
    await get({ "if-none-match": '"other"' }, 200);
    await get({ "if-none-match": etag }, 304);
    await get({ "if-match": '"other"' }, 412);
    await get({ "if-unmodified-since": PAST }, 412);
    await get({ "if-modified-since": PAST }, 200);
    await get({ range: `bytes=${body.length}-` }, 416);
    const source = { "x-amz-copy-source": `/${this.#options.bucket}/${key}` };
    const copy = { method: "PUT", key: "copied", headers: { ...source, "x-amz-copy-source-if-none-match": etag } } as const;
    await this.#ask(copy, 412);
    await this.#ask({ ...copy, headers: { ...source, "x-amz-copy-source-if-match": etag } }, 200);
    this.#stored.set("copied", body);
    await this.#ask({ method: "GET", key: "absent" }, 404);
  }

  async #writeByConditions(key: string): Promise<void> {
    const etag = `"${md5(this.#stored.get(key)!)}"`;
    const body = Buffer.from("by condition");
    await this.#ask({ method: "PUT", key, headers: { "if-match": '"other"' }, body }, 412);
    await this.#ask({ method: "PUT", key: "absent", headers: { "if-match": etag }, body }, 404);
    await this.#ask({ method: "PUT", key, headers: { "if-none-match": "*" }, body }, 412);
    await this.#ask({ method: "PUT", key, headers: { "if-match": etag }, body }, 200);
    this.#stored.set(key, body);
    await this.#ask({ method: "DELETE", key, headers: { "if-match": etag } }, 412);
    await this.#ask({ method: "DELETE", key, headers: { "if-match": `"${md5(body)}"` } }, 204);
    this.#stored.delete(key);
    await this.#ask({ method: "GET", key }, 404);
  }

  async #describeBucket(): Promise<void> {
    const shown = await this.#ask({ method: "GET", query: { versioning: "" } }, 200);
    this.#expect((tagged(shown.body, "Status")[0] === "Enabled") === this.#isVersioned, "the bucket has another versioning");
    const tagging = { query: { tagging: "" } };
    await this.#ask({ method: "GET", ...tagging }, 404);
    await this.#ask({ method: "PUT", ...tagging, body: tagsOf("own") }, 200);
    const { body } = await this.#ask({ method: "GET", ...tagging }, 200);
    this.#expect(tagged(body, "Value").join() === "own", `the bucket has the tags ${tagged(body, "Value").join()}`);
    await this.#ask({ method: "DELETE", ...tagging }, 204);
    await this.#ask({ method: "GET", ...tagging }, 404);
    this.#expect(await this.#isBucketListed(), "the bucket is not listed");
  }

  async #isBucketListed(): Promise<boolean> {
    const { bucket, send } = this.#options;
    const answer = await send({ method: "GET", bucket: "", query: { prefix: bucket } });
    if (answer?.status !== 200) throw new Unanswered();
    return tagged(answer.body, "Name").includes(bucket);
  }

  /** Tags, ACL and attributes of one object. */
  async #describe(key: string): Promise<void> {
    const tagging = { key, query: { tagging: "" } };
    await this.#ask({ method: "PUT", ...tagging, body: tagsOf("told") }, 200);
    const told = await this.#ask({ method: "GET", ...tagging }, 200);
    this.#expect(tagged(told.body, "Value").join() === "told", `${key} has the tags ${tagged(told.body, "Value").join()}`);
    await this.#ask({ method: "PUT", ...tagging, body: tagsOf("x".repeat(300)) }, 400);
    await this.#ask({ method: "DELETE", ...tagging }, 204);
    const none = await this.#ask({ method: "GET", ...tagging }, 200);
    this.#expect(tagged(none.body, "Value").length === 0, `${key} has tags`);
    await this.#ask({ method: "PUT", key, query: { acl: "" }, headers: { "x-amz-acl": "bucket-owner-full-control" } }, 200);
    const acl = await this.#ask({ method: "GET", key, query: { acl: "" } }, 200);
    this.#expect(tagged(acl.body, "Permission").includes("FULL_CONTROL"), `${key} has no grant`);
    const asked = { "x-amz-object-attributes": "ETag,ObjectSize,StorageClass" };
    const attributes = await this.#ask({ method: "GET", key, query: { attributes: "" }, headers: asked }, 200);
    this.#expect(tagged(attributes.body, "ObjectSize")[0] === String(this.#stored.get(key)!.length), `${key} has another size`);
  }

  /** Two uploads of one key, listed by pages; one ends as an object that is read by its parts, the other is aborted. */
  async #upload(key: string): Promise<void> {
    const ids: string[] = [];
    for (let at = 0; at < 2; at += 1) {
      const created = await this.#ask({ method: "POST", key, query: { uploads: "" } }, 200);
      ids.push(tagged(created.body, "UploadId")[0]!);
    }
    const uploadId = ids[0]!;
    const bodies = [PART_BYTES_MIN, PART_BYTES_MIN + 500, 700].map((size) => this.#options.env.random.bytes(size));
    for (const [at, body] of bodies.entries())
      await this.#ask({ method: "PUT", key, query: { partNumber: String(at + 1), uploadId }, body }, 200);
    await this.#ask({ method: "PUT", key, query: { partNumber: "1", uploadId: "absent" }, body: bodies[2]! }, 404);
    await this.#listUploads(key, ids, bodies);
    const parts = (...numbers: readonly number[]): Uint8Array => {
      const named = numbers.map(
        (number) => `<Part><PartNumber>${number}</PartNumber><ETag>"${md5(bodies[number - 1] ?? bodies[0]!)}"</ETag></Part>`,
      );
      return Buffer.from(`<CompleteMultipartUpload>${named.join("")}</CompleteMultipartUpload>`);
    };
    await this.#ask({ method: "POST", key, query: { uploadId }, body: parts(2, 1) }, 400);
    await this.#ask({ method: "POST", key, query: { uploadId }, body: parts(1, 4) }, 400);
    await this.#ask({ method: "POST", key, query: { uploadId }, body: parts(3, 1).subarray(0, 20) }, 400);
    await this.#ask({ method: "POST", key, query: { uploadId }, headers: { "if-match": '"other"' }, body: parts(1, 2, 3) }, 404);
    await this.#ask({ method: "POST", key, query: { uploadId }, headers: { "if-none-match": "*" }, body: parts(1, 2, 3) }, 200);
    await this.#ask({ method: "DELETE", key, query: { uploadId: ids[1]! } }, 204);
    const whole = Buffer.concat(bodies);
    this.#stored.set(key, whole);
    const second = await this.#ask({ method: "GET", key, query: { partNumber: "2" } }, 206);
    this.#expect(Buffer.compare(second.body, bodies[1]!) === 0, "part 2 has other bytes");
    const over = await this.#ask({ method: "GET", key, headers: { range: `bytes=${PART_BYTES_MIN - 10}-${whole.length - 5}` } }, 206);
    this.#expect(
      Buffer.compare(over.body, whole.subarray(PART_BYTES_MIN - 10, whole.length - 4)) === 0,
      "a range over parts has other bytes",
    );
  }

  /** The parts that a complete does not name are dropped; each part, and the whole where it is asked for, has a checksum. Repeated, it answers the same. */
  async #uploadAndLeaveOut(key: string): Promise<void> {
    const algorithm = { "x-amz-checksum-algorithm": "SHA256" };
    const created = await this.#ask({ method: "POST", key, query: { uploads: "" }, headers: algorithm }, 200);
    const uploadId = tagged(created.body, "UploadId")[0]!;
    const bodies = [PART_BYTES_MIN, 600, PART_BYTES_MIN + 1, 0, 800].map((size) => this.#options.env.random.bytes(size));
    for (const [at, body] of bodies.entries()) {
      const query = { partNumber: String(at + 1), uploadId };
      await this.#ask({ method: "PUT", key, query, headers: { "x-amz-checksum-sha256": sha256(body) }, body }, 200);
    }
    const named = [1, 3, 5];
    const body = Buffer.from(
      `<CompleteMultipartUpload>${named.map((number) => partOf(number, bodies[number - 1]!)).join("")}</CompleteMultipartUpload>`,
    );
    const done = await this.#ask({ method: "POST", key, query: { uploadId }, body }, 200);
    const again = await this.#ask({ method: "POST", key, query: { uploadId }, body }, 200);
    this.#expect(tagged(again.body, "ETag").join() === tagged(done.body, "ETag").join(), "a repeated complete has another ETag");
    const other = Buffer.from(`<CompleteMultipartUpload>${partOf(1, bodies[0]!)}</CompleteMultipartUpload>`);
    await this.#ask({ method: "POST", key, query: { uploadId }, body: other }, 404);
    const stored = named.map((number) => bodies[number - 1]!);
    const whole = Buffer.concat(stored);
    this.#stored.set(key, whole);
    const read = await this.#ask({ method: "GET", key }, 200);
    this.#expect(Buffer.compare(read.body, whole) === 0, "an upload without some of its parts has other bytes");
    await this.#ask({ method: "GET", key, query: { partNumber: "4" } }, 416);
    await this.#readParts(key, stored);
  }

  /** By pages of two. */
  async #readParts(key: string, stored: readonly Uint8Array[]): Promise<void> {
    const asked = { "x-amz-object-attributes": "ObjectParts", "x-amz-max-parts": "2" };
    const sums: string[] = [];
    const get = { method: "GET", key, query: { attributes: "" } } as const;
    for (const marker of ["0", "3"]) {
      const { body } = await this.#ask({ ...get, headers: { ...asked, "x-amz-part-number-marker": marker } }, 200);
      sums.push(...tagged(body, "ChecksumSHA256"));
    }
    this.#expect(sums.join() === stored.map(sha256).join(), `parts have the checksums ${sums.join()}`);
  }

  async #listUploads(key: string, ids: readonly string[], bodies: readonly Uint8Array[]): Promise<void> {
    const seen: string[] = [];
    let markers: Readonly<Record<string, string>> = {};
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const { body } = await this.#ask({ method: "GET", query: { uploads: "", "max-uploads": "1", ...markers } }, 200);
      seen.push(...tagged(body, "UploadId"));
      if (tagged(body, "IsTruncated")[0] !== "true") break;
      markers = { "key-marker": tagged(body, "NextKeyMarker")[0]!, "upload-id-marker": tagged(body, "NextUploadIdMarker")[0]! };
    }
    this.#expect(seen.toSorted().join() === ids.toSorted().join(), `uploads ${seen.join()} are listed, not ${ids.join()}`);
    const folded = await this.#ask({ method: "GET", query: { uploads: "", delimiter: "/", prefix: "d" } }, 200);
    this.#expect(tagged(folded.body, "UploadId").length === 0, "an upload is listed beside its prefix");
    const query = { uploadId: ids[0]!, "max-parts": "2" };
    const first = await this.#ask({ method: "GET", key, query }, 200);
    const rest = await this.#ask({ method: "GET", key, query: { ...query, "part-number-marker": "2" } }, 200);
    const etags = [...tagged(first.body, "ETag"), ...tagged(rest.body, "ETag")].map((etag) => etag.replaceAll('"', ""));
    this.#expect(etags.join() === bodies.map(md5).join(), "parts are listed with other ETags");
  }

  /** By pages of one and by the prefixes, in both versions of the listing, is what is stored. */
  async #list(): Promise<void> {
    const expected = [...this.#stored.keys()].toSorted();
    const paged = async (
      first: Readonly<Record<string, string>>,
      next: (body: Uint8Array, last: string) => Record<string, string>,
    ): Promise<void> => {
      const seen: string[] = [];
      let more: Readonly<Record<string, string>> = {};
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const { body } = await this.#ask({ method: "GET", query: { ...first, "max-keys": "2", ...more } }, 200);
        seen.push(...tagged(body, "Key"));
        if (tagged(body, "IsTruncated")[0] !== "true") break;
        more = next(body, seen.at(-1)!);
      }
      this.#expect(seen.join() === expected.join(), `${seen.join()} are listed, not ${expected.join()}`);
    };
    await paged({ "list-type": "2" }, (body) => ({ "continuation-token": tagged(body, "NextContinuationToken")[0]! }));
    await paged({}, (_, last) => ({ marker: last }));
    for (const query of [
      { "list-type": "2", delimiter: "/" },
      { delimiter: "/", "max-keys": "3" },
      { versions: "", delimiter: "/", prefix: "b" },
    ])
      await this.#ask({ method: "GET", query }, 200);
    const { body } = await this.#ask({ method: "GET", query: { "list-type": "2", delimiter: "/" } }, 200);
    const folded = expected.filter((key) => !key.includes("/"));
    this.#expect(
      tagged(body, "Key").join() === folded.join(),
      `${tagged(body, "Key").join()} are listed beside prefixes, not ${folded.join()}`,
    );
  }

  /** Refused while something is in it; then all versions go, some alone, the rest at once; then it is gone. */
  async #remove(): Promise<void> {
    await this.#ask({ method: "DELETE" }, 409);
    const [first, ...others] = await this.#versions();
    await this.#ask({ method: "DELETE", key: first!.key, query: { versionId: first!.id } }, 204);
    const named = others.map(({ key, id }) => `<Object><Key>${key}</Key><VersionId>${id}</VersionId></Object>`);
    const body = Buffer.from(`<Delete>${named.join("")}</Delete>`);
    const headers = { "content-md5": createHash("md5").update(body).digest("base64") };
    const deleted = await this.#ask({ method: "POST", query: { delete: "" }, headers, body }, 200);
    if (tagged(deleted.body, "Code").length > 0) throw new Unanswered();
    this.#expect((await this.#versions()).length === 0, "versions are left after their removal");
    await this.#ask({ method: "DELETE" }, 204);
    this.#expect(!(await this.#isBucketListed()), "the bucket is removed, and listed");
    await this.#ask({ method: "PUT", key: KEYS[0]!, body: Buffer.from("late") }, 404);
    await this.#ask({ method: "GET", query: { "list-type": "2" } }, 404);
  }

  /** With delete markers, by pages. */
  async #versions(): Promise<readonly { readonly key: string; readonly id: string }[]> {
    const found: { readonly key: string; readonly id: string }[] = [];
    let markers: Readonly<Record<string, string>> = {};
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const { body } = await this.#ask({ method: "GET", query: { versions: "", "max-keys": "2", ...markers } }, 200);
      const ids = tagged(body, "VersionId");
      found.push(...tagged(body, "Key").map((key, at) => ({ key, id: ids[at]! })));
      if (tagged(body, "IsTruncated")[0] !== "true") break;
      markers = { "key-marker": tagged(body, "NextKeyMarker")[0]!, "version-id-marker": tagged(body, "NextVersionIdMarker")[0]! };
    }
    return found;
  }
}
