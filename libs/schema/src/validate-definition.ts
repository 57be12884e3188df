import { ConcordError } from "@concord/runtime";
import { CELL_TYPES, isCellType } from "@concord/values";
import { isSystemTable, primaryKeyOf, type IndexDefinition, type TableDefinition } from "./definition.ts";
import { SCHEMA_LIMITS, SYSTEM_TABLE_PREFIX } from "./limits.ts";

const NAME = /^[a-z][a-z0-9_]*$/;

/** The definition, when it has no mistake; else SCHEMA_INVALID with all of them. System names are the caller's matter. */
export function validateDefinition(definition: TableDefinition): TableDefinition {
  const mistakes = [
    ...nameMistakes("table", definition.name),
    ...columnMistakes(definition),
    ...keyMistakes(definition),
    ...indexMistakes(definition),
    ...(definition.version >= 1n ? [] : ["a table's version starts at 1"]),
  ];
  if (mistakes.length === 0) return definition;
  throw new ConcordError("SCHEMA_INVALID", `table ${definition.name}: ${mistakes.join("; ")}`, {
    metadata: { table: definition.name.slice(0, SCHEMA_LIMITS.nameLengthMax) },
  });
}

/** SYSTEM_TABLE when a user's statement would create or write one of our own tables. */
export function refuseSystemTable(name: string): void {
  if (!isSystemTable(name)) return;
  throw new ConcordError(
    "SYSTEM_TABLE",
    `${name}: tables named ${SYSTEM_TABLE_PREFIX}... are Concord's own and read-only; choose another name`,
    {
      metadata: { table: name },
    },
  );
}

/** The table with one more index and the next version; SCHEMA_INVALID as `validateDefinition`. */
export function withIndex(definition: TableDefinition, index: IndexDefinition): TableDefinition {
  return validateDefinition({ ...definition, indexes: [...definition.indexes, index], version: definition.version + 1n });
}

function nameMistakes(what: string, name: string): string[] {
  const mistakes: string[] = [];
  if (name.length > SCHEMA_LIMITS.nameLengthMax) {
    mistakes.push(`${what} name of ${name.length} characters, at most ${SCHEMA_LIMITS.nameLengthMax}`);
  } else if (!NAME.test(name)) {
    mistakes.push(`${what} name "${name}" must start with a-z and have only a-z, 0-9 and _`);
  }
  if (what !== "column" && name.includes("__")) mistakes.push(`${what} name must not contain "__"`);
  return mistakes;
}

function columnMistakes(definition: TableDefinition): string[] {
  const { columns } = definition;
  const mistakes: string[] = [];
  if (columns.length > SCHEMA_LIMITS.columnsMax) mistakes.push(`${columns.length} columns, at most ${SCHEMA_LIMITS.columnsMax}`);
  for (const { name, type } of columns) {
    mistakes.push(...nameMistakes("column", name));
    if (!isCellType(type)) mistakes.push(`column ${name} has unknown type ${String(type)}; types are ${CELL_TYPES.join(", ")}`);
  }
  mistakes.push(...repeated(columns.map((column) => column.name)).map((name) => `column ${name} appears twice`));
  return mistakes;
}

function keyMistakes(definition: TableDefinition): string[] {
  const key = primaryKeyOf(definition);
  const mistakes: string[] = [];
  if (definition.partitionKey.length === 0) mistakes.push("a partition key is required");
  if (key.length > SCHEMA_LIMITS.keyColumnsMax) mistakes.push(`${key.length} key columns, at most ${SCHEMA_LIMITS.keyColumnsMax}`);
  mistakes.push(...repeated(key).map((name) => `${name} appears twice in the primary key`));
  for (const name of key) {
    if (!hasColumn(definition, name)) mistakes.push(`key column ${name} is not defined`);
  }
  return mistakes;
}

function indexMistakes(definition: TableDefinition): string[] {
  const { indexes } = definition;
  const mistakes: string[] = [];
  if (indexes.length > 0 && definition.kind === "plain") {
    mistakes.push("a plain table cannot have indexes: only transactions keep them in step; make it transactional");
  }
  if (indexes.length > SCHEMA_LIMITS.indexesMax) mistakes.push(`${indexes.length} indexes, at most ${SCHEMA_LIMITS.indexesMax}`);
  mistakes.push(...repeated(indexes.map((index) => index.name)).map((name) => `index ${name} appears twice`));
  for (const index of indexes) mistakes.push(...oneIndexMistakes(definition, index));
  return mistakes;
}

function oneIndexMistakes(definition: TableDefinition, index: IndexDefinition): string[] {
  const { name, columns } = index;
  const mistakes = nameMistakes("index", name);
  if (columns.length === 0) mistakes.push(`index ${name} has no column`);
  if (columns.length > SCHEMA_LIMITS.indexColumnsMax) {
    mistakes.push(`index ${name} has ${columns.length} columns, at most ${SCHEMA_LIMITS.indexColumnsMax}`);
  }
  mistakes.push(...repeated(columns).map((column) => `${column} appears twice in index ${name}`));
  for (const column of columns) {
    if (!hasColumn(definition, column)) mistakes.push(`index ${name}: column ${column} is not defined`);
  }
  const key = primaryKeyOf(definition);
  const servedByKey = columns.length >= definition.partitionKey.length && columns.every((column, at) => key[at] === column);
  if (columns.length > 0 && servedByKey) {
    mistakes.push(`index ${name} is the beginning of the primary key and finds nothing new`);
  }
  return mistakes;
}

function hasColumn(definition: TableDefinition, name: string): boolean {
  return definition.columns.some((column) => column.name === name);
}

function repeated(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
}
