export { plan, type PlanContext } from "./compile.ts";
export type { Statement } from "./cql/ast.ts";
export { parse } from "./cql/parse.ts";
export { catalogueOf, storageTableOf, tableOf, withTable, type SchemaCatalogue } from "./catalogue.ts";
export {
  columnOf,
  indexOf,
  isKeyColumn,
  isSystemTable,
  primaryKeyOf,
  sameDefinition,
  sameShape,
  valueOf,
  type ColumnDefinition,
  type IndexDefinition,
  type TableDefinition,
  type TableKind,
} from "./definition.ts";
export { definitionFromJson, definitionToJson } from "./definition-json.ts";
export { evenGroupMap, groupIdOf, groupOf, masterOf, SYSTEM_GROUP, type GroupMap, type TransactionGroup } from "./group-map.ts";
export { groupMapFromJson, groupMapToJson } from "./group-map-json.ts";
export { indexKeysTouched, indexMutations } from "./index-mutations.ts";
export { baseKeyOf, baseRowOf, indexColumnsOf, indexFixesToken, indexKeyOf, indexTableName, indexTableOf } from "./index-table.ts";
export { compareClustering, inRange, keyText, partitionText, sameKey } from "./keys.ts";
export { SCHEMA_LIMITS, SYSTEM_TABLE_PREFIX } from "./limits.ts";
export { netBatch, netMutations } from "./net-image.ts";
export { PageTokens, queryFingerprint, type PagePosition } from "./page-tokens.ts";
export type { Constraint, IndexScan, Plan, ReadPlan, ReadRequest, SchemaPlan, ValueBound, WritePlan } from "./plan.ts";
export { holds, type RowCondition, type TableCondition } from "./row-condition.ts";
export type { RowWrite } from "./row-write.ts";
export {
  definitionOfRow,
  SCHEMA_VERSION_KEY,
  SchemaCache,
  TABLES_PAGE_ROWS,
  TABLES_RANGE,
  type SchemaCacheOptions,
} from "./schema-cache.ts";
export { GROUPS_RANGE, GROUPS_VERSION_KEY, readGroupMap, RowGroups, type StoredGroupMap } from "./stored-group-map.ts";
export { tokenOfKey } from "./token.ts";
export { refuseSystemTable, validateDefinition, withIndex } from "./validate-definition.ts";
export { newTables, plannedTables, type PlannedTables } from "./planned-tables.ts";
export { keyFromColumns, validateCondition, validateKey, validateRange, validateWrite } from "./validate-rows.ts";
export { planRead, planReadRange, planReadRows } from "./plan-read.ts";
export { planCreateIndex, planCreateTable } from "./plan-schema.ts";
export { planBatch, planWrite, TIMESTAMP_US_MAX, TIMESTAMP_US_MIN } from "./plan-write.ts";
