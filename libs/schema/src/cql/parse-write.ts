import { ConcordError } from "@concord/runtime";
import { SCHEMA_LIMITS } from "../limits.ts";
import type { Assignment, Batch, Delete, Insert, Update, Write } from "./ast.ts";
import {
  acceptSymbol,
  acceptWord,
  columnList,
  columnName,
  expectSymbol,
  expectWords,
  here,
  isSymbol,
  isWord,
  peek,
  tableName,
  unexpected,
  type Cursor,
} from "./cursor.ts";
import { syntaxError, unsupported, useTransaction } from "./errors.ts";
import { term, usingTimestamp, whereClause } from "./parse-terms.ts";

/** INSERT; the word is taken already. */
export function insertStatement(cursor: Cursor): Insert {
  expectWords(cursor, "into");
  const table = tableName(cursor);
  if (isWord(peek(cursor), "json")) throw unsupported(here(cursor), "INSERT JSON", "name the columns");
  const columns = columnList(cursor);
  expectWords(cursor, "values");
  const at = here(cursor);
  expectSymbol(cursor, "(");
  const terms = [term(cursor)];
  while (acceptSymbol(cursor, ",")) terms.push(term(cursor));
  expectSymbol(cursor, ")");
  if (terms.length !== columns.length) throw syntaxError(at, `${columns.length} columns and ${terms.length} values`);
  if (isSymbol(peek(cursor), ",")) throw unsupported(here(cursor), "INSERT of several rows", "use a BATCH");
  const ifNotExists = acceptIfNotExists(cursor);
  const timestamp = usingTimestamp(cursor);
  const assignments = columns.map((column, index) => ({ column, term: terms[index]! }));
  return { kind: "insert", table, assignments, ifNotExists, timestamp };
}

/** The one condition there is: under the row's lock it needs no read by the caller. */
function acceptIfNotExists(cursor: Cursor): boolean {
  const at = here(cursor);
  if (!acceptWord(cursor, "if")) return false;
  if (!isWord(peek(cursor), "not")) throw useTransaction(at);
  expectWords(cursor, "not", "exists");
  return true;
}

/** UPDATE; the word is taken already. */
export function updateStatement(cursor: Cursor): Update {
  const table = tableName(cursor);
  const timestamp = usingTimestamp(cursor);
  expectWords(cursor, "set");
  const assignments = [assignment(cursor)];
  while (acceptSymbol(cursor, ",")) assignments.push(assignment(cursor));
  const where = whereClause(cursor);
  refuseIf(cursor);
  return { kind: "update", table, assignments, where, timestamp };
}

function assignment(cursor: Cursor): Assignment {
  const column = columnName(cursor);
  const token = peek(cursor);
  if (isSymbol(token, "[", ".")) throw unsupported(token.at, "part of a column", "a column is written whole");
  if (isSymbol(token, "+", "-")) throw unsupported(token.at, "counting in place", "read the row in a transaction and write the result");
  expectSymbol(cursor, "=");
  const value = term(cursor);
  if (isSymbol(peek(cursor), "+", "-")) throw unsupported(here(cursor), "arithmetic", "read the row in a transaction and write the result");
  return { column, term: value };
}

/** DELETE; the word is taken already. */
export function deleteStatement(cursor: Cursor): Delete {
  if (!isWord(peek(cursor), "from")) {
    const { at } = columnName(cursor);
    throw unsupported(at, "DELETE of columns", "UPDATE ... SET column = null");
  }
  expectWords(cursor, "from");
  const table = tableName(cursor);
  const timestamp = usingTimestamp(cursor);
  const where = whereClause(cursor);
  refuseIf(cursor);
  return { kind: "delete", table, where, timestamp };
}

/** BEGIN ... APPLY BATCH; the word BEGIN is taken already. */
export function batchStatement(cursor: Cursor): Batch {
  refuseBeginning(cursor);
  const logged = !acceptWord(cursor, "unlogged");
  if (logged) acceptWord(cursor, "logged");
  expectWords(cursor, "batch");
  const timestamp = usingTimestamp(cursor);
  const writes: Write[] = [];
  acceptSymbol(cursor, ";");
  while (!acceptWord(cursor, "apply")) {
    if (writes.length === SCHEMA_LIMITS.batchStatementsMax) {
      throw new ConcordError("LIMIT_EXCEEDED", `more than ${SCHEMA_LIMITS.batchStatementsMax} statements in one batch`);
    }
    writes.push(writeInBatch(cursor));
    acceptSymbol(cursor, ";");
  }
  expectWords(cursor, "batch");
  return { kind: "batch", logged, writes, timestamp };
}

function refuseBeginning(cursor: Cursor): void {
  const token = peek(cursor);
  if (isWord(token, "counter")) throw unsupported(token.at, "a counter batch", "count in a transaction");
  if (isWord(token, "transaction")) throw unsupported(token.at, "BEGIN TRANSACTION", "open a transaction by its own call");
}

function writeInBatch(cursor: Cursor): Write {
  const at = here(cursor);
  const write = writeStatement(cursor);
  if (write !== undefined) {
    if (write.timestamp !== undefined) {
      throw unsupported(at, "a timestamp of one statement in a batch", "BEGIN BATCH USING TIMESTAMP: a batch has one for all");
    }
    return write;
  }
  if (isWord(peek(cursor), "select", "create", "begin")) {
    throw unsupported(at, "anything but INSERT, UPDATE, DELETE in a batch", "send it on its own");
  }
  throw unexpected(cursor, "INSERT, UPDATE, DELETE or APPLY BATCH");
}

/** The next write statement, or undefined when something else comes. */
export function writeStatement(cursor: Cursor): Write | undefined {
  if (acceptWord(cursor, "insert")) return insertStatement(cursor);
  if (acceptWord(cursor, "update")) return updateStatement(cursor);
  if (acceptWord(cursor, "delete")) return deleteStatement(cursor);
  return undefined;
}

function refuseIf(cursor: Cursor): void {
  if (isWord(peek(cursor), "if")) throw useTransaction(here(cursor));
}
