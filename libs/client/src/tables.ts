import { foldName } from "@concord/codec";
import {
  contract,
  type ColumnInit,
  type RangeBoundInit,
  type RowKeyInit,
  type RowRangeInit,
  type RowWriteInit,
  type Row as WireRow,
} from "@concord/protos-common";
import { cellToWire, isCellType, toJavaScript, tokenOf, type CellMessage, type CellType } from "@concord/values";
import type { Fields, Range, Row, TypedValue, Write } from "./api.ts";
import { clientError } from "./client-error.ts";
import { cellFromMessage, cellOf } from "./values.ts";

const ROW_KEY = contract.message("RowKey");

/** What the client knows of a table. */
export interface Table {
  readonly name: string;
  readonly kind: "plain" | "transactional";
  readonly types: ReadonlyMap<string, CellType>;
  readonly partitionKey: readonly string[];
  readonly clusteringKey: readonly string[];
}

/** Reads a table definition in its JSON form, format version 1; fields it does not need may grow. */
export function tableFromJson(text: string): Table {
  const stored = JSON.parse(text) as {
    formatVersion: number;
    name: string;
    kind: string;
    columns: { name: string; type: string }[];
    partitionKey: string[];
    clusteringKey: string[];
  };
  const unknown = stored.columns.find((column) => !isCellType(column.type));
  if (stored.formatVersion !== 1 || unknown !== undefined) {
    throw clientError("UNIMPLEMENTED", `this client cannot read the definition of table ${stored.name}; install a newer one`);
  }
  return {
    name: stored.name,
    kind: stored.kind === "plain" ? "plain" : "transactional",
    types: new Map(stored.columns.map(({ name, type }) => [name, type as CellType])),
    partitionKey: stored.partitionKey,
    clusteringKey: stored.clusteringKey,
  };
}

/** Fields with their names folded as in CQL; one name in two spellings is refused. */
function foldedFields(given: object): Fields {
  const fields = given as Fields;
  if (Object.keys(fields).every((name) => foldName(name) === name)) return fields;
  const folded: Record<string, Fields[string]> = {};
  for (const [name, value] of Object.entries(fields)) {
    const column = foldName(name);
    if (value === undefined) continue;
    if (Object.hasOwn(folded, column)) throw clientError("MALFORMED_REQUEST", `column ${column} is given twice`);
    folded[column] = value;
  }
  return folded;
}

/** The key columns of `fields`, others ignored; KEY_INCOMPLETE names what is missing. */
function keyMessage(table: Table, fields: Fields): RowKeyInit {
  const partition = table.partitionKey.map((column) => cellToWire(keyCell(table, column, fields)));
  const clustering = table.clusteringKey.map((column) => cellToWire(keyCell(table, column, fields)));
  return { table: table.name, partition, clustering };
}

/** The key given alone: a column outside the key is a mistake, not ignored. */
export function exactKeyMessage(table: Table, given: Fields): RowKeyInit {
  const key = foldedFields(given);
  const stranger = Object.keys(key).find((column) => key[column] !== undefined && !isKey(table, column));
  if (stranger !== undefined) {
    throw clientError("KEY_INCOMPLETE", `${stranger} is no key column of ${table.name}; its key is ${keyColumns(table).join(", ")}`);
  }
  return keyMessage(table, key);
}

/** The token of the row's entity (TX2). */
export function tokenOfFields(table: Table, fields: object): bigint {
  return tokenOf(keyCell(table, table.partitionKey[0]!, foldedFields(fields)));
}

export function writeMessage(table: Table, write: Write): RowWriteInit {
  if ("delete" in write) return { kind: "WRITE_KIND_DELETE", key: exactKeyMessage(table, write.key), columns: [] };
  const row = foldedFields(write.row);
  const kind = "insert" in write ? "WRITE_KIND_INSERT" : "WRITE_KIND_UPDATE";
  return { kind, key: keyMessage(table, row), columns: columnMessages(table, row) };
}

