// What the headers of an upload announce of its body: length, MD5, checksum, trailer. Read, and refused, before the body is (I2).
import { decodeBase64, encodeHex } from "../encoding.ts";
import { S3Error } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { TRAILERS_MAX } from "../limits.ts";
import type { Payload } from "../signature/payload.ts";
import type { ChecksumAlgorithm } from "../types.ts";
import { CHECKSUM_ALGORITHMS, CHECKSUM_BYTES, checksumAlgorithm, checksumHeader } from "./digests.ts";

export interface Expected {
  /** Of the decoded body. */
  readonly lengthBytes: number;
  readonly md5Hex: string | undefined;
  readonly checksum: AnnouncedChecksum | undefined;
}

export type AnnouncedChecksum =
  | { readonly kind: "header"; readonly algorithm: ChecksumAlgorithm; readonly value: string }
  /** The value comes behind the body. */
  | { readonly kind: "trailer"; readonly algorithm: ChecksumAlgorithm };

/** `headerOf`: what an x-amz-checksum-* header is of: this body, or the object that a document completes. */
export function readExpected(headers: Fields, payload: Payload, maxBytes: number, headerOf: "body" | "object" = "body"): Expected {
  const lengthBytes = readLength(headers, payload);
  if (lengthBytes > maxBytes) {
    const elements = { ProposedSize: String(lengthBytes), MaxSizeAllowed: String(maxBytes) };
    throw new S3Error("EntityTooLarge", undefined, { elements });
  }
  return {
    lengthBytes,
    md5Hex: readMd5(headers),
    checksum: headerOf === "body" ? readChecksum(headers, payload) : trailerChecksums(headers, payload)[0],
  };
}

function readLength(headers: Fields, payload: Payload): number {
  const isChunked = payload.kind === "signed-chunks" || payload.kind === "unsigned-chunks";
  const name = isChunked ? "x-amz-decoded-content-length" : "content-length";
  const text = headers.one(name);
  if (text === undefined) throw new S3Error("MissingContentLength", `You must provide the ${name} HTTP header.`);
  if (!/^\d{1,15}$/.test(text)) throw new S3Error("InvalidArgument", `${name} must be a number.`);
  return Number(text);
}

export function readMd5(headers: Fields): string | undefined {
  const text = headers.one("content-md5");
  if (text === undefined) return undefined;
  const bytes = decodeBase64(text, 16);
  if (bytes === undefined) throw new S3Error("InvalidDigest", "The Content-MD5 you specified is not valid.");
  return encodeHex(bytes);
}

/** The one checksum a request may carry, in a header or announced as a trailer. */
export function readChecksum(headers: Fields, payload: Payload): AnnouncedChecksum | undefined {
  const announced = [...headerChecksums(headers), ...trailerChecksums(headers, payload)];
  if (announced.length > 1) throw new S3Error("InvalidRequest", "Expecting a single x-amz-checksum- header or trailer.");
  const named = headers.one("x-amz-sdk-checksum-algorithm");
  if (named === undefined) return announced[0];
  const algorithm = checksumAlgorithm(named);
  if (algorithm === undefined) throw new S3Error("InvalidRequest", "The value of x-amz-sdk-checksum-algorithm is not valid.");
  if (announced[0]?.algorithm !== algorithm) {
    const message = "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.";
    throw new S3Error("InvalidRequest", message);
  }
  return announced[0];
}

/** A composite value ("...-3") is none of bytes; only CompleteMultipartUpload has it. */
export function headerChecksums(headers: Fields, composite: "refused" | "allowed" = "refused"): (AnnouncedChecksum & { kind: "header" })[] {
  return CHECKSUM_ALGORITHMS.flatMap((algorithm) => {
    const name = checksumHeader(algorithm);
    const value = headers.one(name);
    if (value === undefined) return [];
    checkedValue(name, algorithm, composite === "allowed" ? value.replace(/-\d{1,5}$/, "") : value);
    return [{ kind: "header" as const, algorithm, value }];
  });
}

function trailerChecksums(headers: Fields, payload: Payload): AnnouncedChecksum[] {
  const hasTrailer = payload.kind === "unsigned-chunks" || (payload.kind === "signed-chunks" && payload.trailer);
  const values = headers.all("x-amz-trailer");
  if (!hasTrailer) {
    if (values.length > 0) throw new S3Error("InvalidRequest", "x-amz-trailer needs an x-amz-content-sha256 with a trailer.");
    return [];
  }
  const names = values.flatMap((value) => value.split(",")).map((name) => name.trim().toLowerCase());
  // Without a signature of the trailer S3 lets its announcement be absent: then there is no trailer.
  if (names.length === 0 && payload.kind === "unsigned-chunks") return [];
  if (names.length === 0 || names.length > TRAILERS_MAX) {
    throw new S3Error("InvalidRequest", "The x-amz-trailer header must name the trailing checksum.");
  }
  return names.map((name) => {
    const algorithm = name.startsWith("x-amz-checksum-") ? checksumAlgorithm(name.slice("x-amz-checksum-".length)) : undefined;
    if (algorithm === undefined) throw new S3Error("InvalidRequest", "The value specified in the x-amz-trailer header is not supported.");
    return { kind: "trailer" as const, algorithm };
  });
}

export function checkedValue(name: string, algorithm: ChecksumAlgorithm, value: string): string {
  if (decodeBase64(value, CHECKSUM_BYTES[algorithm]) === undefined) {
    throw new S3Error("InvalidRequest", `Value for ${name} is not valid.`);
  }
  return value;
}
