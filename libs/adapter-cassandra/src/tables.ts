import { OUTCOMES_TABLE } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { OUTCOMES_GC_GRACE_SECONDS, ROWS_GC_GRACE_SECONDS } from "./limits.ts";

/** Tables of our rows: every storage table but the outcomes, and the outcomes, whose partitions are purged whole. */
export const ROW_TABLES = ["rows", "outcomes"] as const;
export type RowTable = (typeof ROW_TABLES)[number];

export const GROUP_LOG_TABLE = "group_log";
export const METADATA_TABLE = "object_metadata";
export const MIGRATIONS_TABLE = "migrations";

export function rowTableOf(table: string): RowTable {
  return table === OUTCOMES_TABLE ? "outcomes" : "rows";
}

const NAME = /^[a-z][a-z0-9_]{0,47}$/;

/** Names go into statements as they are. */
export function checkKeyspaceName(name: string): string {
  if (NAME.test(name)) return name;
  throw new ConcordError("MALFORMED_REQUEST", `${name} is no name of a keyspace: lower-case letters, digits and _, at most 48`);
}

/**
 * One row of ours is one row of Cassandra. `partition` and `clustering` hold the keys in the storage format, whose bytes sort as the values
 * do. `deleted` and `marker` are timestamps as values and are written at that timestamp, `cells` is a map with a timestamp per column; a value
 * begins with its timestamp, a null is a value too: Cassandra does not show when a tombstone was written, and our readers must know (TX7).
 */
const rowColumns = `partition blob, clustering blob, deleted bigint, marker bigint, cells map<text, blob>,
  PRIMARY KEY (partition, clustering)`;

/**
 * The schema, one element per version, never changed once released: the next one is added behind. Statements may be repeated: an apply
 * that was interrupted begins again.
 */
export const MIGRATIONS: readonly ((keyspace: string) => readonly string[])[] = [
  (keyspace) => [
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rows (${rowColumns})
  WITH gc_grace_seconds = ${ROWS_GC_GRACE_SECONDS} AND compaction = {'class': 'LeveledCompactionStrategy'}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.outcomes (${rowColumns})
  WITH gc_grace_seconds = ${OUTCOMES_GC_GRACE_SECONDS} AND compaction = {'class': 'LeveledCompactionStrategy'}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.${GROUP_LOG_TABLE} (
  group_name text, kind tinyint, seq bigint,
  epoch bigint, owner text, last_seq bigint, last_epoch bigint, ceiling_us bigint, applied_seq bigint, applied_epoch bigint,
  content_id blob, content blob, content_rows blob,
  PRIMARY KEY (group_name, kind, seq))
  WITH compaction = {'class': 'LeveledCompactionStrategy'}`,
  ],
  (keyspace) => [
    `CREATE TABLE IF NOT EXISTS ${keyspace}.${METADATA_TABLE} (
  partition text, kind tinyint, key blob,
  commit_no bigint, guid bigint, value blob, amounts blob, seq bigint, commit_id blob,
  PRIMARY KEY (partition, kind, key))
  WITH compaction = {'class': 'LeveledCompactionStrategy'}`,
  ],
];

export const SCHEMA_VERSION = MIGRATIONS.length;

export function migrationsTable(keyspace: string): string {
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${MIGRATIONS_TABLE} (
  id text PRIMARY KEY, version int)`;
}
