// Objects encrypted with clients' own keys (SSE-C), with keys of the service (SSE-KMS) and with the gateway's (SSE-S3), side by side in one bucket: what is
// read is what was sent, for who has the key; what was not sent is refused, and what there is no key for is not stored (OGD23, OGD24).
import { createHash } from "node:crypto";
import { sleep, type Environment } from "@concord/runtime";
import type { World } from "@concord/simulation";
import { PART_BYTES_MIN } from "./limits.ts";
import { md5 } from "./history.ts";
import { tagged, type S3Client, type S3Answer, type S3Request } from "./s3-client.ts";

export const SEALED_PREFIX = "sealed/";
/** Bodies begin with it: no blob does. */
export const SEALED_TEXT = "sealed-";
export const KMS_KEYS = ["service-1", "service-2"] as const;
/** In the row; one frame; two of them, the second short; three whole ones. */
const SIZES = [0, 40, 20_000, 70_000, 196_608];
const KEY_BYTES = 32;
const PAUSE_MS_MAX = 60;
const LOOKS = 2;
const METHOD = "x-amz-server-side-encryption";
const CUSTOMER = `${METHOD}-customer`;
const SOURCE_CUSTOMER = `x-amz-copy-source-server-side-encryption-customer`;

type Headers = Readonly<Record<string, string>>;

/** How an object is encrypted, as headers say it. */
interface Mode {
  readonly kind: "customer" | "service" | "managed";
  /** Undefined: the client does not have it. */
  readonly key: Uint8Array | undefined;
  /** Of requests that store. */
  readonly asked: Headers;
}

export interface SealedObject {
  readonly key: string;
  readonly mode: Mode;
  readonly body: Uint8Array;
}

export class SealedHistory {
  readonly #world: World;
  readonly #kept = new Map<string, SealedObject>();
  /** Whether the gateways have keys for SSE-S3. */
  readonly hasManaged: boolean;

  constructor(world: World, hasManaged: boolean) {
    this.#world = world;
    this.hasManaged = hasManaged;
  }

