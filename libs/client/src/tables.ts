import { foldName, keyText as textOfBytes } from "@concord/codec";
import {
  contract,
  type ColumnInit,
  type RangeBoundInit,
  type RowKeyInit,
  type RowRangeInit,
  type RowWriteInit,
  type Row as WireRow,
  type RowKey as WireKey,
  type WriteKind,
} from "@concord/protos-common";
import { cellToWire, isCellType, toJavaScript, tokenOf, type CellMessage, type CellType } from "@concord/values";
import type { Fields, Range, Row, TableDescription, Write } from "./api.ts";
import { clientError } from "./client-error.ts";
import { cellFromMessage, cellMessage, cellOf } from "./values.ts";

const ROW_KEY = contract.message("RowKey");

const NO_CELLS: readonly CellMessage[] = [];

/** What the client knows of a table. */
export interface Table {
  readonly name: string;
  readonly kind: "plain" | "transactional";
  /** By the stored name. */
  readonly columns: ReadonlyMap<string, Column>;
  readonly partitionKey: readonly Column[];
  readonly clusteringKey: readonly Column[];
  readonly indexes: TableDescription["indexes"];
}

export interface Column {
  readonly name: string;
  readonly type: CellType;
  readonly isKey: boolean;
  /** "albums.owner", for refusals. */
  readonly place: string;
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
    indexes?: { name: string; columns: string[] }[];
  };
  const unknown = stored.columns.find((column) => !isCellType(column.type));
  if (stored.formatVersion !== 1 || unknown !== undefined) {
    throw clientError("UNIMPLEMENTED", `this client cannot read the definition of table ${stored.name}; install a newer one`);
  }
  const keys = new Set([...stored.partitionKey, ...stored.clusteringKey]);
  const columns = new Map(
    stored.columns.map(({ name, type }): [string, Column] => [
      name,
      { name, type: type as CellType, isKey: keys.has(name), place: `${stored.name}.${name}` },
    ]),
  );
  return {
    name: stored.name,
    kind: stored.kind === "plain" ? "plain" : "transactional",
    columns,
    partitionKey: stored.partitionKey.map((name) => columns.get(name)!),
    clusteringKey: stored.clusteringKey.map((name) => columns.get(name)!),
    indexes: (stored.indexes ?? []).map(({ name, columns: indexed }) => ({ name, columns: indexed })),
  };
}

/** The table for programs that show it. */
export function describeTable({ name, kind, columns, partitionKey, clusteringKey, indexes }: Table): TableDescription {
  return {
    name,
    kind,
    columns: [...columns.values()].map((column) => ({ name: column.name, type: column.type })),
    partitionKey: partitionKey.map((column) => column.name),
    clusteringKey: clusteringKey.map((column) => column.name),
    indexes,
  };
}

/** Fields with their names folded as in CQL; one name in two spellings is refused. A name of the table is folded. */
function foldedFields({ columns }: Table, given: object): Fields {
  const fields = given as Fields;
  let isFolded = true;
  for (const name in fields) if (!columns.has(name) && foldName(name) !== name) isFolded = false;
  if (isFolded) return fields;
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
  return {
    table: table.name,
    partition: keyCells(table, table.partitionKey, fields),
    clustering: keyCells(table, table.clusteringKey, fields),
  };
}

function keyCells(table: Table, columns: readonly Column[], fields: Fields): readonly CellMessage[] {
  if (columns.length === 0) return NO_CELLS;
  const cellOfColumn = (column: Column): CellMessage => cellMessage(column.type, keyValue(table, column, fields), column.place);
  return columns.length === 1 ? [cellOfColumn(columns[0]!)] : columns.map(cellOfColumn);
}

/** The key given alone: a column outside the key is a mistake, not ignored. */
export function exactKeyMessage(table: Table, given: Fields): RowKeyInit {
  const key = foldedFields(table, given);
  for (const name in key) {
    if (!Object.hasOwn(key, name) || key[name] === undefined || table.columns.get(name)?.isKey === true) continue;
    throw clientError("KEY_INCOMPLETE", `${name} is no key column of ${table.name}; its key is ${keyColumns(table)}`);
  }
  return keyMessage(table, key);
}

/** The token of the row's entity (TX2). */
export function tokenOfFields(table: Table, fields: object): bigint {
  const column = table.partitionKey[0]!;
  return tokenOf(cellOf(column.type, keyValue(table, column, foldedFields(table, fields)), column.place));
}

export function writeMessage(table: Table, write: Write): RowWriteInit {
  if ("delete" in write) return deleteMessage(table, write.key);
  if ("update" in write) return rowMessage(table, "WRITE_KIND_UPDATE", write.row);
  return rowMessage(table, "insert" in write ? "WRITE_KIND_INSERT" : "WRITE_KIND_INSERT_NEW", write.row);
}

