import { foldName } from "@concord/codec";
import { cellToWire, type CellMessage, type CellType } from "@concord/values";
import type { TypedValue, Value } from "./api.ts";
import { clientError } from "./client-error.ts";
import type { Table } from "./tables.ts";
import { cellOf, inferredCell, isTyped } from "./values.ts";

/**
 * Bind values take the type of the column they stand for, so that `[7]` fits a bigint column as well as an int one. The statement is
 * only looked at for that; the server parses it.
 */
export function bindMessages(
  cql: string,
  binds: readonly (Value | TypedValue)[],
  /** Folds the name itself. */
  findTable: (name: string) => Table | undefined,
): CellMessage[] {
  const types = markerTypes(cql, findTable);
  if (types.length !== binds.length) {
    throw clientError("MALFORMED_REQUEST", `the statement has ${types.length} bind markers, ${binds.length} values are given`);
  }
  return binds.map((value, at) => {
    if (value === null) return cellToWire(null);
    const type = types[at];
    const place = `bind value ${at + 1}`;
    return cellToWire(type === undefined || isTyped(value) ? inferredCell(value, place) : cellOf(type, value, place));
  });
}

/** One per marker, in order; undefined = the column is not known here. */
function markerTypes(cql: string, findTable: (name: string) => Table | undefined): (CellType | undefined)[] {
  const types: (CellType | undefined)[] = [];
  const tokens = tokensOf(cql);
  let table: Table | undefined;
  let insertColumns: string[] = [];
  let valueAt = -1;
  tokens.forEach((token, at) => {
    const before = tokens[at - 1]?.toLowerCase();
    if (before === "into" || before === "update" || before === "from") {
      table = findTable(token);
      insertColumns = before === "into" ? listAfter(tokens, at + 1) : [];
      valueAt = -1;
    }
    if (token.toLowerCase() === "values") valueAt = 0;
    else if (token === "," && valueAt >= 0) valueAt += 1;
    else if (token === ")") valueAt = valueAt >= 0 ? -1 : valueAt;
    if (token === "?") types.push(markerType(tokens, at, table, valueAt >= 0 ? insertColumns[valueAt] : undefined));
  });
  return types;
}

function markerType(
  tokens: readonly string[],
  at: number,
  table: Table | undefined,
  insertColumn: string | undefined,
): CellType | undefined {
  const before = tokens[at - 1]?.toLowerCase();
  if (before === "limit") return "int";
  if (before === "timestamp") return "bigint";
  if (insertColumn !== undefined) return table?.columns.get(insertColumn)?.type;
  const isComparison = before !== undefined && ["=", "<", ">", "<=", ">="].includes(before);
  return isComparison ? table?.columns.get(foldName(tokens[at - 2] ?? ""))?.type : undefined;
}

/** The names in the parentheses that open at `from`. */
function listAfter(tokens: readonly string[], from: number): string[] {
  if (tokens[from] !== "(") return [];
  const end = tokens.indexOf(")", from);
  return tokens
    .slice(from + 1, end)
    .filter((token) => token !== ",")
    .map(foldName);
}

const TOKEN = /--[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|<=|>=|[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z.+-]*|\S/g;

/** Words, names, literals and signs; comments left out. */
function tokensOf(cql: string): string[] {
  return (cql.match(TOKEN) ?? []).filter((token) => !token.startsWith("--") && !token.startsWith("//") && !token.startsWith("/*"));
}
