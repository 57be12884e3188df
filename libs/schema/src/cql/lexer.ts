import { foldName } from "@concord/codec";
import { ConcordError, fromHex } from "@concord/runtime";
import type { Literal } from "@concord/values";
import { SCHEMA_LIMITS } from "../limits.ts";
import type { Position } from "./ast.ts";
import { syntaxError } from "./errors.ts";

export type Token =
  /** `name` is lower-cased: unquoted words have no case. */
  | { readonly kind: "word"; readonly name: string; readonly at: Position }
  | { readonly kind: "quoted"; readonly name: string; readonly at: Position }
  | (Exclude<Literal, { kind: "boolean" }> & { readonly at: Position })
  | { readonly kind: "symbol"; readonly symbol: string; readonly at: Position }
  | { readonly kind: "end"; readonly at: Position };

const BLANK = /(?:\s+|--[^\n]*|\/\/[^\n]*|\/\*[^]*?\*\/)+/y;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-z_])/iy;
const BLOB = /0x([0-9a-z_]*)/iy;
const NUMBER = /-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?(?![0-9a-z_])/iy;
const WORD = /[a-z][a-z0-9_]*/iy;
const QUOTED = /"(?:[^"]|"")*"/y;
const TEXT = /'((?:[^']|'')*)'/y;
const SYMBOL = /<=|>=|!=|<>|[(),;.*?=<>:+\-[\]{}%/]/y;

/** Cuts a statement into tokens, the last of kind `end`. CQL_SYNTAX; LIMIT_EXCEEDED above `statementLengthMax`. */
export function tokensOf(text: string): Token[] {
  if (text.length > SCHEMA_LIMITS.statementLengthMax) {
    throw new ConcordError("LIMIT_EXCEEDED", `a statement of ${text.length} characters; at most ${SCHEMA_LIMITS.statementLengthMax}`);
  }
  const positionAt = positions(text);
  const tokens: Token[] = [];
  for (let offset = skipBlank(text, 0); offset < text.length;) {
    if (text.startsWith("/*", offset)) throw syntaxError(positionAt(offset), "a comment that begins here has no closing */");
    const { token, end } = tokenAt(text, offset, positionAt(offset));
    tokens.push(token);
    offset = skipBlank(text, end);
  }
  tokens.push({ kind: "end", at: positionAt(text.length) });
  return tokens;
}

function tokenAt(text: string, offset: number, at: Position): { token: Token; end: number } {
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = offset;
    return pattern.exec(text);
  };
  const found = (matched: RegExpExecArray, token: Token): { token: Token; end: number } => ({ token, end: offset + matched[0].length });
  const uuid = match(UUID);
  if (uuid !== null) return found(uuid, { kind: "uuid", value: uuid[0].replaceAll("-", "").toLowerCase(), at });
  const blob = match(BLOB);
  if (blob !== null) return found(blob, { kind: "blob", value: blobOf(blob[1]!, at), at });
  const number = match(NUMBER);
  if (number !== null) return found(number, numberOf(number, at));
  const word = match(WORD);
  if (word !== null) return found(word, { kind: "word", name: foldName(word[0]), at });
  const quoted = match(QUOTED);
  if (quoted !== null) return found(quoted, { kind: "quoted", name: foldName(quoted[0]), at });
  const literal = match(TEXT);
  if (literal !== null) return found(literal, { kind: "text", value: literal[1]!.replaceAll("''", "'"), at });
  const symbol = match(SYMBOL);
  if (symbol !== null) return found(symbol, { kind: "symbol", symbol: symbol[0], at });
  throw syntaxError(at, problemAt(text, offset));
}

function numberOf(matched: RegExpExecArray, at: Position): Token {
  const isInteger = matched[1] === undefined && matched[2] === undefined;
  return isInteger ? { kind: "integer", value: BigInt(matched[0]), at } : { kind: "decimal", text: matched[0], at };
}

function blobOf(digits: string, at: Position): Uint8Array {
  if (digits.length % 2 === 1 || !/^[0-9a-f]*$/i.test(digits)) throw syntaxError(at, "a blob is 0x and an even number of hex digits");
  return fromHex(digits);
}

function problemAt(text: string, offset: number): string {
  const character = String.fromCodePoint(text.codePointAt(offset)!);
  if (character === "'") return "a text that begins here has no closing '";
  if (character === '"') return 'a quoted name that begins here has no closing "';
  if (/[0-9]/.test(character)) return "a number runs into letters";
  return `unexpected character ${JSON.stringify(character)}`;
}

function skipBlank(text: string, offset: number): number {
  BLANK.lastIndex = offset;
  return BLANK.test(text) ? BLANK.lastIndex : offset;
}

/** Offsets must be asked for in ascending order: lines are counted once. */
function positions(text: string): (offset: number) => Position {
  let line = 1;
  let lineStart = 0;
  let counted = 0;
  return (offset) => {
    for (; counted < offset; counted += 1) {
      if (text.charCodeAt(counted) !== 10) continue;
      line += 1;
      lineStart = counted + 1;
    }
    return { offset, line, column: offset - lineStart + 1 };
  };
}
