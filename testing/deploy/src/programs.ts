// The programs of the image, and what each makes of a container's arguments, variables and files.
import { concordSchema } from "@concord/concord";
import { loadConfig } from "@concord/config";
import { dedupWorkerSchema } from "@concord/dedup-worker";
import { objectGatewaySchema } from "@concord/object-gateway";
import { storageProxySchema } from "@concord/storage-proxy";
import { txnCoordinatorSchema } from "@concord/txn-coordinator";

const SCHEMAS = {
  concord: concordSchema,
  "storage-proxy": storageProxySchema,
  "txn-coordinator": txnCoordinatorSchema,
  "object-gateway": objectGatewaySchema,
  "dedup-worker": dedupWorkerSchema,
} as const;

/** What containers are checked by; a program has those of the keys that its schema has. */
export interface ContainerConfig {
  readonly lameDuckMs: number;
  readonly drainGraceMs: number;
  readonly nodeName: string;
  readonly datacenter?: string;
  readonly listenAddress: string;
  readonly adminAddress: string;
  readonly httpAddress?: string;
  readonly dataFolder?: string;
  readonly dataStoreFolder?: string;
  readonly objects?: string;
  readonly cephConf?: string;
  readonly cephUser?: string;
  readonly cephPool?: string;
  readonly backend?: string;
  readonly log?: string;
  readonly partitions?: number;
  readonly snowflakeWorkerId?: number;
  readonly clientToken?: string;
  readonly operatorToken?: string;
  readonly nodes?: readonly Member[];
  readonly ring?: readonly Member[];
  readonly coordinators?: readonly (Member | string)[];
  readonly storageProxies?: readonly Member[];
  readonly workers?: readonly Member[];
  readonly workerToken?: string;
  readonly kafkaWorkersTopic?: string;
  readonly kafkaBrokers?: readonly string[];
  readonly kafkaInputTopic?: string;
  readonly kafkaOutputTopic?: string;
  readonly kafkaDeadLettersTopic?: string;
  readonly cassandraContactPoints?: readonly string[];
  readonly tlsCertificateFile?: string;
}

export interface Member {
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
}

export interface Container {
  /** As after the entrypoint: the program's file and its options. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** What the image sets itself, from its Dockerfile. */
export function imageVariables(dockerfile: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...dockerfile.matchAll(/\b(CONCORD_[A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name!, value!]));
}

/** The configuration that the program starts with. Throws with all of its complaints. */
export function configOf({ args, env, files = {} }: Container): { readonly program: string; readonly config: ContainerConfig } {
  const [file = "concord.js", ...options] = args;
  const program = file.replace(/\.js$/, "");
  if (!Object.hasOwn(SCHEMAS, program) || `${program}.js` !== file) throw new Error(`the image has no program ${file}`);
  // A command in front of the options: `schema apply`.
  const argv = options[0] === "schema" ? options.slice(2) : options;
  const readFile = (path: string): string => {
    const content = files[path];
    if (content === undefined) throw new Error(`nothing is mounted at ${path}`);
    return content;
  };
  const loaded = loadConfig({ name: program, schema: SCHEMAS[program as keyof typeof SCHEMAS], argv, env, readFile });
  if (loaded.kind !== "config") throw new Error(loaded.kind === "invalid" ? loaded.problems.join("\n") : `it prints ${loaded.kind}`);
  return { program, config: loaded.config as ContainerConfig };
}

export const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(":") + 1));
export const hostOf = (address: string): string => address.slice(0, address.lastIndexOf(":"));
