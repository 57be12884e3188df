// One client's operations on objects, each recorded with what it was answered.
import { ConcordError, sleep, toConcordError, type Environment } from "@concord/runtime";
import type { World } from "@concord/simulation";
import { judgeAnswer } from "./encrypted.ts";
import type { EventHistory } from "./event-history.ts";
import { EXPIRING_PREFIX, useExpiring } from "./expiring.ts";
import { md5, type ObjectHistory } from "./history.ts";
import { PART_BYTES_MIN } from "./limits.ts";
import { useLocked, type LockHistory } from "./locked.ts";
import { VERSION_KEYS, type MadeVersion, type VersionHistory } from "./version-history.ts";
import { useOwnBucket } from "./own-bucket.ts";
import { SEALED_PREFIX, useSealed, type SealedHistory } from "./sealed.ts";
import { S3Client, tagged, type S3Answer, type S3Request } from "./s3-client.ts";

export const BUCKET = "simulated-bucket";
export const KEYS: readonly string[] = ["a", "a/b", "dir/\u00fc \u{1f600}", "z"];
/** In the row, at its limit, in a blob, in several writes of the network. */
const SIZES = [0, 300, 16_384, 16_385, 20_000, 40_000];
const COMPLETE_TRIES = 3;
const COMPLETE_AGAIN_MS = 150;
/** Written until a policy forbids it, and by nothing else. */
export const FORBIDDEN_KEY = "forbidden/1";
const FORBIDDEN_KEY_PERCENT = 20;
const SLOW_PAUSE_MS_MAX = 60;
const EXPIRING_PERCENT = 10;
const LOCKED_PERCENT = 15;
const SEALED_PERCENT = 20;
const OWN_BUCKET_PERCENT = 4;
/** Share of the operations that are on versions, where the bucket keeps some. */
const VERSION_OPERATIONS_PERCENT = 35;

/** What an answer means for the history: refused before anything happened, or unknown. */
type Reply = { readonly kind: "answer"; readonly answer: S3Answer } | { readonly kind: "fail" } | { readonly kind: "info" };

export interface ObjectClientOptions {
  readonly world: World;
  readonly env: Environment;
  readonly name: string;
  readonly history: ObjectHistory;
  readonly addresses: readonly string[];
  readonly timeoutMs: number;
  /** Undefined: the bucket keeps no versions. */
  readonly versions: VersionHistory | undefined;
  /** Amid the work a policy forbids writes of FORBIDDEN_KEY. */
  readonly hasPolicy: boolean;
  /** The bucket has the rules of `expiring.ts`. */
  readonly hasRules: boolean;
  /** There is a bucket with locks. */
  readonly locks: LockHistory | undefined;
  /** Undefined: the bucket has no event rules. */
  readonly events: EventHistory | undefined;
  /** Reads say that their object is encrypted. */
  readonly isEncrypted: boolean;
  /** Undefined: clients do not ask for encryption themselves. */
  readonly sealed: SealedHistory | undefined;
  /** Clients make buckets of their own. */
  readonly hasOwnBuckets: boolean;
}

export class ObjectClient {
  readonly #parts: ObjectClientOptions;
  readonly #gateways: readonly S3Client[];
  #count = 0;
  /** Versions that this client made and did not remove: no other client removes them. */
  readonly #made: MadeVersion[] = [];

  constructor(parts: ObjectClientOptions) {
    this.#parts = parts;
    this.#gateways = parts.addresses.map((address) => new S3Client(parts.env, address, parts.timeoutMs));
  }

