import { failureOf, type CassandraFailure, type FailureKind } from "./failure.ts";
import { CHECK_TIMEOUT_MS } from "./limits.ts";
import type { CassandraSession, Parameter, Statement } from "./session.ts";
import { GROUP_LOG_TABLE, METADATA_TABLE, MIGRATIONS_TABLE, ROW_TABLES } from "./tables.ts";

interface Denied {
  readonly role: string;
  readonly permission: string;
  /** Its name in Cassandra: "table concord.rows", "keyspace concord", "all keyspaces". */
  readonly resource: string;
}

const DENIED = /User (.+?) has no (\w+) permission on <(.+?)>/;
const PERMITTED: ReadonlySet<FailureKind> = new Set(["unavailable", "read-unanswered", "write-unacknowledged"]);
const PLAIN_NAME = /^[a-z][a-z0-9_]*$/;
/** Key of a row that is never there: a read of it finds nothing, and a write under a condition on it is not applied. */
const ABSENT = "concord permission check";
const ABSENT_BYTES = new TextEncoder().encode(ABSENT);

interface Probe {
  readonly table: string;
  readonly key: string;
  readonly parameters: readonly Parameter[];
  /** Some column that is no key, and a value of its type. */
  readonly column: string;
  readonly value: Parameter;
}

const PROBES: readonly Probe[] = [
  ...ROW_TABLES.map((table): Probe => {
    return { table, key: "partition = ? AND clustering = ?", parameters: [ABSENT_BYTES, ABSENT_BYTES], column: "deleted", value: 0n };
  }),
  { table: GROUP_LOG_TABLE, key: "group_name = ? AND kind = ? AND seq = ?", parameters: [ABSENT, 0, 0n], column: "owner", value: ABSENT },
  {
    table: METADATA_TABLE,
    key: "partition = ? AND kind = ? AND key = ?",
    parameters: [ABSENT, 0, ABSENT_BYTES],
    column: "seq",
    value: 0n,
  },
  { table: MIGRATIONS_TABLE, key: "id = ?", parameters: [ABSENT], column: "version", value: 0 },
];

/**
 * Permissions that Concord's role lacks on its tables, one line each with the statement that grants it: found by doing what needs them, so that it
 * holds for every authorizer. Rejects with the CassandraFailure of any other failure.
 */
export async function missingPermissions(
  session: Pick<CassandraSession, "read" | "compareAndSet">,
  keyspace: string,
): Promise<readonly string[]> {
  const found: (Denied & { readonly table: string })[] = [];
  for (const probe of PROBES) {
    const denied = [
      await deniedBy(session.read(selectOf(keyspace, probe), { consistency: "quorum", timeoutMs: CHECK_TIMEOUT_MS })),
      await deniedBy(session.compareAndSet([updateOf(keyspace, probe)], { timeoutMs: CHECK_TIMEOUT_MS })),
    ];
    for (const each of denied) if (each !== undefined) found.push({ ...each, table: probe.table });
  }
  return [...Map.groupBy(found, ({ permission }) => permission)].map(([permission, all]) => {
    const { role } = all[0]!;
    const tables = [...new Set(all.map(({ table }) => table))].join(", ");
    const grant = grantOf({ role, permission, resource: `keyspace ${keyspace}` });
    return `role ${role} has no ${permission} permission on ${tables} of keyspace ${keyspace}: ${grant}`;
  });
}

function selectOf(keyspace: string, { table, key, parameters, column }: Probe): Statement {
  return { query: `SELECT ${column} FROM ${keyspace}.${table} WHERE ${key}`, parameters };
}

function updateOf(keyspace: string, { table, key, parameters, column, value }: Probe): Statement {
  const query = `UPDATE ${keyspace}.${table} SET ${column} = ? WHERE ${key} IF ${column} = ?`;
  return { query, parameters: [value, ...parameters, value] };
}

async function deniedBy(asked: Promise<unknown>): Promise<Denied | undefined> {
  try {
    await asked;
    return undefined;
  } catch (thrown) {
    const failure = failureOf(thrown);
    const denied = deniedOf(failure);
    // Cassandra checks permissions before it asks replicas: a request that too few of them answered was permitted.
    if (denied === undefined && !PERMITTED.has(failure.kind)) throw failure;
    return denied;
  }
}

function deniedOf({ kind, message }: CassandraFailure): Denied | undefined {
  const [, role, permission, resource] = (kind === "refused" ? DENIED.exec(message) : null) ?? [];
  return role === undefined ? undefined : { role, permission: permission!, resource: resource! };
}

function grantOf({ role, permission, resource }: Denied): string {
  const [, keyspace] = /^(?:table|all tables in|keyspace) (\w+)/.exec(resource) ?? [];
  const name = PLAIN_NAME.test(role) ? role : `"${role.replaceAll('"', '""')}"`;
  return `GRANT ${permission} ON ${keyspace === undefined ? "ALL KEYSPACES" : `KEYSPACE ${keyspace}`} TO ${name}`;
}

/** The failure's message, with the statement that grants what a role lacks. */
export function reasonOf(failure: CassandraFailure): string {
  const denied = deniedOf(failure);
  return denied === undefined ? failure.message : `${failure.message}: ${grantOf(denied)}`;
}
