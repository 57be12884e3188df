import { assert, ConcordError } from "@concord/runtime";
import { failureOf } from "./failure.ts";
import { CHECK_TIMEOUT_MS, OUTCOMES_GC_GRACE_SECONDS, REPLICAS_MIN, ROWS_GC_GRACE_SECONDS } from "./limits.ts";
import { missingPermissions, reasonOf } from "./permissions.ts";
import type { CassandraNode, CassandraSession, Column, ResultRow } from "./session.ts";
import { MIGRATIONS } from "./tables.ts";

/** Faults of a keyspace, one line each: what was found, what it must be, the statement that changes it. */
export interface KeyspaceFaults {
  /** Faults by which acknowledged data is or can be lost. */
  readonly losing: readonly string[];
  /** Permissions that Concord's role lacks: what needs them fails. */
  readonly forbidden: readonly string[];
  /** Less is promised than three copies do. */
  readonly weak: readonly string[];
}

export type CheckingSession = Pick<CassandraSession, "read" | "compareAndSet" | "nodes">;

interface Table {
  readonly name: string;
  /** Column to its type, kind, position and order, as system_schema has them. */
  readonly columns: ReadonlyMap<string, string>;
}

/** Reads what Cassandra has. INTERNAL when it refuses, REPLICAS_UNAVAILABLE when it does not answer. */
export async function keyspaceFaults(session: CheckingSession, keyspace: string): Promise<KeyspaceFaults> {
  const select = async (columns: string, from: string): Promise<readonly ResultRow[]> => {
    const query = `SELECT ${columns} FROM system_schema.${from} WHERE keyspace_name = ?`;
    const answer = await session
      .read({ query, parameters: [keyspace] }, { consistency: "quorum", timeoutMs: CHECK_TIMEOUT_MS })
      .catch((thrown: unknown) => rethrow(keyspace, thrown));
    return answer.rows;
  };
  const [found] = await select("durable_writes, replication", "keyspaces");
  const tables = await select("table_name, gc_grace_seconds, default_time_to_live", "tables");
  const columns = await select("table_name, column_name, type, kind, position, clustering_order", "columns");
  const losing = [
    ...durabilityFaults(keyspace, found),
    ...tablesOf(keyspace).flatMap((table) => tableFaults(keyspace, table, tables, columns)),
  ];
  return {
    losing,
    // A table that is not there is no question of permissions.
    forbidden: losing.length > 0 ? [] : await missingPermissions(session, keyspace).catch((thrown: unknown) => rethrow(keyspace, thrown)),
    weak: replicationFaults(keyspace, found, session.nodes()),
  };
}

function durabilityFaults(keyspace: string, found: ResultRow | undefined): readonly string[] {
  if (found === undefined) return [`keyspace ${keyspace} is not there: run \`schema apply\``];
  if (found["durable_writes"] === true) return [];
  const statement = `ALTER KEYSPACE ${keyspace} WITH durable_writes = true`;
  return [`durable_writes of keyspace ${keyspace} is false: what is acknowledged is lost when its nodes end: ${statement}`];
}

function replicationFaults(keyspace: string, found: ResultRow | undefined, nodes: readonly CassandraNode[]): readonly string[] {
  if (found === undefined) return [];
  // The driver gives a map's values as they are declared: text here.
  const replication = found["replication"] as unknown as ReadonlyMap<string, string>;
  const counts = [...replication].filter(([name]) => name !== "class").map(([name, text]) => ({ name, count: copiesOf(text) }));
  const alter = `ALTER KEYSPACE ${keyspace} WITH replication = {'class': 'NetworkTopologyStrategy', DATACENTER: ${REPLICAS_MIN}}, then nodetool repair --full ${keyspace} on each node`;
  const faults: string[] = [];
  if (counts.reduce((sum, { count }) => sum + count, 0) < REPLICAS_MIN) {
    const shown = counts.map(({ name, count }) => `${name}: ${count}`).join(", ") || "none";
    faults.push(
      `replication of keyspace ${keyspace} is ${shown}: with fewer than ${REPLICAS_MIN} copies one lost node stops it or loses what is acknowledged: ${alter}`,
    );
  }
  for (const { name, count } of counts) {
    // SimpleStrategy places its copies without regard to datacenters.
    const there = nodes.filter(({ datacenter }) => name === "replication_factor" || datacenter === name).length;
    if (count > there)
      faults.push(
        `replication of keyspace ${keyspace} has ${name}: ${count}, where ${there} nodes are: each quorum counts copies that no node has: add nodes, or ${alter}`,
      );
  }
  return faults;
}

