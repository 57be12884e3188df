import { CELL_TYPES, type CellType } from "@concord/values";
import type { TableKind } from "../definition.ts";
import type { ColumnSpec, CreateIndex, CreateTable } from "./ast.ts";
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
  take,
  unexpected,
  type Cursor,
} from "./cursor.ts";
import { syntaxError, unsupported } from "./errors.ts";

interface Key {
  readonly partition: readonly string[];
  readonly clustering: readonly string[];
}

/** CREATE; the word is taken already. */
export function createStatement(cursor: Cursor): CreateTable | CreateIndex {
  const what = peek(cursor);
  if (acceptWord(cursor, "table") || acceptWord(cursor, "columnfamily")) return createTable(cursor);
  if (acceptWord(cursor, "index")) return createIndex(cursor);
  if (what.kind === "word" && !isWord(what, "if")) {
    throw unsupported(what.at, `CREATE ${what.name.toUpperCase()}`, "there are CREATE TABLE and CREATE INDEX");
  }
  throw unexpected(cursor, "TABLE or INDEX");
}

function createTable(cursor: Cursor): CreateTable {
  const ifNotExists = acceptIfNotExists(cursor);
  const table = tableName(cursor);
  const columns: ColumnSpec[] = [];
  let key: Key | undefined;
  expectSymbol(cursor, "(");
  do {
    const at = here(cursor);
    const keyHere = isWord(peek(cursor), "primary") ? primaryKey(cursor) : columnDefinition(cursor, columns);
    if (keyHere !== undefined && key !== undefined) throw syntaxError(at, "the primary key is given twice");
    key ??= keyHere;
  } while (acceptSymbol(cursor, ","));
  expectSymbol(cursor, ")");
  if (key === undefined) throw syntaxError(here(cursor), `table ${table} has no PRIMARY KEY`);
  const tableKind = acceptWord(cursor, "with") ? properties(cursor) : "transactional";
  return { kind: "create-table", table, ifNotExists, columns, partitionKey: key.partition, clusteringKey: key.clustering, tableKind };
}

function columnDefinition(cursor: Cursor, columns: ColumnSpec[]): Key | undefined {
  const { name } = columnName(cursor);
  columns.push({ name, type: cellType(cursor) });
  if (isWord(peek(cursor), "static")) throw unsupported(here(cursor), "a static column", "put it in a table keyed by the partition key");
  if (!acceptWord(cursor, "primary")) return undefined;
  expectWords(cursor, "key");
  return { partition: [name], clustering: [] };
}

function cellType(cursor: Cursor): CellType {
  const token = take(cursor);
  const type = token.kind === "word" ? CELL_TYPES.find((known) => known === token.name) : undefined;
  if (type !== undefined) return type;
  if (token.kind !== "word" && token.kind !== "quoted" && token.kind !== "text") throw syntaxError(token.at, "expected a type");
  const name = token.kind === "text" ? token.value : token.name;
  throw unsupported(token.at, `type ${name}`, `types are ${CELL_TYPES.join(", ")}`);
}

function primaryKey(cursor: Cursor): Key {
  expectWords(cursor, "primary", "key");
  expectSymbol(cursor, "(");
  const partition = isSymbol(peek(cursor), "(") ? columnList(cursor) : [columnName(cursor)];
  const clustering = [];
  while (acceptSymbol(cursor, ",")) clustering.push(columnName(cursor));
  expectSymbol(cursor, ")");
  return { partition: partition.map((column) => column.name), clustering: clustering.map((column) => column.name) };
}

function properties(cursor: Cursor): TableKind {
  let kind: TableKind = "transactional";
  do {
    if (acceptWord(cursor, "kind")) {
      expectSymbol(cursor, "=");
      kind = tableKind(cursor);
    } else if (acceptWord(cursor, "clustering")) clusteringOrder(cursor);
    else {
      const token = take(cursor);
      if (token.kind !== "word") throw syntaxError(token.at, "expected a table property");
      throw unsupported(token.at, `table property ${token.name}`, "there is kind = 'transactional' | 'plain'");
    }
  } while (acceptWord(cursor, "and"));
  return kind;
}

function tableKind(cursor: Cursor): TableKind {
  const token = take(cursor);
  if (token.kind === "text" && (token.value === "plain" || token.value === "transactional")) return token.value;
  throw syntaxError(token.at, "kind is 'transactional' or 'plain'");
}

function clusteringOrder(cursor: Cursor): void {
  expectWords(cursor, "order", "by");
  expectSymbol(cursor, "(");
  do {
    columnName(cursor);
    if (isWord(peek(cursor), "desc")) {
      throw unsupported(here(cursor), "descending clustering order", "rows are kept ascending; read them with ORDER BY ... DESC");
    }
    acceptWord(cursor, "asc");
  } while (acceptSymbol(cursor, ","));
  expectSymbol(cursor, ")");
}

function createIndex(cursor: Cursor): CreateIndex {
  const ifNotExists = acceptIfNotExists(cursor);
  const name = isWord(peek(cursor), "on") ? undefined : columnName(cursor).name;
  expectWords(cursor, "on");
  const table = tableName(cursor);
  if (isSymbol(peek(cursor, 2), "(")) throw unsupported(peek(cursor, 1).at, "an index on part of a column", "name whole columns");
  const columns = columnList(cursor).map((column) => column.name);
  if (isWord(peek(cursor), "using", "with")) throw unsupported(here(cursor), "a choice of index implementation", "leave it out");
  return { kind: "create-index", name, table, columns, ifNotExists };
}

function acceptIfNotExists(cursor: Cursor): boolean {
  if (!acceptWord(cursor, "if")) return false;
  expectWords(cursor, "not", "exists");
  return true;
}
