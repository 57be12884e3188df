import { ConcordError } from "@concord/runtime";
import { SCHEMA_LIMITS } from "../limits.ts";
import type { Assignment, Batch, Delete, Insert, Update, Write, WriteCondition } from "./ast.ts";
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
import { syntaxError, unsupported } from "./errors.ts";
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
  const condition = insertCondition(cursor);
  const timestamp = usingTimestamp(cursor);
  const assignments = columns.map((column, index) => ({ column, term: terms[index]! }));
  return { kind: "insert", table, assignments, condition, timestamp };
}

/** IF NOT EXISTS of an INSERT. */
function insertCondition(cursor: Cursor): WriteCondition | undefined {
  const at = here(cursor);
  if (!acceptWord(cursor, "if")) return undefined;
  if (!isWord(peek(cursor), "not")) throw unsupported(at, "IF of an INSERT other than NOT EXISTS", "UPDATE ... IF, or a transaction");
  expectWords(cursor, "not", "exists");
  return { kind: "absent", at };
}

/** IF EXISTS, or IF column = value AND ..., of an UPDATE or DELETE. */
function rowCondition(cursor: Cursor): WriteCondition | undefined {
  const at = here(cursor);
  if (!acceptWord(cursor, "if")) return undefined;
  if (isWord(peek(cursor), "not")) throw unsupported(at, "IF NOT EXISTS of an UPDATE or DELETE", "INSERT ... IF NOT EXISTS");
  if (isWord(peek(cursor), "exists") && !isSymbol(peek(cursor, 1), "=")) {
    cursor.next += 1;
    return { kind: "present", at };
  }
  const columns = [comparison(cursor)];
  while (acceptWord(cursor, "and")) columns.push(comparison(cursor));
  return { kind: "equal", at, columns };
}

function comparison(cursor: Cursor): Assignment {
  const column = columnName(cursor);
  const token = peek(cursor);
  if (isSymbol(token, "[", ".")) throw unsupported(token.at, "part of a column", "a column is compared whole");
  if (isSymbol(token, "<", "<=", ">", ">=", "!=") || isWord(token, "in"))
    throw unsupported(token.at, "IF with another comparison than =", "compare in a transaction");
  expectSymbol(cursor, "=");
  return { column, term: term(cursor) };
}

/** UPDATE; the word is taken already. */
export function updateStatement(cursor: Cursor): Update {
  const table = tableName(cursor);
  const timestamp = usingTimestamp(cursor);
  expectWords(cursor, "set");
  const assignments = [assignment(cursor)];
  while (acceptSymbol(cursor, ",")) assignments.push(assignment(cursor));
  const where = whereClause(cursor);
  const condition = rowCondition(cursor);
  return { kind: "update", table, assignments, where, condition, timestamp };
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
  const condition = rowCondition(cursor);
  return { kind: "delete", table, where, condition, timestamp };
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
