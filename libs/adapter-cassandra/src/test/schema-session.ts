import { CassandraFailure } from "../failure.ts";
import type { Answer, ResultRow } from "../session.ts";
import { tablesOf } from "../keyspace-checks.ts";
import { ROWS_GC_GRACE_SECONDS } from "../limits.ts";

type Row = Record<string, ResultRow[string]>;

/** Content of system_schema for one keyspace; a test alters it. */
export interface SchemaRows {
  readonly keyspaces: Row[];
  readonly tables: Row[];
  readonly columns: Row[];
}

/** A value as the driver gives it. */
function replicationOf(replicas: Readonly<Record<string, string>>): ResultRow[string] {
  return new Map([["class", "NetworkTopologyStrategy"], ...Object.entries(replicas)]) as never;
}

/** A keyspace as `schema apply` makes it, with three copies. */
function rows(): SchemaRows {
  const made = tablesOf("concord");
  return {
    keyspaces: [{ durable_writes: true, replication: replicationOf({ dc1: "3" }) }],
    tables: made.map(({ name }) => ({ table_name: name, gc_grace_seconds: ROWS_GC_GRACE_SECONDS, default_time_to_live: 0 })),
    columns: made.flatMap(({ name, columns }) =>
      [...columns].map(([column, shape]) => {
        const [, type, kind, position] = /^(.+) (regular|partition_key|clustering) ?(\d*)( asc)?$/.exec(shape)!;
        return {
          table_name: name,
          column_name: column,
          type: type!,
          kind: kind!,
          position: position === "" ? -1 : Number(position),
          clustering_order: kind === "clustering" ? "asc" : "none",
        };
      }),
    ),
  };
}

/** The answer to a read of system_schema. */
function read(from: SchemaRows, query: string): Answer {
  const [, table] = /FROM system_schema\.(\w+)/.exec(query) ?? [];
  return { rows: from[table as keyof SchemaRows], pageState: undefined, isApplied: true };
}

const table = (from: SchemaRows, name: string): Row => from.tables.find((row) => row["table_name"] === name)!;
const column = (from: SchemaRows, name: string, of: string): Row =>
  from.columns.find((row) => row["table_name"] === name && row["column_name"] === of)!;

/** Permissions that Cassandra demands for a statement, in its order: a condition reads, too. */
function neededBy(query: string): readonly string[] {
  const [, selected] = /FROM \w+\.(\w+)/.exec(query) ?? [];
  const [, updated] = /^UPDATE \w+\.(\w+)/.exec(query) ?? [];
  return updated === undefined ? [`SELECT ${selected}`] : [`MODIFY ${updated}`, `SELECT ${updated}`];
}

/** A refusal as Cassandra 5.0.9 words it. */
function denied(permission: string): CassandraFailure {
  const [verb, name] = permission.split(" ");
  return new CassandraFailure("refused", `User concord has no ${verb} permission on <table concord.${name}> or any of its parents`);
}

export const schemaSession = {
  neededBy,
  denied,
  replicationOf,
  rows,
  read,
  table,
  column,
};
