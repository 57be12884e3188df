import { ConcordError } from "@concord/runtime";
import { SCHEMA_LIMITS } from "../limits.ts";
import type { Condition, Operator, Term } from "./ast.ts";
import {
  acceptWord,
  columnName,
  expectSymbol,
  expectWords,
  here,
  isSymbol,
  isWord,
  peek,
  take,
  unexpected,
  type Cursor,
} from "./cursor.ts";
import { unsupported } from "./errors.ts";

/** A literal, `?`, now() or uuid(). */
export function term(cursor: Cursor): Term {
  const token = peek(cursor);
  const { at } = token;
  switch (token.kind) {
    case "integer":
    case "decimal":
    case "text":
    case "blob":
    case "uuid":
      cursor.next += 1;
      return token;
    case "word":
      return wordTerm(cursor, token.name);
    case "symbol":
      return symbolTerm(cursor, token.symbol);
    case "quoted":
      throw unsupported(at, "a column as a value", "give a literal or ?");
    case "end":
      throw unexpected(cursor, "a value");
  }
}

function wordTerm(cursor: Cursor, name: string): Term {
  const at = here(cursor);
  if (isSymbol(peek(cursor, 1), "(")) return call(cursor, name);
  cursor.next += 1;
  if (name === "true" || name === "false") return { kind: "boolean", value: name === "true", at };
  if (name === "null") return { kind: "null", at };
  const counts = isSymbol(peek(cursor), "+", "-") || peek(cursor).kind === "integer";
  if (counts) throw unsupported(at, "arithmetic on a column", "read the row in a transaction and write the result");
  throw unsupported(at, `${name} as a value`, "give a literal or ?; another column's value is read and written in a transaction");
}

function call(cursor: Cursor, name: string): Term {
  const at = here(cursor);
  if (name !== "now" && name !== "uuid") throw unsupported(at, `function ${name}()`, "give a literal or ?; there are now() and uuid()");
  cursor.next += 1;
  expectSymbol(cursor, "(");
  expectSymbol(cursor, ")");
  return { kind: "call", name, at };
}

function symbolTerm(cursor: Cursor, symbol: string): Term {
  const at = here(cursor);
  if (symbol === "?") {
    cursor.next += 1;
    cursor.bindCount += 1;
    if (cursor.bindCount > SCHEMA_LIMITS.bindsMax) {
      throw new ConcordError("LIMIT_EXCEEDED", `more than ${SCHEMA_LIMITS.bindsMax} bind markers in one statement`);
    }
    return { kind: "bind", index: cursor.bindCount - 1, at };
  }
  if (symbol === ":") throw unsupported(at, "a named bind marker", "use ?");
  if (symbol === "[" || symbol === "{") throw unsupported(at, "a collection", "use a table of its own or a blob");
  if (symbol === "(") throw unsupported(at, "a tuple", "give the columns one by one");
  throw unexpected(cursor, "a value");
}

/** `WHERE column op value AND ...`; the word WHERE is the next token. */
export function whereClause(cursor: Cursor): Condition[] {
  expectWords(cursor, "where");
  const conditions = [condition(cursor)];
  while (acceptWord(cursor, "and")) {
    conditions.push(condition(cursor));
    if (conditions.length > SCHEMA_LIMITS.constraintsMax) {
      throw new ConcordError("LIMIT_EXCEEDED", `more than ${SCHEMA_LIMITS.constraintsMax} conditions in one WHERE`);
    }
  }
  const after = peek(cursor);
  if (isWord(after, "or")) throw unsupported(after.at, "OR", "ask one query for each side");
  return conditions;
}

function condition(cursor: Cursor): Condition {
  const first = peek(cursor);
  if (isSymbol(first, "("))
    throw unsupported(first.at, "a comparison of tuples or a parenthesis in WHERE", "join single conditions with AND");
  if (isWord(first, "token")) throw unsupported(first.at, "token()", "query by key or index");
  const column = columnName(cursor);
  const operatorToken = peek(cursor);
  const refused = refusedOperator(cursor);
  if (refused !== undefined) throw unsupported(operatorToken.at, refused.construct, refused.advice);
  return { column, operator: operator(cursor), term: term(cursor) };
}

function operator(cursor: Cursor): Operator {
  const token = peek(cursor);
  if (token.kind === "symbol") {
    const { symbol } = token;
    if (symbol === "=" || symbol === "<" || symbol === "<=" || symbol === ">" || symbol === ">=") {
      take(cursor);
      return symbol;
    }
  }
  throw unexpected(cursor, "one of = < <= > >=");
}

function refusedOperator(cursor: Cursor): { construct: string; advice: string } | undefined {
  const token = peek(cursor);
  if (isSymbol(token, "!=", "<>")) return { construct: "!=", advice: "ask for the ranges below and above" };
  if (isSymbol(token, "[", ".")) return { construct: "part of a column", advice: "a column is read and compared whole" };
  if (isSymbol(token, "(")) return { construct: "a function in WHERE", advice: "compare a column with a value" };
  if (isWord(token, "in")) return { construct: "IN", advice: "read several keys in one call, or ask one query for each value" };
  if (isWord(token, "between")) return { construct: "BETWEEN", advice: "write column >= low AND column <= high" };
  if (isWord(token, "is")) return { construct: "IS [NOT] NULL", advice: "a null is in no index; index a boolean beside it" };
  if (isWord(token, "contains", "like", "not")) return { construct: "this comparison", advice: "compare with = < <= > >=" };
  return undefined;
}

/** `USING TIMESTAMP n`, when it is there. */
export function usingTimestamp(cursor: Cursor): Term | undefined {
  if (!acceptWord(cursor, "using")) return undefined;
  refuseTtl(cursor);
  expectWords(cursor, "timestamp");
  const timestamp = term(cursor);
  if (acceptWord(cursor, "and")) {
    refuseTtl(cursor);
    throw unexpected(cursor, "the rest of the statement");
  }
  return timestamp;
}

function refuseTtl(cursor: Cursor): void {
  if (isWord(peek(cursor), "ttl")) throw unsupported(here(cursor), "TTL", "delete rows yourself");
}