  get kept(): readonly SealedObject[] {
    return [...this.#kept.values()];
  }

  stored(object: SealedObject): void {
    this.#kept.set(object.key, object);
    this.#world.count(`object:sealed-${object.mode.kind}`, 1);
  }

  removing(key: string): void {
    this.#kept.delete(key);
  }
}

export interface SealedOptions {
  readonly world: World;
  readonly env: Environment;
  readonly sealed: SealedHistory;
  readonly bucket: string;
  /** No other client uses it, and it is used once. */
  readonly key: string;
  /** Undefined: it is not known what became of it. */
  readonly send: (request: S3Request) => Promise<S3Answer | undefined>;
}

/** Stores an object in a drawn mode, reads it, copies it to another one, and at times removes it. What had no answer says nothing. */
export async function useSealed(options: SealedOptions): Promise<void> {
  const { env, sealed } = options;
  const { random, clock } = env;
  if (random.below(6) === 0) return await askForNoKey(options);
  const mode = drawMode(env, sealed);
  const object = random.below(4) === 0 ? await upload(options, mode) : await put(options, mode);
  if (object === undefined) return;
  sealed.stored(object);
  for (let look = 0; look < LOOKS; look += 1) {
    await sleep(clock, random.below(PAUSE_MS_MAX));
    await read(options, object);
  }
  if (random.below(2) === 0) await copy(options, object);
  if (random.below(3) > 0) return;
  sealed.removing(object.key);
  await options.send({ method: "DELETE", bucket: options.bucket, key: object.key });
}

function drawMode({ random }: Environment, { hasManaged }: SealedHistory): Mode {
  const dice = random.below(hasManaged ? 4 : 3);
  if (dice === 3) return { kind: "managed", key: undefined, asked: { [METHOD]: "AES256" } };
  if (dice < 2) {
    const key = random.bytes(KEY_BYTES);
    return { kind: "customer", key, asked: customerHeaders(CUSTOMER, key) };
  }
  const context = Buffer.from(JSON.stringify({ of: "a client" })).toString("base64");
  const more = random.below(2) === 0 ? {} : { [`${METHOD}-aws-kms-key-id`]: KMS_KEYS[1], [`${METHOD}-context`]: context };
  return { kind: "service", key: undefined, asked: { [METHOD]: "aws:kms", ...more } };
}

function customerHeaders(prefix: string, key: Uint8Array | undefined): Headers {
  if (key === undefined) return {};
  const digest = createHash("md5").update(key).digest("base64");
  return { [`${prefix}-algorithm`]: "AES256", [`${prefix}-key`]: Buffer.from(key).toString("base64"), [`${prefix}-key-md5`]: digest };
}

function bodyOf({ env, key }: SealedOptions, size: number): Uint8Array {
  return Buffer.concat([Buffer.from(`${SEALED_TEXT}${key}`), env.random.bytes(size)]).subarray(0, size);
}

async function put(options: SealedOptions, mode: Mode): Promise<SealedObject | undefined> {
  const { env, bucket, key, send } = options;
  const body = bodyOf(options, SIZES[env.random.below(SIZES.length)]!);
  const sum = createHash("sha256").update(body).digest("base64");
  const checksum: Headers = env.random.below(2) === 0 ? { "x-amz-checksum-sha256": sum } : {};
  const answer = await send({ method: "PUT", bucket, key, headers: { ...mode.asked, ...checksum }, body });
  if (answer?.status !== 200) return undefined;
  judgeTag(options, mode, body, answer.headers.get("etag"));
  return { key, mode, body };
}

async function upload(options: SealedOptions, mode: Mode): Promise<SealedObject | undefined> {
  const { env, bucket, key, send } = options;
  const bodies: Uint8Array[] = [];
  const count = 1 + env.random.below(2);
  const isDone = await uploadParts(options, { key, mode, count }, async (query, headers) => {
    const body = bodyOf(options, PART_BYTES_MIN + env.random.below(60_000));
    bodies.push(body);
    const answer = await send({ method: "PUT", bucket, key, query, headers, body });
    return answer?.status === 200 ? answer.headers.get("etag") : undefined;
  });
  return isDone ? { key, mode, body: Buffer.concat(bodies) } : undefined;
}

/** Whether it is stored. `sendPart` answers the part's ETag. */
async function uploadParts(
  { bucket, send }: SealedOptions,
  { key, mode, count }: { readonly key: string; readonly mode: Mode; readonly count: number },
  sendPart: (query: Headers, headers: Headers) => Promise<string | undefined>,
): Promise<boolean> {
  const headers = customerHeaders(CUSTOMER, mode.key);
  const created = await send({ method: "POST", bucket, key, query: { uploads: "" }, headers: mode.asked });
  const uploadId = created?.status === 200 ? tagged(created.body, "UploadId")[0] : undefined;
  if (uploadId === undefined) return false;
  const named: string[] = [];
  for (let number = 1; number <= count; number += 1) {
    const etag = await sendPart({ partNumber: String(number), uploadId }, headers);
    if (etag === undefined) return false;
    named.push(`<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part>`);
  }
  const body = Buffer.from(`<CompleteMultipartUpload>${named.join("")}</CompleteMultipartUpload>`);
  const done = await send({ method: "POST", bucket, key, query: { uploadId }, headers, body });
  return done?.status === 200 && tagged(done.body, "ETag").length > 0;
}

/** Into another mode, by who has both keys: all of it, or a range as an upload's only part. */
async function copy(options: SealedOptions, source: SealedObject): Promise<void> {
  const { env, sealed, bucket, send } = options;
  const mode = drawMode(env, sealed);
  const key = `${source.key}-copy`;
  const from = {
    ...customerHeaders(SOURCE_CUSTOMER, source.mode.key),
    "x-amz-copy-source": `/${bucket}/${source.key.split("/").map(encodeURIComponent).join("/")}`,
  };
  let body: Uint8Array | undefined;
  if (source.body.length > 0 && env.random.below(2) === 0) {
    const first = env.random.below(source.body.length);
    const range = { "x-amz-copy-source-range": `bytes=${first}-${source.body.length - 1}` };
    const isDone = await uploadParts(options, { key, mode, count: 1 }, async (query, headers) => {
      const answer = await send({ method: "PUT", bucket, key, query, headers: { ...headers, ...from, ...range } });
      return answer?.status === 200 ? tagged(answer.body, "ETag")[0] : undefined;
    });
    if (isDone) body = source.body.subarray(first);
  } else {
    const answer = await send({ method: "PUT", bucket, key, headers: { ...mode.asked, ...from } });
    if (answer?.status === 200 && tagged(answer.body, "ETag").length > 0) ({ body } = source);
  }
  if (body === undefined) return;
  const copied = { key, mode, body };
  sealed.stored(copied);
  await read(options, copied);
}

/** Whole or a range of it, by its key, by another one, and by none. */
export async function read(options: Omit<SealedOptions, "key" | "sealed">, { key, mode, body }: SealedObject): Promise<boolean> {
  const { env, world, bucket, send } = options;
  const { random } = env;
  const keyHeaders = customerHeaders(CUSTOMER, mode.key);
  const isRange = body.length > 0 && random.below(2) === 0;
  const first = isRange ? random.below(body.length) : 0;
  const last = isRange ? first + random.below(body.length - first) : body.length - 1;
  const range: Headers = isRange ? { range: `bytes=${first}-${last}` } : {};
  const answer = await send({ method: "GET", bucket, key, headers: { ...keyHeaders, ...range } });
  if (answer === undefined || answer.status >= 500) return false;
  const isIt = answer.status === (isRange ? 206 : 200) && Buffer.compare(answer.body, body.subarray(first, last + 1)) === 0;
  if (!isIt)
    world.violation("encrypted read", `${key} (${mode.kind}), ${first} to ${last} of ${body.length}: ${answer.status} ${answer.code}`);
  if (mode.kind !== "customer") return true;
  const other = random.below(2) === 0 ? undefined : random.bytes(KEY_BYTES);
  const refused = await send({ method: random.below(2) === 0 ? "GET" : "HEAD", bucket, key, headers: customerHeaders(CUSTOMER, other) });
  const expected = other === undefined ? 400 : 403;
  if (refused !== undefined && refused.status < 500 && refused.status !== expected)
    world.violation("encrypted read", `${key}: ${refused.status} ${refused.code} with ${other === undefined ? "no" : "another"} key`);
  return true;
}

/** An object whose bytes were changed, or whose key is not there any more: whatever is asked for, nothing is given out as if it were whole. */
export async function readRefused(
  world: World,
  client: S3Client,
  bucket: string,
  { key, mode, body }: SealedObject,
  why: string,
): Promise<void> {
  const answer = await client.send({ method: "GET", bucket, key, headers: customerHeaders(CUSTOMER, mode.key) }).catch(() => undefined);
  world.count(`object:refused-${why}`, 1);
  if (answer === undefined || answer.status >= 400) return;
  const what = Buffer.compare(answer.body, body) === 0 ? "its bytes" : "other bytes";
  world.violation("encrypted read", `${key} (${mode.kind}, ${why}): ${answer.status} with ${what}`);
}

/** What the gateways have no key for is refused, and nothing of it is there. */
async function askForNoKey({ world, sealed, bucket, key, send }: SealedOptions): Promise<void> {
  const asked = sealed.hasManaged ? { [METHOD]: "aws:kms", [`${METHOD}-aws-kms-key-id`]: "absent" } : { [METHOD]: "AES256" };
  const answer = await send({ method: "PUT", bucket, key, headers: asked, body: Buffer.from(SEALED_TEXT) });
  if (answer === undefined) return;
  if (answer.status < 400) world.violation("stored in plaintext", `${key}: ${answer.status} without a key for it`);
  const found = await send({ method: "GET", bucket, key });
  if (found !== undefined && found.status < 400) world.violation("stored in plaintext", `${key} was refused, and is there`);
  world.count("object:no-key-refused", 1);
}

/** Where the key is not the gateway's own, an ETag says nothing of the content. */
function judgeTag({ world, key }: SealedOptions, { kind }: Mode, body: Uint8Array, etag = ""): void {
  const isDigest = etag.replaceAll('"', "") === md5(body);
  if (isDigest !== (kind === "managed")) world.violation("encrypted etag", `${key} (${kind}): ${etag}`);
}
