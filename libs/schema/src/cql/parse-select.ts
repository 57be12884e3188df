import type { Select, Term } from "./ast.ts";
import { acceptSymbol, acceptWord, columnName, expectWords, here, isSymbol, isWord, peek, tableName, type Cursor } from "./cursor.ts";
import { unsupported } from "./errors.ts";
import { term, whereClause } from "./parse-terms.ts";

/** SELECT; the word is taken already. */
export function selectStatement(cursor: Cursor): Select {
  const columns = selection(cursor);
  expectWords(cursor, "from");
  const table = tableName(cursor);
  refuseJoin(cursor);
  const where = isWord(peek(cursor), "where") ? whereClause(cursor) : [];
  refuseClause(cursor);
  const order = acceptWord(cursor, "order") ? orderBy(cursor) : [];
  refuseClause(cursor);
  const limit = limitClause(cursor);
  refuseClause(cursor);
  return { kind: "select", table, columns, where, order, limit, skipLocked: skipLockedClause(cursor) };
}

function selection(cursor: Cursor): string[] | undefined {
  if (acceptSymbol(cursor, "*")) return undefined;
  if (isWord(peek(cursor), "distinct", "json") && isPlainName(cursor, 1)) {
    throw unsupported(here(cursor), "SELECT DISTINCT or JSON", "name the columns");
  }
  const columns: string[] = [];
  do columns.push(selected(cursor));
  while (acceptSymbol(cursor, ","));
  return columns;
}

function isPlainName(cursor: Cursor, ahead: number): boolean {
  const token = peek(cursor, ahead);
  return (token.kind === "word" && token.name !== "from") || token.kind === "quoted" || isSymbol(token, "*");
}

function selected(cursor: Cursor): string {
  if (isSymbol(peek(cursor, 1), "(")) {
    throw unsupported(
      here(cursor),
      "a function or aggregate in SELECT",
      "read the rows, or keep a counter in a row changed by the same transactions",
    );
  }
  const { name } = columnName(cursor);
  const after = peek(cursor);
  if (isWord(after, "as")) throw unsupported(after.at, "AS", "use the column's own name");
  if (isSymbol(after, "[", ".")) throw unsupported(after.at, "part of a column", "a column is read whole");
  return name;
}

function refuseJoin(cursor: Cursor): void {
  const token = peek(cursor);
  if (isSymbol(token, ",") || isWord(token, "join", "inner", "left", "right", "full", "cross", "natural")) {
    throw unsupported(token.at, "a join", "read the tables one after the other; in a transaction they are read at one state");
  }
}

function orderBy(cursor: Cursor): { column: string; descending: boolean }[] {
  expectWords(cursor, "by");
  const order: { column: string; descending: boolean }[] = [];
  do {
    const { name } = columnName(cursor);
    const descending = acceptWord(cursor, "desc");
    if (!descending) acceptWord(cursor, "asc");
    order.push({ column: name, descending });
  } while (acceptSymbol(cursor, ","));
  return order;
}

function limitClause(cursor: Cursor): Term | undefined {
  return acceptWord(cursor, "limit") ? term(cursor) : undefined;
}

function skipLockedClause(cursor: Cursor): boolean {
  const { at } = peek(cursor);
  if (!acceptWord(cursor, "for")) return false;
  const isForUpdate = acceptWord(cursor, "update");
  if (!isForUpdate || !isWord(peek(cursor), "skip")) {
    throw unsupported(
      at,
      "FOR but FOR UPDATE SKIP LOCKED",
      "lock rows by their keys with the transaction's lock call, or pass over locked ones",
    );
  }
  expectWords(cursor, "skip", "locked");
  return true;
}

function refuseClause(cursor: Cursor): void {
  const token = peek(cursor);
  if (isWord(token, "allow")) throw unsupported(token.at, "ALLOW FILTERING", "query by key or create an index");
  if (isWord(token, "group")) throw unsupported(token.at, "GROUP BY", "group in the application");
  if (isWord(token, "per")) throw unsupported(token.at, "PER PARTITION LIMIT", "a query reads one partition: use LIMIT");
  if (isWord(token, "offset")) throw unsupported(token.at, "OFFSET", "continue with the page token");
}
