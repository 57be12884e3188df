// One attack from outside against real processes, and what it may use of them.
import type { Client, Constellation, Members } from "@concord/constellation";
import type { Bystanders, Served } from "./bystanders.ts";

/** Environment variables of one life of a process. */
export type Environment = Readonly<Record<string, string>>;

export interface Attack {
  /** Names the attacker's means: "silent-connections". */
  readonly name: string;
  /** The symptom that users met before the mend, with its figure. */
  readonly symptom: string;
  /** Whether `--short` runs it, as CI does: below a minute on a quiet machine. */
  readonly isShort: boolean;
  /** Default: the one program alone. */
  readonly members?: Members;
  /** Additional settings of each process that keeps rows: the one program, or the storage-proxies. */
  readonly config?: object;
  /** Limit of open files of the processes, RLIMIT_NOFILE; absent = ours. */
  readonly descriptorsMax?: number;
  /** Folder on a file system of its own with this size, for attacks that fill the disk; needs root. */
  readonly diskMiB?: number;
  /** The node whose folder is on that disk alone; default: all that the processes write. */
  readonly diskOf?: string;
  /** Resident memory that a process may take beyond what it has before the attack. Default GROWTH_MIB_MAX. */
  readonly growthMiBMax?: number;
  /** Text that says why the attack cannot run on this machine; undefined = it can. */
  readonly missing?: () => string | undefined;
  /** Attacks; `target.serves` judges the services while it goes on. All connections and files that it holds are released at the end. */
  run(target: Target): Promise<void>;
}

/** The processes under attack. */
export interface Target {
  readonly constellation: Constellation;
  /** The client's package. */
  readonly client: Client;
  /** Name, gRPC address, S3 address and admin address of the attacked process, the first one. */
  readonly name: string;
  readonly address: string;
  readonly httpAddress: string;
  readonly adminAddress: string;
  /** Folder of the constellation's data; `dataFolder(name)` is that of one process. */
  readonly folder: string;
  dataFolder(name: string): string;
  /** Token that clients have; an attacker without it is a stranger. */
  readonly clientToken: string;
  /** Services that stopped serving honest users. */
  readonly lost: ReadonlySet<Served>;
  /** Honest users of all services, at work all the time. */
  readonly bystanders: Bystanders;
  /** Process id of the attacked process; throws when it has ended. */
  pid(): number;
  /** Waits until each service, but those in `out`, has acknowledged an operation that began after this call; a service that does not is lost. */
  serves(when: string, out?: readonly Served[]): Promise<void>;
  /** SIGTERM, and the exit code must be 0. Bystanders pause. */
  stop(name?: string): Promise<void>;
  /** Starts the process again after `stop` or `kill`, waits until it serves as far as it can, and lets bystanders go on. */
  start(environment?: Environment, name?: string): Promise<void>;
  kill(name?: string): Promise<void>;
  /** Resident MiB and descriptors of the attacked process now. */
  measure(): Measured;
  /** One line of the report. */
  note(text: string): void;
  /** Something that must not be: the attack has succeeded. */
  fail(text: string): void;
}

export interface Measured {
  readonly residentMiB: number;
  readonly descriptors: number;
}
