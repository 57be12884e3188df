// `storage-proxy schema plan|apply [options]`: the only maker of the tables in Cassandra. A plan prints CQL that the operator can review, or
// have carried out by other means; an apply carries the same out.
import { applySchema, openDriverSession, planSchema, type SchemaPlan } from "@concord/adapter-cassandra";
import type { ConfigProcess } from "@concord/config";
import { ConcordError, toConcordError, type Clock, type Log } from "@concord/runtime";
import type { StorageProxyConfig } from "../config.ts";
import { connectionOf, datacenterOf } from "./open-cassandra.ts";

export type SchemaCommand = "plan" | "apply";

const REPLICAS_DEFAULT = 3;
/** In front of it the interpreter and the script. */
const COMMAND_AT = 2;

/** The command in front of the options, and the process without it. */
export function schemaCommandOf(process: ConfigProcess): { readonly command: SchemaCommand | undefined; readonly process: ConfigProcess } {
  const [name, command] = process.argv.slice(COMMAND_AT);
  if (name !== "schema" || (command !== "plan" && command !== "apply")) return { command: undefined, process };
  const { env, stdout, stderr } = process;
  const argv = [...process.argv.slice(0, COMMAND_AT), ...process.argv.slice(COMMAND_AT + 2)];
  return { command, process: { argv, env, stdout, stderr, exit: (code) => process.exit(code) } };
}

export interface SchemaCommandOptions {
  readonly config: StorageProxyConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly process: Pick<ConfigProcess, "stdout" | "stderr" | "exit">;
}

/** Prints what it did and ends the process: 0 when done, 1 with the reason when not. */
export async function endWithSchemaCommand(command: SchemaCommand, { config, clock, log, process }: SchemaCommandOptions): Promise<never> {
  let text: string;
  try {
    text = await schemaText(command, config, clock, log);
  } catch (thrown) {
    process.stderr.write(`schema ${command}: ${toConcordError(thrown).message}\n`);
    return process.exit(1);
  }
  process.stdout.write(text);
  return process.exit(0);
}

/** The statements that would go, or went, to Cassandra. */
async function schemaText(command: SchemaCommand, config: StorageProxyConfig, clock: Clock, log: Log): Promise<string> {
  if (config.backend !== "cassandra")
    throw new ConcordError("MALFORMED_REQUEST", `backend ${config.backend} has no schema to apply: only cassandra has`);
  const session = await openDriverSession({ ...connectionOf(config), clock, log, onNodeUp: () => undefined });
  try {
    const replicas = config.cassandraReplicas ?? { [datacenterOf(config)]: REPLICAS_DEFAULT };
    const plan = await (command === "plan" ? planSchema : applySchema)({ session, keyspace: config.cassandraKeyspace, replicas });
    return textOf(plan, command);
  } finally {
    await session.close();
  }
}

/** CQL as cqlsh takes it. */
function textOf({ version, target, statements }: SchemaPlan, command: SchemaCommand): string {
  if (statements.length === 0) return `-- version ${version}: nothing to do\n`;
  const verb = command === "plan" ? "would go" : "went";
  return `-- the schema ${verb} from version ${version} to ${target}\n${statements.map((statement) => `${statement};\n`).join("")}`;
}
