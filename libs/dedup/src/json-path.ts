const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const MINUS = 0x2d;

export type JsonText =
  | { readonly kind: "found"; readonly bytes: Uint8Array }
  /** There is no such member, or it is neither a string nor a number. */
  | { readonly kind: "missing" }
  /** What was read up to there is not JSON. */
  | { readonly kind: "malformed" };

const MISSING: JsonText = { kind: "missing" };
const MALFORMED: JsonText = { kind: "malformed" };

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * The string (unescaped) or number (as written) at a path of member names, the first of equal names. Scans bytes up to it and no
 * further: a quarter of the time that parsing the whole value takes.
 */
export function findJsonText(json: Uint8Array, path: readonly Uint8Array[]): JsonText {
  let at = skipSpace(json, 0);
  for (const name of path) {
    if (json[at] !== OPEN_BRACE) return isValueStart(json[at]) ? MISSING : MALFORMED;
    const member = findMember(json, at, name);
    if (typeof member !== "number") return member;
    at = member;
  }
  return textAt(json, at);
}

export function jsonPath(names: readonly string[]): Uint8Array[] {
  return names.map((name) => encoder.encode(name));
}

/** Where the value of the object's member begins; `at` is the object's brace. */
function findMember(json: Uint8Array, at: number, name: Uint8Array): number | JsonText {
  let next = skipSpace(json, at + 1);
  if (json[next] === CLOSE_BRACE) return MISSING;
  for (;;) {
    const keyEnd = json[next] === QUOTE ? stringEnd(json, next) : -1;
    if (keyEnd < 0) return MALFORMED;
    const isWanted = isText(json, next, keyEnd, name);
    next = skipSpace(json, keyEnd);
    if (json[next] !== COLON) return MALFORMED;
    next = skipSpace(json, next + 1);
    if (isWanted) return next;
    next = valueEnd(json, next);
    if (next < 0) return MALFORMED;
    next = skipSpace(json, next);
    if (json[next] === CLOSE_BRACE) return MISSING;
    if (json[next] !== COMMA) return MALFORMED;
    next = skipSpace(json, next + 1);
  }
}

function textAt(json: Uint8Array, at: number): JsonText {
  const first = json[at];
  if (first === QUOTE) {
    const end = stringEnd(json, at);
    const bytes = end < 0 ? undefined : unescaped(json, at, end);
    return bytes === undefined ? MALFORMED : { kind: "found", bytes };
  }
  if (first === MINUS || isDigit(first)) {
    const end = valueEnd(json, at);
    return end < 0 ? MALFORMED : { kind: "found", bytes: json.subarray(at, end) };
  }
  return isValueStart(first) ? MISSING : MALFORMED;
}

function skipSpace(json: Uint8Array, at: number): number {
  let next = at;
  while (json[next] === 0x20 || json[next] === 0x0a || json[next] === 0x0d || json[next] === 0x09) next += 1;
  return next;
}

/** One behind the closing quote; below 0: it does not end. */
function stringEnd(json: Uint8Array, at: number): number {
  for (let next = at + 1; next < json.length; next += 1) {
    if (json[next] === QUOTE) return next + 1;
    if (json[next] === BACKSLASH) next += 1;
  }
  return -1;
}

/** One behind the value; below 0: it does not end. Nesting is counted, not followed. */
function valueEnd(json: Uint8Array, at: number): number {
  let depth = 0;
  let next = at;
  while (next < json.length) {
    const byte = json[next]!;
    if (byte === QUOTE) {
      next = stringEnd(json, next);
      if (next < 0) return -1;
      if (depth === 0) return next;
      continue;
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth === 0) return next > at ? next : -1;
      depth -= 1;
      if (depth === 0) return next + 1;
    } else if (depth === 0 && (byte === COMMA || byte === COLON || byte <= 0x20)) return next > at ? next : -1;
    next += 1;
  }
  return depth === 0 && next > at ? next : -1;
}

function isText(json: Uint8Array, at: number, end: number, text: Uint8Array): boolean {
  const bytes = unescaped(json, at, end);
  return bytes !== undefined && bytes.length === text.length && bytes.every((byte, index) => byte === text[index]);
}

/** What stands between the quotes; undefined: an escape that JSON does not have, or no text: replaced by U+FFFD two ids would be one. */
function unescaped(json: Uint8Array, at: number, end: number): Uint8Array | undefined {
  const inner = json.subarray(at + 1, end - 1);
  if (!inner.includes(BACKSLASH)) return inner;
  try {
    const text = JSON.parse(decoder.decode(json.subarray(at, end))) as string;
    return text.isWellFormed() ? encoder.encode(text) : undefined;
  } catch {
    return undefined;
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** An object, array, string, number, true, false or null begins so. */
function isValueStart(byte: number | undefined): boolean {
  return isDigit(byte) || [OPEN_BRACE, OPEN_BRACKET, QUOTE, MINUS, 0x74, 0x66, 0x6e].includes(byte ?? 0);
}
