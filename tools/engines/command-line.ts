import { parseArgs } from "node:util";

export const COMMANDS = ["start", "stop", "status", "kill", "pause", "resume"] as const;
export const ENGINES = ["cassandra", "kafka", "ceph"] as const;

export type CommandName = (typeof COMMANDS)[number];
export type EngineName = (typeof ENGINES)[number];

export interface CommandLine {
  readonly command: CommandName;
  readonly engine: EngineName;
  /** Folder of the cluster; undefined: the default one. */
  readonly data: string | undefined;
  /** Nodes of a new cluster; undefined: one, or as many as the folder has. */
  readonly nodes: number | undefined;
  /** Of a new cluster: the nodes are racks of one datacenter. */
  readonly oneDatacenter: boolean;
  /** Of a new cluster, by tests only: see Layout. */
  readonly isShortLived?: boolean;
  readonly hasRoles?: boolean;
  /** The one process that is meant; undefined: all. */
  readonly node: string | undefined;
}

export const USAGE = [
  `usage: npm run engines -- ${COMMANDS.join("|")} ${ENGINES.join("|")} [--nodes N] [--one-dc] [--data DIR] [--node NAME]`,
  "  --nodes N    nodes of a new cluster: cassandra 1 to 3, kafka 1 or 3, ceph 1",
  "  --one-dc     cassandra: the nodes of a new cluster are racks of one datacenter, not a datacenter each",
  "  --data DIR   folder of the cluster, default .concord/engines/ENGINE; a stopped cluster starts again with what it holds",
  "  --node NAME  one process only, as status names it: 1, 2, 3, of ceph mon and osd",
  "  --help       this text",
].join("\n");

const TEXT = { type: "string" } as const;
const FLAG = { type: "boolean" } as const;
const OPTIONS = { nodes: TEXT, data: TEXT, node: TEXT, "one-dc": FLAG, help: { ...FLAG, short: "h" } } as const;

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS });
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`, { cause: error });
  }
}

/** "help" where the usage is asked for. Throws with the usage when a command cannot be read. */
export function readCommandLine(args: readonly string[]): CommandLine | "help" {
  const { values, positionals } = parse(args);
  if (values.help === true) return "help";
  const command = COMMANDS.find((name) => name === positionals[0]);
  const engine = ENGINES.find((name) => name === positionals[1]);
  if (command === undefined || engine === undefined || positionals.length !== 2) throw new Error(USAGE);
  if (values.nodes !== undefined && !/^[1-9]$/.test(values.nodes))
    throw new Error(`--nodes ${values.nodes} is no number of nodes\n${USAGE}`);
  if (values.nodes !== undefined && command !== "start") throw new Error(`--nodes belongs to start\n${USAGE}`);
  const oneDatacenter = values["one-dc"] === true;
  if (oneDatacenter && (command !== "start" || engine !== "cassandra")) throw new Error(`--one-dc belongs to start cassandra\n${USAGE}`);
  const nodes = values.nodes === undefined ? undefined : Number(values.nodes);
  return { command, engine, data: values.data, nodes, oneDatacenter, node: values.node };
}
