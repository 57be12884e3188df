import type { NamedColumn, Position } from "./ast.ts";
import { syntaxError, unsupported } from "./errors.ts";
import type { Token } from "./lexer.ts";

/** A place in a statement's tokens. The parser is a set of functions over it; nothing nests, so nothing recurses. */
export interface Cursor {
  readonly tokens: readonly Token[];
  /** Index of the next token; the last token, of kind `end`, is never passed. */
  next: number;
  /** `?` seen so far. */
  bindCount: number;
}

/** Words that name no column or table unless quoted. */
const RESERVED: ReadonlySet<string> = new Set(
  (
    "allow and apply asc batch begin by create delete desc drop from if in index insert into is limit not null on or order primary " +
    "select set table token true false unlogged update using where with alter truncate grant revoke use"
  ).split(" "),
);

export function peek(cursor: Cursor, ahead = 0): Token {
  return cursor.tokens[Math.min(cursor.next + ahead, cursor.tokens.length - 1)]!;
}

export function take(cursor: Cursor): Token {
  const token = peek(cursor);
  if (token.kind !== "end") cursor.next += 1;
  return token;
}

export function isWord(token: Token, ...names: readonly string[]): boolean {
  return token.kind === "word" && names.includes(token.name);
}

export function isSymbol(token: Token, ...symbols: readonly string[]): boolean {
  return token.kind === "symbol" && symbols.includes(token.symbol);
}

export function acceptWord(cursor: Cursor, name: string): boolean {
  const found = isWord(peek(cursor), name);
  if (found) cursor.next += 1;
  return found;
}

export function acceptSymbol(cursor: Cursor, symbol: string): boolean {
  const found = isSymbol(peek(cursor), symbol);
  if (found) cursor.next += 1;
  return found;
}

/** Takes the words in turn; CQL_SYNTAX at the first that differs. */
export function expectWords(cursor: Cursor, ...names: readonly string[]): void {
  for (const name of names) {
    if (!acceptWord(cursor, name)) throw unexpected(cursor, name.toUpperCase());
  }
}

export function expectSymbol(cursor: Cursor, symbol: string): void {
  if (!acceptSymbol(cursor, symbol)) throw unexpected(cursor, `"${symbol}"`);
}

/** A column's name: a word that is not reserved, or anything in double quotes. */
export function columnName(cursor: Cursor): NamedColumn {
  const token = peek(cursor);
  const { at } = token;
  if (token.kind === "quoted" || (token.kind === "word" && !RESERVED.has(token.name))) {
    cursor.next += 1;
    return { name: token.name, at };
  }
  if (token.kind === "word") throw syntaxError(at, `${token.name} is a reserved word; put it in double quotes to use it as a name`);
  throw unexpected(cursor, "a name");
}

export function tableName(cursor: Cursor): string {
  const { name } = columnName(cursor);
  const dot = peek(cursor);
  if (isSymbol(dot, ".")) throw unsupported(dot.at, "a keyspace before a table's name", "write the table's name alone");
  return name;
}

/** `( name, name ... )`. */
export function columnList(cursor: Cursor): NamedColumn[] {
  expectSymbol(cursor, "(");
  const names = [columnName(cursor)];
  while (acceptSymbol(cursor, ",")) names.push(columnName(cursor));
  expectSymbol(cursor, ")");
  return names;
}

export function unexpected(cursor: Cursor, expected: string): Error {
  const token = peek(cursor);
  return syntaxError(token.at, `expected ${expected}, found ${described(token)}`);
}

export function here(cursor: Cursor): Position {
  return peek(cursor).at;
}

function described(token: Token): string {
  switch (token.kind) {
    case "word":
      return token.name;
    case "quoted":
      return `"${token.name}"`;
    case "symbol":
      return `"${token.symbol}"`;
    case "end":
      return "the end of the statement";
    case "integer":
    case "decimal":
    case "text":
    case "blob":
    case "uuid":
      return `a ${token.kind} value`;
  }
}
