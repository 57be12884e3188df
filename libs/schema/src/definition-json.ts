import { toConcordError } from "@concord/runtime";
import { isCellType } from "@concord/values";
import type { ColumnDefinition, IndexDefinition, TableDefinition, TableKind } from "./definition.ts";
import { arrayOf, corrupt, countOf, objectOf, storedObject, textOf } from "./stored-json.ts";
import { validateDefinition } from "./validate-definition.ts";

const FIELDS = ["name", "kind", "columns", "partitionKey", "clusteringKey", "indexes", "version"] as const;

/** How a definition is stored and spread: JSON, `formatVersion` 1, bigints as decimal strings, fields in a fixed order. */
export function definitionToJson(definition: TableDefinition): string {
  return JSON.stringify({
    formatVersion: 1,
    name: definition.name,
    kind: definition.kind,
    columns: definition.columns.map(({ name, type }) => ({ name, type })),
    partitionKey: definition.partitionKey,
    clusteringKey: definition.clusteringKey,
    indexes: definition.indexes.map(({ name, columns }) => ({ name, columns })),
    version: definition.version.toString(),
  });
}

/** The inverse, strict: CORRUPT_DATA for anything `definitionToJson` could not have written, an invalid definition included. */
export function definitionFromJson(text: string): TableDefinition {
  const stored = storedObject("table definition", text, FIELDS);
  const definition: TableDefinition = {
    name: textOf("table name", stored["name"]),
    kind: kindOf(stored["kind"]),
    columns: arrayOf("columns", stored["columns"], columnFrom),
    partitionKey: namesOf("partition key", stored["partitionKey"]),
    clusteringKey: namesOf("clustering key", stored["clusteringKey"]),
    indexes: arrayOf("indexes", stored["indexes"], indexFrom),
    version: countOf("table version", stored["version"]),
  };
  try {
    return validateDefinition(definition);
  } catch (thrown) {
    throw corrupt("table definition", `is invalid: ${toConcordError(thrown).message}`, thrown);
  }
}

function columnFrom(value: unknown): ColumnDefinition {
  const stored = objectOf("column", value, ["name", "type"]);
  const type = stored["type"];
  if (!isCellType(type)) throw corrupt("column", `has unknown type ${JSON.stringify(type)}`);
  return { name: textOf("column name", stored["name"]), type };
}

function indexFrom(value: unknown): IndexDefinition {
  const stored = objectOf("index", value, ["name", "columns"]);
  return { name: textOf("index name", stored["name"]), columns: namesOf("index columns", stored["columns"]) };
}

function namesOf(what: string, value: unknown): string[] {
  return arrayOf(what, value, (name) => textOf(what, name));
}

function kindOf(value: unknown): TableKind {
  if (value !== "transactional" && value !== "plain") throw corrupt("table kind", `is ${JSON.stringify(value)}`);
  return value;
}
