// The policy of a form: what its signer lets others upload. Every field but the few that S3 names must be covered by a condition.
import { parsePolicyJson, type JsonObject } from "../access/policy-json.ts";
import { isoTimeOf } from "../dates.ts";
import { decodeBase64 } from "../encoding.ts";
import { S3Error } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { POST_CONDITIONS_MAX } from "../limits.ts";

type Condition =
  | { readonly kind: "eq" | "starts-with"; readonly field: string; readonly value: string }
  | { readonly kind: "length"; readonly minBytes: number; readonly maxBytes: number };

export interface PostPolicy {
  readonly expiresMs: number;
  readonly conditions: readonly Condition[];
}

/** Of the file, both included. */
export interface FileBytes {
  readonly minBytes: number;
  readonly maxBytes: number;
}

const ANY_FILE: FileBytes = { minBytes: 0, maxBytes: Number.MAX_SAFE_INTEGER };

const invalid = (what: string): S3Error => new S3Error("InvalidPolicyDocument", `Invalid Policy: ${what}.`);
const refusal = (what: string): S3Error => new S3Error("AccessDenied", `Invalid according to Policy: ${what}`);

/** Base64 of its JSON, as it was signed. InvalidPolicyDocument. */
export function readPostPolicy(base64: string): PostPolicy {
  const bytes = decodeBase64(base64);
  if (bytes === undefined) throw invalid("it is not base64");
  const document = jsonOf(bytes);
  const unknown = Object.keys(document).find((name) => name !== "expiration" && name !== "conditions");
  if (unknown !== undefined) throw invalid(`unexpected ${unknown.slice(0, 64)}`);
  const { expiration, conditions } = document;
  const expiresMs = typeof expiration === "string" ? isoTimeOf(expiration) : undefined;
  if (expiresMs === undefined) throw invalid("its expiration is missing or no time in ISO 8601");
  if (!Array.isArray(conditions)) throw invalid("its conditions are missing or no list");
  const all = (conditions as readonly unknown[]).flatMap(readCondition);
  if (all.length > POST_CONDITIONS_MAX) throw invalid(`it has more than ${POST_CONDITIONS_MAX} conditions`);
  return { expiresMs, conditions: all };
}

function jsonOf(bytes: Uint8Array): JsonObject {
  try {
    return parsePolicyJson(bytes);
  } catch (cause) {
    if (cause instanceof S3Error) throw new S3Error("InvalidPolicyDocument", cause.message, { cause });
    throw cause;
  }
}

function readCondition(condition: unknown): readonly Condition[] {
  if (Array.isArray(condition)) return [readListed(condition as readonly unknown[])];
  if (typeof condition !== "object" || condition === null) throw invalid("a condition is neither an object nor a list");
  const entries = Object.entries(condition);
  if (entries.length === 0) throw invalid("a condition says nothing");
  return entries.map(([field, value]) => {
    if (typeof value !== "string") throw invalid("a condition has a value that is no text");
    return { kind: "eq", field: field.toLowerCase(), value };
  });
}

function readListed([operator, first, second, ...more]: readonly unknown[]): Condition {
  if (typeof operator !== "string" || more.length > 0) throw invalid("a condition has not three entries");
  const kind = operator.toLowerCase();
  if (kind === "content-length-range") return { kind: "length", minBytes: lengthOf(first), maxBytes: lengthOf(second) };
  if (kind !== "eq" && kind !== "starts-with") throw invalid(`unknown condition ${operator.slice(0, 64)}`);
  if (typeof first !== "string" || typeof second !== "string" || !first.startsWith("$")) throw invalid("a condition names no $field");
  return { kind, field: first.slice(1).toLowerCase(), value: second };
}

function lengthOf(value: unknown): number {
  const text = typeof value === "number" || typeof value === "string" ? String(value) : "";
  if (!/^\d{1,15}$/.test(text)) throw invalid("a content-length-range has no whole numbers");
  return Number(text);
}

/** Not covered by conditions: what the policy cannot say of itself, and what means nothing. */
const isFree = (name: string): boolean => name === "policy" || name === "x-amz-signature" || name.startsWith("x-ignore-");

/**
 * `fields` as they are used: with the key's ${filename} filled in, and with the bucket of the request as a field. AccessDenied. The bytes that
 * the file may have.
 */
export function checkForm(policy: PostPolicy, fields: Fields, nowMs: number): FileBytes {
  if (nowMs >= policy.expiresMs) throw refusal("Policy expired.");
  const covered = new Set(policy.conditions.map((one) => (one.kind === "length" ? "" : one.field)));
  const extra = fields.entries.find(([name]) => !isFree(name) && !covered.has(name));
  if (extra !== undefined) throw refusal(`Extra input fields: ${extra[0].slice(0, 64)}`);
  let range = ANY_FILE;
  for (const one of policy.conditions) {
    if (one.kind === "length") {
      range = { minBytes: Math.max(range.minBytes, one.minBytes), maxBytes: Math.min(range.maxBytes, one.maxBytes) };
    } else if (!holds(one, fields.one(one.field) ?? "")) {
      throw refusal(`Policy Condition failed: ["${one.kind}", "$${one.field}", "${one.value}"]`);
    }
  }
  return range;
}

/** A Content-Type may be a list: each of it is to begin so. */
function holds({ kind, field, value }: Exclude<Condition, { readonly kind: "length" }>, found: string): boolean {
  if (kind === "eq") return found === value;
  const all = field === "content-type" ? found.split(",").map((one) => one.trim()) : [found];
  return all.every((one) => one.startsWith(value));
}

/** The key, or another field, with the name that the browser gave the file. */
export function withFileName(name: string, value: string, fileName: string): string {
  const isOfSignature = name === "policy" || /^x-amz-(?:algorithm|credential|date|signature|security-token)$/.test(name);
  return isOfSignature ? value : value.replaceAll("${filename}", () => fileName);
}

/** The file as it passes: EntityTooLarge at the first byte too many, EntityTooSmall at its end. */
export async function* withinBytes(
  file: AsyncIterable<Uint8Array>,
  { minBytes, maxBytes }: FileBytes,
): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0;
  for await (const chunk of file) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new S3Error("EntityTooLarge", undefined, { elements: { MaxSizeAllowed: String(maxBytes) } });
    yield chunk;
  }
  if (bytes < minBytes)
    throw new S3Error("EntityTooSmall", undefined, { elements: { ProposedSize: String(bytes), MinSizeAllowed: String(minBytes) } });
}
