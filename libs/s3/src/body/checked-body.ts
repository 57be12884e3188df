// A body behind its checks: signature, length and digests, while the bytes pass.
import { createHash } from "node:crypto";
import { assert, type DigestName, type DigestThread } from "@concord/runtime";
import { encodeBase64, encodeHex } from "../encoding.ts";
import { S3Error } from "../errors.ts";
import { BODY_BYTES_MAX, THREAD_BODY_BYTES_MIN } from "../limits.ts";
import type { Received } from "../signature/verifier.ts";
import type { Fields } from "../fields.ts";
import type { CheckedBody, ChecksumAlgorithm, Digests } from "../types.ts";
import { decodeChunks, type Trailers } from "./aws-chunked.ts";
import { byteReader } from "./byte-reader.ts";
import { checkedValue, type AnnouncedChecksum, type Expected, readChecksum, readExpected, readMd5 } from "./expected.ts";
import { ownDigests, threadDigests, type DigestValues } from "./body-digests.ts";
import { checksumHeader } from "./digests.ts";

export interface BodyOptions {
  /** EntityTooLarge above; default BODY_BYTES_MAX. */
  readonly maxBytes?: number;
  /** Computed when the client sent no checksum. */
  readonly algorithm?: ChecksumAlgorithm | undefined;
  /** "required": refuses a request without Content-MD5 and without checksum (deletes of many keys). */
  readonly integrity?: "required";
  /** What a checksum in a header is of; "object": the caller compares it. "body" if absent. */
  readonly headerOf?: "body" | "object";
  /** Hashes long bodies; the calling thread does when there is none. */
  readonly thread?: DigestThread | undefined;
}

/** What is read of a request for its body; an HttpRequest is one. */
export interface RequestBody {
  readonly body: AsyncIterable<Uint8Array>;
}

