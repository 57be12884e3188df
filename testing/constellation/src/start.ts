// npm start: the constellation in the foreground.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  FolderInUseError,
  PORT_BASE,
  startConstellation,
  type Constellation,
  type Exit,
  type Members,
  type NodeProcess,
} from "./constellation.ts";
import { CREDENTIALS_FILE } from "./data-folder.ts";
import { EnginesError, enginesOf, OWN_ENGINES, type Engines } from "./engines.ts";
import { EVERYTHING, NODES_MAX, ONE_PROCESS, PORTS_SPAN } from "./layout.ts";
import { memoryMiB } from "./process-usage.ts";

const HELP = `npm start -- [--nodes 3 | --separate [--gateways N]] [--storage cassandra] [--log kafka] [--objects rados]
             [--data DIR] [--port-base N]

Starts Concord on this machine and prints its endpoints when all is ready; Ctrl-C drains it. A second start finds the data. Alone: one
process with everything in it.

  --nodes 3        three such processes in three simulated datacenters: three copies of all rows, each the master of a third of them
  --separate       each service in processes of its own, as one may deploy them: three storage-proxies and three txn-coordinators in three
                   simulated datacenters, an S3 gateway and a dedup worker
  --data DIR       where data, logs, tokens and S3 credentials are kept (default ./.concord). Each of the three forms has data of its own
  --port-base N    processes with everything listen on N+1.. (S3 on N+21..). Separate: storage-proxies on N+1.., txn-coordinators on N+101..,
                   object gateways on N+201.. (S3 on N+221..), the dedup worker on N+301. Admin ports ten above (default ${PORT_BASE})
  --gateways N     with --separate: object gateways, 1 to ${NODES_MAX} (default 1). One keeps its metadata itself; several share theirs in transactions:
                   a data folder stays with one of the two
  --storage NAME   ring (default), or cassandra: rows are in the Cassandra that npm run engines -- start cassandra has started
  --log NAME       embedded (default), or kafka: messages are in the Kafka that npm run engines -- start kafka has started
  --objects NAME   filesystem (default), or rados: data of objects is in the Ceph that npm run engines -- start ceph has started. A data folder
                   stays with the engines that it was begun with
  --engines DIR    where the engines were started (default ${OWN_ENGINES.folder})
  --version        version and commit
  --help           this text
`;
const PORT_BASE_MAX = 65_535 - PORTS_SPAN;

interface Flags {
  readonly dataFolder: string;
  readonly portBase: number;
  readonly members: Members;
  readonly engines: Engines;
}

class UsageError extends Error {}
/** Ctrl-C came during the start. */
class StoppedError extends Error {}

