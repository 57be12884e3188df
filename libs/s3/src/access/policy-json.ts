// JSON of a policy: read strictly, since a name that is there twice means one thing to its author and another to the reader.
import { decodeUtf8 } from "../encoding.ts";
import { S3Error } from "../errors.ts";
import { POLICY_BYTES_MAX, POLICY_DEPTH_MAX } from "../limits.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export function malformedPolicy(what: string): S3Error {
  return new S3Error("MalformedPolicy", `The policy is not valid: ${what}.`);
}

/** MalformedPolicy for everything that is not one object without a name twice. */
export function parsePolicyJson(bytes: Uint8Array): JsonObject {
  if (bytes.length > POLICY_BYTES_MAX) throw malformedPolicy(`it is longer than ${POLICY_BYTES_MAX} bytes`);
  const text = decodeUtf8(bytes);
  if (text === undefined) throw malformedPolicy("it is not UTF-8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformedPolicy("it is no JSON");
  }
  checkNames(text);
  return objectOf(value, "the policy");
}

export function objectOf(value: unknown, what: string): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw malformedPolicy(`${what} must be an object`);
  return value as JsonObject;
}

/** One text, or a list of at least one. */
export function textsOf(value: unknown, what: string): readonly string[] {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (all.length === 0 || !all.every((one) => typeof one === "string")) throw malformedPolicy(`${what} must be a text or a list of texts`);
  return all;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/** Of a text that is JSON: no object has a name twice, and it is not nested too deeply. */
function checkNames(text: string): void {
  const open: (Set<string> | undefined)[] = [];
  let last = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "{" || token === "[") open.push(token === "{" ? new Set() : undefined);
    if (open.length > POLICY_DEPTH_MAX) throw malformedPolicy("it is nested too deeply");
    if (token === "}" || token === "]") open.pop();
    if (token === ":") {
      const names = open.at(-1)!;
      const name = JSON.parse(last) as string;
      if (names.has(name)) throw malformedPolicy(`${name} is there twice`);
      names.add(name);
    }
    last = token;
  }
}
