import { ConcordError } from "@concord/runtime";
import { failureOf, readError } from "./failure.ts";
import { CHECK_TIMEOUT_MS } from "./limits.ts";
import { reasonOf } from "./permissions.ts";
import type { CassandraSession } from "./session.ts";
import { checkKeyspaceName, MIGRATIONS, MIGRATIONS_TABLE, migrationsTable, SCHEMA_VERSION } from "./tables.ts";

const SCHEMA_ROW = "schema";

export interface SchemaOptions {
  readonly session: CassandraSession;
  readonly keyspace: string;
  /** Replicas by datacenter, for a keyspace that is not there yet. */
  readonly replicas: Readonly<Record<string, number>>;
}

/** What an apply would do. */
export interface SchemaPlan {
  /** 0: nothing is there. */
  readonly version: number;
  readonly target: number;
  /** In order; each may be repeated. Empty: everything is there. */
  readonly statements: readonly string[];
}

/** Reads what is there and changes nothing. INTERNAL when a newer program made the schema. */
export async function planSchema({ session, keyspace, replicas }: SchemaOptions): Promise<SchemaPlan> {
  checkKeyspaceName(keyspace);
  const version = await schemaVersion(session, keyspace);
  if (version === undefined) {
    return { version: 0, target: SCHEMA_VERSION, statements: [keyspaceStatement(keyspace, replicas), ...migrationsFrom(keyspace, 0)] };
  }
  if (version > SCHEMA_VERSION) throw newer(keyspace, version);
  return { version, target: SCHEMA_VERSION, statements: version === SCHEMA_VERSION ? [] : migrationsFrom(keyspace, version) };
}

/** Carries a plan out, one statement after the other, then notes the version. Two at once, or one again after a failure, are harmless. */
export async function applySchema(options: SchemaOptions): Promise<SchemaPlan> {
  const plan = await planSchema(options);
  for (const statement of plan.statements) await options.session.define(statement).catch(rethrow);
  return plan;
}

/** Refuses to serve on a schema that is not this program's (INTERNAL). REPLICAS_UNAVAILABLE, READ_TIMEOUT: it could not be read. */
export async function checkSchema(session: CassandraSession, keyspace: string): Promise<void> {
  const version = await schemaVersion(session, checkKeyspaceName(keyspace));
  if (version === SCHEMA_VERSION) return;
  if (version !== undefined && version > SCHEMA_VERSION) throw newer(keyspace, version);
  const found = version === undefined ? "has no tables of Concord" : `has version ${version} of Concord's tables`;
  throw refused(`keyspace ${keyspace} ${found}, this program needs ${SCHEMA_VERSION}: look at \`schema plan\`, then run \`schema apply\``);
}

/** Undefined: no keyspace, or none of ours. */
async function schemaVersion(session: CassandraSession, keyspace: string): Promise<number | undefined> {
  const read = (query: string, parameters: readonly string[]) =>
    session.read({ query, parameters }, { consistency: "quorum", timeoutMs: CHECK_TIMEOUT_MS }).catch((thrown: unknown) => {
      const failure = failureOf(thrown);
      throw failure.kind === "refused" ? refused(`Cassandra: ${reasonOf(failure)}`) : readError(failure);
    });
  const tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
  if ((await read(tables, [keyspace, MIGRATIONS_TABLE])).rows.length === 0) return undefined;
  const { rows } = await read(`SELECT version FROM ${keyspace}.${MIGRATIONS_TABLE} WHERE id = ?`, [SCHEMA_ROW]);
  const version = rows[0]?.["version"];
  return typeof version === "number" ? version : 0;
}

function migrationsFrom(keyspace: string, version: number): readonly string[] {
  const note = `INSERT INTO ${keyspace}.${MIGRATIONS_TABLE} (id, version) VALUES ('${SCHEMA_ROW}', ${SCHEMA_VERSION})`;
  return [migrationsTable(keyspace), ...MIGRATIONS.slice(version).flatMap((statements) => statements(keyspace)), note];
}

function keyspaceStatement(keyspace: string, replicas: SchemaOptions["replicas"]): string {
  const datacenters = Object.entries(replicas).map(([name, count]) => `'${name.replaceAll("'", "''")}': ${count}`);
  return `CREATE KEYSPACE IF NOT EXISTS ${keyspace}
  WITH replication = {'class': 'NetworkTopologyStrategy', ${datacenters.join(", ")}} AND durable_writes = true`;
}

function newer(keyspace: string, version: number): ConcordError {
  return refused(`keyspace ${keyspace} has version ${version} of Concord's tables, this program knows ${SCHEMA_VERSION}: run a newer one`);
}

function refused(message: string): ConcordError {
  return new ConcordError("INTERNAL", message, { applied: "no" });
}

function rethrow(thrown: unknown): never {
  throw refused(`Cassandra: ${reasonOf(failureOf(thrown))}`);
}