  async operate(): Promise<void> {
    const { random } = this.#parts.env;
    if (this.#parts.versions !== undefined && random.below(100) < VERSION_OPERATIONS_PERCENT) {
      await this.#operateOnVersions(VERSION_KEYS[random.below(VERSION_KEYS.length)]!);
      return;
    }
    if (this.#parts.hasPolicy && random.below(100) < FORBIDDEN_KEY_PERCENT) {
      await this.#putSlowly(FORBIDDEN_KEY);
      return;
    }
    if (this.#parts.hasRules && random.below(100) < EXPIRING_PERCENT) {
      const key = `${EXPIRING_PREFIX}${this.#name("key")}`;
      await useExpiring({
        world: this.#parts.world,
        env: this.#parts.env,
        bucket: BUCKET,
        key,
        send: (request) => this.answerOf(request),
      });
      return;
    }
    const { world, env, locks, sealed, hasOwnBuckets } = this.#parts;
    if (hasOwnBuckets && random.below(100) < OWN_BUCKET_PERCENT) {
      await useOwnBucket({ world, env, bucket: `of-${this.#name("bucket")}`, send: (request) => this.answerOf(request) });
      return;
    }
    if (sealed !== undefined && random.below(100) < SEALED_PERCENT) {
      const key = `${SEALED_PREFIX}${this.#name("key")}`;
      await useSealed({ world, env, sealed, bucket: BUCKET, key, send: (request) => this.answerOf(request) });
      return;
    }
    if (locks !== undefined && random.below(100) < LOCKED_PERCENT) {
      await useLocked({ world, env, locks, key: this.#name("locked"), send: (request) => this.answerOf(request) });
      return;
    }
    const key = KEYS[random.below(KEYS.length)]!;
    const dice = random.below(100);
    if (dice < 30) await this.put(key);
    else if (dice < 36) await this.#putIfAbsent(key);
    else if (dice < 39) await this.#putAndBreakOff(key);
    else if (dice < 61) await this.get(key);
    else if (dice < 69) await this.#delete(key);
    else if (dice < 78) await this.list();
    else if (dice < 87) await this.#copy(KEYS[random.below(KEYS.length)]!, key);
    else await this.#multipart(key);
  }

  async #operateOnVersions(key: string): Promise<void> {
    const { random } = this.#parts.env;
    const dice = random.below(100);
    if (dice < 45) await this.put(key);
    else if (dice < 60) await this.#delete(key);
    else if (dice < 70) await this.#multipart(key);
    else await this.#removeVersion();
  }

  /** One of its own, often the newest: then another becomes current. */
  async #removeVersion(): Promise<void> {
    const { env, versions } = this.#parts;
    const at = env.random.below(2) === 0 ? this.#made.length - 1 : env.random.below(this.#made.length + 1);
    const [version] = this.#made.splice(Math.max(0, at), 1);
    if (version === undefined) return;
    versions?.removing(version);
    const reply = await this.#send({ method: "DELETE", bucket: BUCKET, key: version.key, query: { versionId: version.id } });
    if (reply.kind === "answer" && reply.answer.status === 204) versions?.removed(version);
  }

