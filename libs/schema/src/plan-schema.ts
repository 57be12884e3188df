import { ConcordError } from "@concord/runtime";
import { tableOf, type SchemaCatalogue } from "./catalogue.ts";
import type { IndexDefinition, TableDefinition } from "./definition.ts";
import type { SchemaPlan } from "./plan.ts";
import { refuseSystemTable, validateDefinition, withIndex } from "./validate-definition.ts";

/** A new table, checked. SCHEMA_INVALID, SYSTEM_TABLE; TABLE_EXISTS unless `ifNotExists`. */
export function planCreateTable(catalogue: SchemaCatalogue, definition: TableDefinition, ifNotExists: boolean): SchemaPlan {
  refuseSystemTable(definition.name);
  const checked = validateDefinition(definition);
  if (!ifNotExists && catalogue.tables.has(checked.name)) {
    throw new ConcordError("TABLE_EXISTS", `there is a table ${checked.name} already`, { metadata: { table: checked.name } });
  }
  return { kind: "create-table", definition: checked, ifNotExists };
}

/**
 * An index on a table (TX20). `name` undefined: its columns joined, and "_idx". TABLE_UNKNOWN, SYSTEM_TABLE, SCHEMA_INVALID. Whether the table may
 * have rows already is the executor's to decide (INDEX_ON_EXISTING_TABLE).
 */
export function planCreateIndex(
  catalogue: SchemaCatalogue,
  request: {
    readonly table: string;
    readonly name: string | undefined;
    readonly columns: readonly string[];
    readonly ifNotExists: boolean;
  },
): SchemaPlan {
  refuseSystemTable(request.table);
  const definition = tableOf(catalogue, request.table);
  const index: IndexDefinition = { name: request.name ?? `${request.columns.join("_")}_idx`, columns: request.columns };
  const present = definition.indexes.find((candidate) => candidate.name === index.name);
  if (request.ifNotExists && present !== undefined && sameColumns(present, index)) {
    return { kind: "create-index", definition, index: present, exists: true };
  }
  return { kind: "create-index", definition: withIndex(definition, index), index, exists: false };
}

function sameColumns(left: IndexDefinition, right: IndexDefinition): boolean {
  return left.columns.length === right.columns.length && left.columns.every((column, at) => right.columns[at] === column);
}