/** "3", or "3/1" where one of three is transient: it keeps what is written only until the others have it. */
function copiesOf(text: string): number {
  const [all, transient = 0] = text.split("/").map(Number);
  return all! - transient;
}

function tableFaults(
  keyspace: string,
  { name, columns }: Table,
  tables: readonly ResultRow[],
  found: readonly ResultRow[],
): readonly string[] {
  const table = tables.find((row) => row["table_name"] === name);
  if (table === undefined)
    return [`table ${keyspace}.${name} is not there: restore it, or run \`schema apply\` for a keyspace without data`];
  const faults: string[] = [];
  const graceMin = name === "outcomes" ? OUTCOMES_GC_GRACE_SECONDS : ROWS_GC_GRACE_SECONDS;
  const [grace, ttl] = [table["gc_grace_seconds"], table["default_time_to_live"]].map(Number) as [number, number];
  const change = (setting: string): string => `ALTER TABLE ${keyspace}.${name} WITH ${setting}`;
  if (!(grace >= graceMin))
    faults.push(
      `gc_grace_seconds of ${keyspace}.${name} is ${grace}: below ${graceMin} what was deleted comes back: ${change(`gc_grace_seconds = ${graceMin}`)}`,
    );
  if (ttl !== 0)
    faults.push(
      `default_time_to_live of ${keyspace}.${name} is ${ttl}: what is acknowledged vanishes: ${change("default_time_to_live = 0")}`,
    );
  const there = new Map(found.filter((row) => row["table_name"] === name).map((row) => [textOf(row["column_name"]), shapeOf(row)]));
  for (const [column, shape] of columns) {
    const is = there.get(column);
    if (is !== shape)
      faults.push(`column ${column} of ${keyspace}.${name} is ${is ?? "not there"}, it must be ${shape}: restore the table`);
  }
  return faults;
}

function shapeOf(row: ResultRow): string {
  const [type, kind] = [textOf(row["type"]), textOf(row["kind"])];
  if (kind === "regular") return `${type} regular`;
  const position = `${type} ${kind} ${Number(row["position"])}`;
  return kind === "clustering" ? `${position} ${textOf(row["clustering_order"])}` : position;
}

function textOf(column: Column): string {
  assert(typeof column === "string", "the column is a text");
  return column;
}

/** The tables that the migrations make, so that the two cannot differ. */
export function tablesOf(keyspace: string): readonly Table[] {
  return MIGRATIONS.flatMap((statements) => statements(keyspace)).map((statement) => {
    const [, name, body] = /^CREATE TABLE IF NOT EXISTS \w+\.(\w+) \(([\s\S]*?PRIMARY KEY \([^)]*\))\)/.exec(statement) ?? [];
    if (name === undefined || body === undefined) throw new Error(`no table in ${statement}`);
    const [definitions, key] = body.split("PRIMARY KEY") as [string, string];
    const keys = key.replaceAll(/[()\s]/g, "").split(",");
    // The comma in map<text, blob> separates no columns.
    const columns = definitions.split(/,(?![^<]*>)/).map((text) => text.trim());
    return { name, columns: new Map(columns.filter((text) => text !== "").map((text) => columnOf(text, keys))) };
  });
}

function columnOf(definition: string, keys: readonly string[]): [string, string] {
  const space = definition.indexOf(" ");
  const [name, type] = [definition.slice(0, space), definition.slice(space + 1)];
  const at = keys.indexOf(name);
  return [name, at < 0 ? `${type} regular` : at === 0 ? `${type} partition_key 0` : `${type} clustering ${at - 1} asc`];
}

function rethrow(keyspace: string, thrown: unknown): never {
  const failure = failureOf(thrown);
  const message = `keyspace ${keyspace} could not be checked: ${reasonOf(failure)}`;
  throw new ConcordError(failure.kind === "refused" ? "INTERNAL" : "REPLICAS_UNAVAILABLE", message, { applied: "no", cause: failure });
}
