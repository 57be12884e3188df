import type { Statement, StatementBody } from "./ast.ts";
import { acceptSymbol, acceptWord, here, peek, unexpected, type Cursor } from "./cursor.ts";
import { unsupported } from "./errors.ts";
import { tokensOf } from "./lexer.ts";
import { createStatement } from "./parse-create.ts";
import { selectStatement } from "./parse-select.ts";
import { batchStatement, writeStatement } from "./parse-write.ts";

const ADVICE: Readonly<Record<string, string>> = {
  alter: "create a new table and copy",
  drop: "tables and indexes stay",
  truncate: "delete the rows",
  use: "there are no keyspaces",
  grant: "access is part of the services' configuration",
  revoke: "access is part of the services' configuration",
  list: "access is part of the services' configuration",
  describe: "ask the schema call",
  desc: "ask the schema call",
  explain: "every query is a key or an index range",
  merge: "read and write in a transaction",
  replace: "INSERT replaces the columns it names",
  call: "there are no procedures",
  commit: "commit a transaction by its own call",
  rollback: "roll back a transaction by its own call",
};

/**
 * One statement of the CQL subset (TX24). Refused with a position: CQL_SYNTAX for text that is not CQL, CQL_UNSUPPORTED or USE_TRANSACTION
 * for CQL outside the subset, LIMIT_EXCEEDED. The result holds no values of binds, clock or schema and may be kept per text.
 */
export function parse(text: string): Statement {
  const cursor: Cursor = { tokens: tokensOf(text), next: 0, bindCount: 0 };
  const body = statementBody(cursor);
  while (acceptSymbol(cursor, ";"));
  const rest = peek(cursor);
  if (rest.kind !== "end") {
    const isNext = cursor.tokens[cursor.next - 1]?.kind === "symbol" && isStart(rest.kind === "word" ? rest.name : "");
    if (isNext) throw unsupported(rest.at, "a second statement", "send one at a time, or writes in a BATCH");
    throw unexpected(cursor, "the end of the statement");
  }
  return { body, bindCount: cursor.bindCount };
}

function statementBody(cursor: Cursor): StatementBody {
  const write = writeStatement(cursor);
  if (write !== undefined) return write;
  if (acceptWord(cursor, "select")) return selectStatement(cursor);
  if (acceptWord(cursor, "create")) return createStatement(cursor);
  if (acceptWord(cursor, "begin")) return batchStatement(cursor);
  const token = peek(cursor);
  const advice = token.kind === "word" && Object.hasOwn(ADVICE, token.name) ? ADVICE[token.name] : undefined;
  if (token.kind === "word" && advice !== undefined) throw unsupported(here(cursor), token.name.toUpperCase(), advice);
  throw unexpected(cursor, "SELECT, INSERT, UPDATE, DELETE, CREATE or BEGIN BATCH");
}

function isStart(name: string): boolean {
  return ["select", "insert", "update", "delete", "create", "begin"].includes(name) || Object.hasOwn(ADVICE, name);
}