export function deleteMessage(table: Table, key: Fields): RowWriteInit {
  return { kind: "WRITE_KIND_DELETE", key: exactKeyMessage(table, key), columns: [] };
}

export function rowMessage(table: Table, kind: Exclude<WriteKind, "WRITE_KIND_DELETE">, given: object): RowWriteInit {
  const row = foldedFields(table, given);
  return { kind, key: keyMessage(table, row), columns: columnMessages(table, row) };
}

export function tableNameOf(write: Write): string {
  if ("insert" in write) return write.insert;
  if ("insertNew" in write) return write.insertNew;
  return "update" in write ? write.update : write.delete;
}

export function fieldsOf(write: Write): Fields {
  return "delete" in write ? write.key : write.row;
}

export function rowFromMessage(table: Table, message: WireRow): Row {
  const row = keyFromMessage(table, message.key!);
  for (const column of message.columns) setCell(row, column.name, column.value ?? undefined);
  return row;
}

export function keyFromMessage(table: Table, { partition, clustering }: WireKey): Row {
  const key: Row = {};
  for (let at = 0; at < table.partitionKey.length; at += 1) setCell(key, table.partitionKey[at]!.name, partition[at]);
  for (let at = 0; at < table.clusteringKey.length; at += 1) setCell(key, table.clusteringKey[at]!.name, clustering[at]);
  return key;
}

export function rangeMessage(table: Table, range: Range): RowRangeInit {
  const partition = keyCells(table, table.partitionKey, foldedFields(table, range.partition));
  const lower = boundMessage(table, range.from, range.after, "from and after");
  const upper = boundMessage(table, range.to, range.before, "to and before");
  return {
    table: table.name,
    partition,
    ...(lower === undefined ? {} : { lower }),
    ...(upper === undefined ? {} : { upper }),
    reverse: range.reverse === true,
  };
}

/** Whether both are the key of one row. */
export function isSameKey(left: RowKeyInit, right: RowKeyInit): boolean {
  const [one, other] = [onlyBigint(left), onlyBigint(right)];
  if (one !== undefined && other !== undefined) return left.table === right.table && one === other;
  return keyText(left) === keyText(right);
}

/** The value of a key that is one bigint, as most entities have. */
function onlyBigint({ partition, clustering }: RowKeyInit): bigint | undefined {
  return partition?.length === 1 && clustering?.length === 0 ? partition[0]!.bigintValue : undefined;
}

/** A text that two keys share exactly when they are the same row. */
export function keyText(key: RowKeyInit): string {
  return textOfBytes(ROW_KEY.encode(key));
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
  const bound = foldedFields(table, spelled);
  const given = Object.keys(bound).filter((column) => bound[column] !== undefined);
  const prefix = table.clusteringKey.slice(0, given.length);
  if (prefix.length < given.length || prefix.some(({ name }) => !given.includes(name))) {
    const clustering = table.clusteringKey.map(({ name }) => name).join(", ");
    throw clientError(
      "KEY_INCOMPLETE",
      `a bound names the first clustering columns of ${table.name} (${clustering}), not ${given.join(", ")}`,
    );
  }
  return { prefix: keyCells(table, prefix, bound), inclusive: inclusive !== undefined };
}

function columnMessages(table: Table, row: Fields): ColumnInit[] {
  const columns: ColumnInit[] = [];
  for (const name in row) {
    const value = Object.hasOwn(row, name) ? row[name] : undefined;
    const column = table.columns.get(name);
    if (value === undefined || column?.isKey === true) continue;
    if (column === undefined) {
      const known = [...table.columns.keys()].join(", ");
      throw clientError("COLUMN_UNKNOWN", `table ${table.name} has no column ${name}; it has ${known}`, {
        metadata: { table: table.name },
      });
    }
    columns.push({ name, value: value === null ? cellToWire(null) : cellMessage(column.type, value, column.place) });
  }
  return columns;
}

function keyValue(table: Table, { name }: Column, fields: Fields): NonNullable<Fields[string]> {
  const value = fields[name];
  if (value === undefined || value === null) {
    throw clientError("KEY_INCOMPLETE", `the key of ${table.name} is ${keyColumns(table)}; ${name} is not given`, {
      metadata: { table: table.name, column: name },
    });
  }
  return value;
}

function keyColumns(table: Table): string {
  return [...table.partitionKey, ...table.clusteringKey].map(({ name }) => name).join(", ");
}

function setCell(row: Row, column: string, message: CellMessage | undefined): void {
  const cell = message === undefined ? null : cellFromMessage(message);
  if (cell !== null) row[column] = toJavaScript(cell);
}