/** Throws S3Error at once for what the headers say wrong; the body is first touched when `chunks` is read. */
export function checkedBody(request: RequestBody, verified: Received, options: BodyOptions = {}): CheckedBody {
  const expected = readExpected(verified.headers, verified.payload, options.maxBytes ?? BODY_BYTES_MAX, options.headerOf);
  if (options.integrity === "required" && expected.md5Hex === undefined && expected.checksum === undefined) {
    throw new S3Error("InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
  }
  const algorithm = expected.checksum?.algorithm ?? options.algorithm;
  let digests: Digests | undefined;
  const chunks = passing(request, verified, expected, { ...options, algorithm }, (result) => void (digests = result));
  return {
    lengthBytes: expected.lengthBytes,
    chunks,
    finish() {
      assert(digests !== undefined, "a body is finished after its last chunk was read");
      return digests;
    },
  };
}

/** The file of a form, whose length is known at its end. `headers` are what its fields say of it. */
export function checkedFile(
  file: AsyncGenerator<Uint8Array, void, void>,
  headers: Fields,
  options: Pick<BodyOptions, "algorithm"> = {},
): Omit<CheckedBody, "lengthBytes"> {
  const expected = { lengthBytes: 0, md5Hex: readMd5(headers), checksum: readChecksum(headers, { kind: "unsigned" }) };
  const algorithm = expected.checksum?.algorithm ?? options.algorithm;
  let digests: Digests | undefined;
  async function* passingFile(): AsyncGenerator<Uint8Array, void, void> {
    const passed = ownDigests(namesOf(algorithm, false));
    try {
      yield* passed.pass(file);
    } finally {
      await file.return();
    }
    digests = compare(await passed.finish(), algorithm, expected, NO_TRAILERS);
  }
  return {
    chunks: passingFile(),
    finish() {
      assert(digests !== undefined, "a file is finished after its last chunk was read");
      return digests;
    },
  };
}

/** For routes without a body: nothing may be announced, and what is signed is the empty one. */
export function refuseBody(verified: Received): void {
  const { payload, headers } = verified;
  if (payload.kind === "signed-chunks" || payload.kind === "unsigned-chunks") {
    throw new S3Error("InvalidArgument", "x-amz-content-sha256 must not be a streaming one for a request without a body.");
  }
  if (headers.has("transfer-encoding") || (headers.one("content-length") ?? "0") !== "0") {
    throw new S3Error("InvalidRequest", "This request has no body.");
  }
  if (payload.kind === "hash" && payload.sha256Hex !== EMPTY_SHA256) throw new S3Error("XAmzContentSHA256Mismatch");
}

/** Reads a small body as a whole, checked. Empty when there is none. */
export async function readBody(request: RequestBody, verified: Received, options: BodyOptions & { maxBytes: number }): Promise<Uint8Array> {
  const isAbsent =
    verified.payload.kind !== "signed-chunks" && verified.payload.kind !== "unsigned-chunks" && !verified.headers.has("content-length");
  if (isAbsent && !verified.headers.has("transfer-encoding") && options.integrity === undefined) {
    refuseBody(verified);
    return new Uint8Array(0);
  }
  // Its chunks are kept while others are read.
  const body = checkedBody(request, verified, { ...options, thread: undefined });
  const blobs: Uint8Array[] = [];
  for await (const blob of body.chunks) blobs.push(blob);
  return blobs.length === 1 ? blobs[0]! : Buffer.concat(blobs);
}

const EMPTY_SHA256 = createHash("sha256").digest("hex");

async function* passing(
  request: RequestBody,
  verified: Received,
  expected: Expected,
  { algorithm, thread }: Pick<BodyOptions, "algorithm" | "thread">,
  done: (digests: Digests) => void,
): AsyncGenerator<Uint8Array, void, void> {
  const { payload } = verified;
  const names = namesOf(algorithm, payload.kind === "hash");
  const inThread = expected.lengthBytes >= THREAD_BODY_BYTES_MIN ? thread?.begin(names) : undefined;
  const digests = inThread === undefined ? ownDigests(names) : threadDigests(inThread);
  const decoded = decode(request, verified, expected.lengthBytes);
  try {
    const trailers = yield* digests.pass(decoded);
    const values = await digests.finish();
    if (payload.kind === "hash") checkHash(values, payload.sha256Hex);
    done(compare(values, algorithm, expected, trailers));
  } finally {
    digests.close();
    // When the reader stops early the request's body is cancelled; it then drains or breaks the connection off.
    await decoded.return(NO_TRAILERS);
  }
}

function namesOf(algorithm: ChecksumAlgorithm | undefined, isHashed: boolean): readonly DigestName[] {
  const names = new Set<DigestName>(["MD5"]);
  if (algorithm !== undefined) names.add(algorithm);
  if (isHashed) names.add("SHA256");
  return [...names];
}

const NO_TRAILERS: Trailers = new Map();

async function* decode(request: RequestBody, { payload }: Received, lengthBytes: number): AsyncGenerator<Uint8Array, Trailers, void> {
  const source = request.body[Symbol.asyncIterator]();
  try {
    const reader = byteReader(source);
    if (payload.kind === "signed-chunks" || payload.kind === "unsigned-chunks") return yield* decodeChunks(reader, payload, lengthBytes);
    for (let left = lengthBytes; left > 0;) {
      const blob = await reader.some(left);
      left -= blob.length;
      yield blob;
    }
    await reader.end();
    return NO_TRAILERS;
  } finally {
    await source.return?.();
  }
}

function checkHash(values: DigestValues, signedHex: string): void {
  const computedHex = encodeHex(values.get("SHA256")!);
  if (computedHex === signedHex) return;
  const elements = { ClientComputedContentSHA256: signedHex, S3ComputedContentSHA256: computedHex };
  throw new S3Error("XAmzContentSHA256Mismatch", undefined, { elements });
}

function compare(values: DigestValues, algorithm: ChecksumAlgorithm | undefined, expected: Expected, trailers: Trailers): Digests {
  const md5Hex = encodeHex(values.get("MD5")!);
  if (expected.md5Hex !== undefined && expected.md5Hex !== md5Hex) {
    throw new S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.");
  }
  const announced = announcedValue(expected.checksum, trailers);
  if (algorithm === undefined) return { md5Hex, checksum: undefined };
  const value = encodeBase64(values.get(algorithm)!);
  if (announced !== undefined && announced !== value) {
    throw new S3Error("BadDigest", `The ${algorithm} you specified did not match the calculated checksum.`);
  }
  return { md5Hex, checksum: { algorithm, type: "FULL_OBJECT", value } };
}

/** A trailer that was announced must be there, and no other. */
function announcedValue(announced: AnnouncedChecksum | undefined, trailers: Trailers): string | undefined {
  const name = announced?.kind === "trailer" ? checksumHeader(announced.algorithm) : undefined;
  for (const sent of trailers.keys()) {
    if (sent !== name) throw new S3Error("MalformedTrailerError", "A trailer was sent that was not announced.");
  }
  if (announced === undefined) return undefined;
  if (announced.kind === "header") return announced.value;
  const value = trailers.get(checksumHeader(announced.algorithm));
  if (value === undefined)
    throw new S3Error("MalformedTrailerError", `The announced trailer ${checksumHeader(announced.algorithm)} is missing.`);
  return checkedValue(checksumHeader(announced.algorithm), announced.algorithm, value);
}
