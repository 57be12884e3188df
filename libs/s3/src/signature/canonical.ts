// The canonical request of Signature Version 4 as S3 has it: the path is encoded once and not normalised.
import { createHash } from "node:crypto";
import { percentEncode } from "../encoding.ts";
import type { Fields } from "../fields.ts";
import type { Target } from "../target.ts";

export interface CanonicalParts {
  readonly method: string;
  readonly target: Target;
  readonly headers: Fields;
  /** Sorted names in lower case. */
  readonly signedHeaders: readonly string[];
  /** What stands for the body: its SHA-256, or one of the words. */
  readonly payload: string;
}

export function canonicalRequest(parts: CanonicalParts): string {
  const { method, target, headers, signedHeaders, payload } = parts;
  const lines = signedHeaders.map((name) => `${name}:${headers.all(name).map(canonicalValue).join(",")}\n`).join("");
  const path = percentEncode(target.path, "kept");
  return `${method}\n${path}\n${canonicalQuery(target.query)}\n${lines}\n${signedHeaders.join(";")}\n${payload}`;
}

/** Trimmed, runs of spaces as one. */
function canonicalValue(value: string): string {
  return value.trim().replace(/ {2,}/g, " ");
}

/** Sorted by encoded name, then by encoded value; the signature itself is left out. */
function canonicalQuery(query: Fields): string {
  const encoded = query.entries
    .filter(([name]) => name !== "X-Amz-Signature")
    .map(([name, value]) => [percentEncode(name), percentEncode(value)] as const);
  return encoded
    .toSorted(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");
}

/** Encoded texts are ASCII: code units are bytes. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Header values are bytes: node hands them out as latin1. */
export function stringToSign(canonical: string, timestamp: string, scope: string): string {
  const hash = createHash("sha256").update(canonical, "latin1").digest("hex");
  return `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${hash}`;
}