/** Undefined: help was asked for. UsageError on a mistake. */
function readFlags(argv: readonly string[]): Flags | undefined {
  const { values } = parsed({
    args: [...argv],
    options: {
      data: { type: "string", default: ".concord" },
      "port-base": { type: "string", default: String(PORT_BASE) },
      nodes: { type: "string" },
      separate: { type: "boolean" },
      gateways: { type: "string" },
      storage: { type: "string", default: OWN_ENGINES.storage },
      log: { type: "string", default: OWN_ENGINES.log },
      objects: { type: "string", default: OWN_ENGINES.objects },
      engines: { type: "string", default: OWN_ENGINES.folder },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return undefined;
  const portBase = Number(values["port-base"]);
  if (!Number.isInteger(portBase) || portBase < 1024 || portBase > PORT_BASE_MAX) {
    throw new UsageError(`--port-base must be a whole number from 1024 to ${PORT_BASE_MAX}`);
  }
  const members = membersOf(values);
  const engines = enginesOf(values);
  return { dataFolder: values.data, portBase, members, engines };
}

interface Form {
  readonly nodes?: string | undefined;
  readonly separate?: boolean | undefined;
  readonly gateways?: string | undefined;
}

function membersOf({ nodes, separate, gateways }: Form): Members {
  if (separate === true) {
    if (nodes !== undefined) throw new UsageError("give --nodes or --separate, not both");
    const count = Number(gateways ?? 1);
    if (!Number.isInteger(count) || count < 1 || count > NODES_MAX) throw new UsageError(`--gateways must be 1 to ${NODES_MAX}`);
    return { ...EVERYTHING, "object-gateway": count };
  }
  if (gateways !== undefined) throw new UsageError("--gateways goes with --separate");
  if (nodes === undefined || nodes === "1") return ONE_PROCESS;
  if (nodes !== String(NODES_MAX)) throw new UsageError(`--nodes must be 1 or ${NODES_MAX}`);
  return { concord: NODES_MAX };
}

/** A folder is started as it was made: another form would begin with nothing beside the data that is there. */
const MADE_BY: readonly (readonly [folder: string, members: Members, command: string])[] = [
  ["concord", ONE_PROCESS, "npm start"],
  ["concord-1", { concord: NODES_MAX }, "npm start -- --nodes 3"],
  ["storage-proxy-1", EVERYTHING, "npm start -- --separate"],
];

function checkForm({ dataFolder, members }: Flags): void {
  const made = MADE_BY.filter(([folder]) => existsSync(join(dataFolder, folder)));
  const isSame = (other: Members): boolean => other.concord === members.concord;
  if (made.length === 0 || made.some(([, other]) => isSame(other))) return;
  throw new UsageError(`${resolve(dataFolder)} was made by ${made[0]![2]}: start it so, or give another --data`);
}

function parsed<Config extends Parameters<typeof parseArgs>[0]>(config: Config): ReturnType<typeof parseArgs<NonNullable<Config>>> {
  try {
    return parseArgs(config as NonNullable<Config>);
  } catch (error) {
    throw new UsageError(`${(error as Error).message}; --help shows what there is`);
  }
}

function table({ nodes }: Constellation): string {
  const rows = [
    ["name", "datacenter", "gRPC", "admin (/healthz /readyz /metrics)", "S3"],
    ...nodes.map((node) => [
      node.name,
      node.datacenter,
      node.address,
      `http://${node.adminAddress}`,
      node.httpAddress === undefined ? "" : `http://${node.httpAddress}`,
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Resident, pages that several processes share counted once; nothing on a system that does not say. */
function memory(constellation: Constellation): string {
  const mebibytes = memoryMiB(constellation.nodes.flatMap(({ name }) => constellation.process(name).pid ?? []));
  return mebibytes === 0 ? "" : `, ${mebibytes.toFixed(0)} MiB in memory`;
}

function reportCrash(node: NodeProcess, exit: Exit): void {
  console.error(`\n${node.plan.name} has ended (${exit.signal ?? `exit code ${exit.code}`}); the others go on.\n${node.logTail()}\n`);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2));
  if (flags === undefined) {
    console.log(HELP);
    return;
  }
  checkForm(flags);
  const startedAt = performance.now();
  const stopping = new AbortController();
  const stop = firstSignal().then(() => stopping.abort(new StoppedError("stopped before all were ready")));
  const counts = Object.entries(flags.members).map(([service, count]) => `${count} ${service}`);
  console.log(`starting ${counts.join(", ")}; data in ${resolve(flags.dataFolder)}`);
  const onProgress = (line: string): void => console.log(`  ${line}`);
  const { signal } = stopping;
  const constellation = await startConstellation({ ...flags, readyTimeoutMs: Infinity, signal, onProgress, onCrash: reportCrash });
  const credentials = resolve(flags.dataFolder, CREDENTIALS_FILE);
  console.log(`\n${table(constellation)}\n\nfor S3 clients: export AWS_SHARED_CREDENTIALS_FILE=${credentials}`);
  console.log(`ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s${memory(constellation)}; Ctrl-C drains`);
  await stop;
  console.log("\ndraining ...");
  await constellation.stop();
  console.log("stopped");
}

/** A second signal ends this process at once; the nodes are found and ended by the next start. */
function firstSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}

try {
  await main();
} catch (error) {
  const isPlain = [FolderInUseError, UsageError, StoppedError, EnginesError].some((type) => error instanceof type);
  console.error(error instanceof Error ? (isPlain ? error.message : `could not start: ${error.message}`) : error);
  process.exitCode = error instanceof UsageError ? 2 : error instanceof StoppedError ? 0 : 1;
}
