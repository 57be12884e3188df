// What x-amz-content-sha256 may say. Anything else is refused for every route.
import { createHmac } from "node:crypto";
import { S3Error } from "../errors.ts";
import type { SignedFields } from "./authorization.ts";

export type Payload =
  /** The SHA-256 of the body. */
  | { readonly kind: "hash"; readonly sha256Hex: string }
  | { readonly kind: "unsigned" }
  /** aws-chunked; every chunk has a signature that goes on from the one before, and so has the trailer. */
  | { readonly kind: "signed-chunks"; readonly trailer: boolean; readonly chain: SignatureChain }
  /** aws-chunked without signatures, with a trailer. */
  | { readonly kind: "unsigned-chunks" };

/** Signs in the name of the request; the key stays inside. */
export interface SignatureChain {
  readonly timestamp: string;
  readonly scope: string;
  /** The signature of the request: the first chunk goes on from it. */
  readonly seed: string;
  sign(text: string): Uint8Array;
}

/** Of a request without a signature: no chunk can go on from one. */
export function readUnsignedPayload(word: string): Payload {
  if (word === "STREAMING-UNSIGNED-PAYLOAD-TRAILER") return { kind: "unsigned-chunks" };
  return readWhole(word) ?? refuse(word);
}

function readWhole(word: string): Payload | undefined {
  if (/^[0-9a-f]{64}$/.test(word)) return { kind: "hash", sha256Hex: word };
  return word === "UNSIGNED-PAYLOAD" ? { kind: "unsigned" } : undefined;
}

export function readPayload(word: string, signed: SignedFields, signingKey: Uint8Array): Payload {
  const whole = readWhole(word);
  if (whole !== undefined) return whole;
  if (signed.via === "header") {
    if (word === "STREAMING-UNSIGNED-PAYLOAD-TRAILER") return { kind: "unsigned-chunks" };
    const chain: SignatureChain = {
      timestamp: signed.timestamp,
      scope: `${signed.date}/${signed.region}/s3/aws4_request`,
      seed: signed.signature,
      sign: (text) => createHmac("sha256", signingKey).update(text).digest(),
    };
    if (word === "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") return { kind: "signed-chunks", trailer: false, chain };
    if (word === "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") return { kind: "signed-chunks", trailer: true, chain };
  }
  return refuse(word);
}

function refuse(word: string): never {
  throw new S3Error(
    "InvalidArgument",
    "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, " +
      "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a SHA-256 in hex.",
    { elements: { ArgumentName: "x-amz-content-sha256", ArgumentValue: word } },
  );
}