  /** Notes which version a write made. */
  #madeVersion(key: string, mark: string, { headers, body }: S3Answer): void {
    const { versions, history } = this.#parts;
    const id = headers.get("x-amz-version-id");
    const etag = headers.get("etag") ?? tagged(body, "ETag")[0] ?? history.etagOf(mark);
    if (versions === undefined || id === undefined || id === "null" || etag === undefined || !VERSION_KEYS.includes(key)) return;
    const version = { key, id, etag: unquoted(etag) };
    versions.made(version);
    this.#made.push(version);
  }

  /** The ETag of a version; undefined: there is none. Rejects without an answer. */
  async readVersion({ key, id }: MadeVersion, bucket = BUCKET): Promise<{ readonly etag: string } | undefined> {
    const reply = await this.#send({ method: "GET", bucket, key, query: { versionId: id } });
    if (reply.kind === "answer" && reply.answer.code === "NoSuchVersion") return undefined;
    if (reply.kind !== "answer" || reply.answer.status !== 200) throw new ConcordError("REPLICAS_UNAVAILABLE", "no answer yet");
    return { etag: unquoted(reply.answer.headers.get("etag") ?? "") };
  }

  /** The mark of the write that FORBIDDEN_KEY shows, "" when it has no object; undefined without an answer. */
  async readForbidden(): Promise<string | undefined> {
    const reply = await this.#send({ method: "GET", bucket: BUCKET, key: FORBIDDEN_KEY });
    if (reply.kind !== "answer") return undefined;
    if (reply.answer.code === "NoSuchKey") return "";
    return reply.answer.status === 200 ? reply.answer.headers.get("x-amz-meta-mark") : undefined;
  }

  /** All versions that hold data, or undefined. */
  async listVersions(): Promise<readonly MadeVersion[] | undefined> {
    const reply = await this.#send({ method: "GET", bucket: BUCKET, query: { versions: "" } });
    if (reply.kind !== "answer" || reply.answer.status !== 200) return undefined;
    const rows = Buffer.from(reply.answer.body).toString().split("<Version>").slice(1);
    return rows.map((row) => {
      const [key, id, etag] = ["Key", "VersionId", "ETag"].map((tag) => tagged(Buffer.from(row), tag)[0]!);
      return { key: key!, id: id!, etag: unquoted(etag!) };
    });
  }

  /** Whether it was stored. */
  async put(key: string): Promise<boolean> {
    const { mark, body, startedAt } = this.#newBody();
    const reply = await this.#send({ method: "PUT", bucket: BUCKET, key, headers: { "x-amz-meta-mark": mark }, body });
    return this.#wrote(key, mark, startedAt, reply);
  }

  /** Much may happen between the look that allows it and its commit. */
  async #putSlowly(key: string): Promise<void> {
    const { mark, body, startedAt } = this.#newBody(40_000);
    const pauseMs = this.#parts.env.random.below(SLOW_PAUSE_MS_MAX);
    const reply = await this.#send({ method: "PUT", bucket: BUCKET, key, headers: { "x-amz-meta-mark": mark }, body, pauseMs });
    this.#wrote(key, mark, startedAt, reply);
  }

  async get(key: string): Promise<boolean> {
    const { history, env } = this.#parts;
    const name = this.#name("get");
    const startedAt = this.#nowMs();
    const range = env.random.below(4) === 0 ? { first: env.random.below(200), last: 200 + env.random.below(20_000) } : undefined;
    const headers = range === undefined ? {} : { range: `bytes=${range.first}-${range.last}` };
    const reply = await this.#send({ method: "GET", bucket: BUCKET, key, headers });
    if (reply.kind !== "answer") return false;
    const { status, code, headers: answered, body: bytes } = reply.answer;
    if (status === 404 && code === "NoSuchKey") history.sawNothing(key, name, startedAt);
    else if (status === 416) history.sawSomething(key, name, startedAt);
    else if (status === 200 || status === 206) {
      if (this.#parts.isEncrypted) judgeAnswer(this.#parts.world, key, answered);
      const [, first, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(answered.get("content-range") ?? "") ?? [];
      history.sawObject(key, name, startedAt, {
        mark: answered.get("x-amz-meta-mark") ?? "",
        etag: unquoted(answered.get("etag") ?? ""),
        bytes,
        offset: Number(first ?? 0),
        size: Number(size ?? bytes.length),
      });
    } else return false;
    return true;
  }

  /** All keys of the bucket with their ETags, or undefined. */
  async list(): Promise<ReadonlyMap<string, string> | undefined> {
    const { history } = this.#parts;
    const name = this.#name("list");
    const startedAt = this.#nowMs();
    const reply = await this.#send({ method: "GET", bucket: BUCKET, query: { "list-type": "2" } });
    if (reply.kind !== "answer" || reply.answer.status !== 200) return undefined;
    const etags = tagged(reply.answer.body, "ETag").map(unquoted);
    const listed = new Map(tagged(reply.answer.body, "Key").map((key, at) => [key, etags[at]!]));
    for (const [key, etag] of listed) this.#parts.events?.shown(key, etag);
    for (const key of KEYS) {
      const etag = listed.get(key);
      if (etag === undefined) history.sawNothing(key, name, startedAt);
      else history.sawEtag(key, name, startedAt, etag);
    }
    for (const key of listed.keys())
      if (
        ![...KEYS, ...VERSION_KEYS, FORBIDDEN_KEY].includes(key) &&
        ![EXPIRING_PREFIX, SEALED_PREFIX].some((prefix) => key.startsWith(prefix))
      )
        this.#parts.world.violation("object listing", `${name} lists ${key}`);
    return listed;
  }

  async #putIfAbsent(key: string): Promise<void> {
    const { history } = this.#parts;
    const { mark, body, startedAt } = this.#newBody();
    const headers = { "x-amz-meta-mark": mark, "if-none-match": "*" };
    const reply = await this.#send({ method: "PUT", bucket: BUCKET, key, headers, body });
    if (reply.kind === "answer" && reply.answer.status === 412) history.sawSomething(key, mark, startedAt);
    else this.#wrote(key, mark, startedAt, reply, true);
  }

  /** Nothing of it may ever be seen (OG3): it is not in the history. */
  async #putAndBreakOff(key: string): Promise<void> {
    const { mark, body } = this.#newBody(40_000);
    await this.#send({ method: "PUT", bucket: BUCKET, key, headers: { "x-amz-meta-mark": mark }, body, breaks: true });
  }

  async #delete(key: string): Promise<void> {
    const { history } = this.#parts;
    const name = this.#name("delete");
    const startedAt = this.#nowMs();
    const reply = await this.#send({ method: "DELETE", bucket: BUCKET, key });
    const effect = { kind: "write", value: undefined } as const;
    if (reply.kind === "answer" && reply.answer.status === 204) history.done(key, name, startedAt, effect);
    else if (reply.kind === "info") history.unknown(key, name, startedAt, effect);
  }

  /** The copy is an operation of its own, with bytes that were once the source's. */
  async #copy(source: string, key: string): Promise<void> {
    const { history } = this.#parts;
    const mark = this.#name("copy");
    const startedAt = this.#nowMs();
    const encoded = source.split("/").map(encodeURIComponent).join("/");
    const headers = {
      "x-amz-copy-source": `/${BUCKET}/${encoded}`,
      "x-amz-metadata-directive": "REPLACE",
      "x-amz-meta-mark": mark,
    };
    history.intend(mark, undefined);
    const reply = await this.#send({ method: "PUT", bucket: BUCKET, key, headers });
    const etag = reply.kind === "answer" ? tagged(reply.answer.body, "ETag")[0] : undefined;
    if (etag !== undefined) history.intend(mark, undefined, unquoted(etag));
    if (reply.kind === "answer" && reply.answer.code === "NoSuchKey") history.sawNothing(source, mark, startedAt);
    else if (reply.kind !== "answer" || reply.answer.status !== 200 || etag !== undefined) this.#wrote(key, mark, startedAt, reply);
    else history.unknown(key, mark, startedAt, { kind: "write", value: mark });
  }

  async #multipart(key: string): Promise<void> {
    const { env } = this.#parts;
    const mark = this.#name("upload");
    const created = await this.#send({ method: "POST", bucket: BUCKET, key, query: { uploads: "" }, headers: { "x-amz-meta-mark": mark } });
    const uploadId = created.kind === "answer" ? tagged(created.answer.body, "UploadId")[0] : undefined;
    if (uploadId === undefined) return;
    const parts: { readonly number: number; readonly body: Uint8Array }[] = [];
    for (let number = 1; number <= 1 + env.random.below(3); number += 1) {
      const body = await this.#putPart(key, uploadId, number);
      if (body !== undefined) parts.push({ number, body });
    }
    if (parts.length === 0 || env.random.below(6) === 0) await this.#abort(key, uploadId);
    else await this.#complete(key, uploadId, mark, parts);
  }

  /** At times twice, as a client does after an indeterminate answer; the last one counts. */
  async #putPart(key: string, uploadId: string, number: number): Promise<Uint8Array | undefined> {
    const { env } = this.#parts;
    let stored: Uint8Array | undefined;
    for (let tries = env.random.below(5) === 0 ? 2 : 1; tries > 0; tries -= 1) {
      const body = env.random.bytes(PART_BYTES_MIN + env.random.below(5_000));
      const reply = await this.#send({ method: "PUT", bucket: BUCKET, key, query: { partNumber: String(number), uploadId }, body });
      stored = reply.kind === "answer" && reply.answer.status === 200 ? body : undefined;
    }
    return stored;
  }

  async #abort(key: string, uploadId: string): Promise<void> {
    await this.#send({ method: "DELETE", bucket: BUCKET, key, query: { uploadId } });
  }

  /** Sent again while the outcome is indeterminate: a repeated complete answers as the first (OGD11). At times an abort races it, and must lose or win whole. */
  async #complete(
    key: string,
    uploadId: string,
    mark: string,
    parts: readonly { readonly number: number; readonly body: Uint8Array }[],
  ): Promise<void> {
    const { env, history } = this.#parts;
    const digests = parts.map(({ body }) => md5(body));
    const etag = `${md5(Buffer.from(digests.join(""), "hex"))}-${parts.length}`;
    history.intend(mark, Buffer.concat(parts.map(({ body }) => body)), etag);
    const named = parts.map(({ number }, at) => `<Part><PartNumber>${number}</PartNumber><ETag>"${digests[at]}"</ETag></Part>`);
    const body = Buffer.from(`<CompleteMultipartUpload>${named.join("")}</CompleteMultipartUpload>`);
    const startedAt = this.#nowMs();
    const rival = env.random.below(5);
    if (rival === 0) void this.#abort(key, uploadId);
    else if (rival === 1) void this.#putPart(key, uploadId, parts[0]!.number);
    let reply: Reply = { kind: "fail" };
    for (let tries = 0; tries < COMPLETE_TRIES; tries += 1) {
      const again = await this.#send({ method: "POST", bucket: BUCKET, key, query: { uploadId }, body });
      // After an indeterminate outcome only a success resolves it.
      if (again.kind === "answer" || reply.kind !== "info") reply = again;
      if (reply.kind !== "info") break;
      await sleep(env.clock, COMPLETE_AGAIN_MS);
    }
    this.#completed(key, mark, startedAt, reply);
  }

  #completed(key: string, mark: string, startedAt: number, reply: Reply): void {
    const failed = reply.kind === "answer" && tagged(reply.answer.body, "Code").length > 0;
    if (failed) this.#parts.history.unknown(key, mark, startedAt, { kind: "write", value: mark });
    else this.#wrote(key, mark, startedAt, reply);
  }

  #wrote(key: string, mark: string, startedAt: number, reply: Reply, onlyIfAbsent = false): boolean {
    const { history } = this.#parts;
    const effect = { kind: "write", value: mark, onlyIfAbsent } as const;
    const isDone = reply.kind === "answer" && reply.answer.status === 200;
    if (isDone) {
      history.done(key, mark, startedAt, effect);
      this.#madeVersion(key, mark, reply.answer);
    } else if (reply.kind === "info") history.unknown(key, mark, startedAt, effect);
    else history.failed();
    return isDone;
  }

  #newBody(size?: number): { readonly mark: string; readonly body: Uint8Array; readonly startedAt: number } {
    const { env, history } = this.#parts;
    const mark = this.#name("put");
    const length = size ?? SIZES[env.random.below(SIZES.length)]!;
    // The operation's own bytes begin with its name.
    const body = Buffer.concat([Buffer.from(mark), env.random.bytes(length)]).subarray(0, length);
    history.intend(mark, body, md5(body));
    return { mark, body, startedAt: this.#nowMs() };
  }

  /** Undefined: it is not known what became of it. */
  async answerOf(request: S3Request): Promise<S3Answer | undefined> {
    const reply = await this.#send(request);
    return reply.kind === "answer" ? reply.answer : undefined;
  }

  async #send(request: S3Request): Promise<Reply> {
    const { world, env } = this.#parts;
    const gateway = this.#gateways[env.random.below(this.#gateways.length)]!;
    world.callsInFlight += 1;
    try {
      return this.#meaning(request, await gateway.send(request));
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.code === "CORRUPT_DATA" || error.code === "INTERNAL") this.#suspicious(request, error);
      return { kind: error.applied === "no" ? "fail" : "info" };
    } finally {
      world.callsInFlight -= 1;
    }
  }

  #meaning(request: S3Request, answer: S3Answer): Reply {
    const { world, events } = this.#parts;
    if (request.bucket === BUCKET) events?.answered(request, answer);
    world.count(`s3:${request.method} ${answer.status} ${answer.code}`);
    if (answer.status < 500) return { kind: "answer", answer };
    // Damaged data and our own mistakes: no fault explains them.
    if (answer.status === 500) world.violation("internal error", `${request.method} ${request.key ?? ""}: ${answer.status} ${answer.code}`);
    return { kind: answer.code === "SlowDown" ? "fail" : "info" };
  }

  #suspicious({ method, key }: S3Request, error: ConcordError): void {
    this.#parts.world.violation("broken answer", `${method} ${key ?? ""}: ${error.code} ${error.message}`);
  }

  #name(what: string): string {
    this.#count += 1;
    return `${this.#parts.name}-${what}-${this.#count}`;
  }

  #nowMs(): number {
    return this.#parts.world.nowMs;
  }
}

const unquoted = (etag: string): string => etag.replaceAll('"', "");