export function tableNameOf(write: Write): string {
  if ("insert" in write) return write.insert;
  return "update" in write ? write.update : write.delete;
}

export function fieldsOf(write: Write): Fields {
  return "delete" in write ? write.key : write.row;
}

export function rowFromMessage(table: Table, message: WireRow): Row {
  const row: Row = {};
  table.partitionKey.forEach((column, at) => setCell(row, column, message.key!.partition[at]));
  table.clusteringKey.forEach((column, at) => setCell(row, column, message.key!.clustering[at]));
  for (const column of message.columns) setCell(row, column.name, column.value ?? undefined);
  return row;
}

export function rangeMessage(table: Table, range: Range): RowRangeInit {
  const partition = foldedFields(range.partition);
  for (const column of table.partitionKey) {
    if (partition[column] === undefined) throw keyIncomplete(table, column);
  }
  const lower = boundMessage(table, range.from, range.after, "from and after");
  const upper = boundMessage(table, range.to, range.before, "to and before");
  return {
    table: table.name,
    partition: table.partitionKey.map((column) => cellToWire(keyCell(table, column, partition))),
    ...(lower === undefined ? {} : { lower }),
    ...(upper === undefined ? {} : { upper }),
    reverse: range.reverse === true,
  };
}

/** A text that two keys share exactly when they are the same row. */
export function keyText(key: RowKeyInit): string {
  const bytes = ROW_KEY.encode(key);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function boundMessage(
  table: Table,
  inclusive: Fields | undefined,
  exclusive: Fields | undefined,
  names: string,
): RangeBoundInit | undefined {
  if (inclusive !== undefined && exclusive !== undefined) throw clientError("MALFORMED_REQUEST", `give one of ${names}, not both`);
  const spelled = inclusive ?? exclusive;
  if (spelled === undefined) return undefined;
  const bound = foldedFields(spelled);
  const given = Object.keys(bound).filter((column) => bound[column] !== undefined);
  const prefix = table.clusteringKey.slice(0, given.length);
  if (prefix.length < given.length || prefix.some((column) => !given.includes(column))) {
    const clustering = table.clusteringKey.join(", ");
    throw clientError(
      "KEY_INCOMPLETE",
      `a bound names the first clustering columns of ${table.name} (${clustering}), not ${given.join(", ")}`,
    );
  }
  return { prefix: prefix.map((column) => cellToWire(keyCell(table, column, bound))), inclusive: inclusive !== undefined };
}

function columnMessages(table: Table, row: Fields): ColumnInit[] {
  const columns: ColumnInit[] = [];
  for (const [name, value] of Object.entries(row)) {
    if (value === undefined || isKey(table, name)) continue;
    const type = table.types.get(name);
    if (type === undefined) {
      const known = [...table.types.keys()].join(", ");
      throw clientError("COLUMN_UNKNOWN", `table ${table.name} has no column ${name}; it has ${known}`, {
        metadata: { table: table.name },
      });
    }
    columns.push({ name, value: cellToWire(value === null ? null : cellOf(type, value, `${table.name}.${name}`)) });
  }
  return columns;
}

function keyCell(table: Table, column: string, fields: Fields): TypedValue {
  const value = fields[column];
  if (value === undefined || value === null) throw keyIncomplete(table, column);
  return cellOf(table.types.get(column)!, value, `${table.name}.${column}`);
}

function keyIncomplete(table: Table, column: string): Error {
  const key = keyColumns(table).join(", ");
  return clientError("KEY_INCOMPLETE", `the key of ${table.name} is ${key}; ${column} is not given`, {
    metadata: { table: table.name, column },
  });
}

function isKey(table: Table, column: string): boolean {
  return table.partitionKey.includes(column) || table.clusteringKey.includes(column);
}

function keyColumns(table: Table): readonly string[] {
  return [...table.partitionKey, ...table.clusteringKey];
}

function setCell(row: Row, column: string, message: CellMessage | undefined): void {
  const cell = message === undefined ? null : cellFromMessage(message);
  if (cell !== null) row[column] = toJavaScript(cell);
}
