import type { Clock, Log } from "@concord/runtime";

/** A bound value; undefined leaves the column as it is. A bigint must fit 64 bits: the driver would store another number in silence. */
export type Parameter = bigint | string | Uint8Array | ReadonlyMap<string, Uint8Array> | number | null | undefined;

export interface Statement {
  readonly query: string;
  readonly parameters: readonly Parameter[];
}

/** A column's value as the driver gives it. */
export type Column = bigint | number | string | boolean | Uint8Array | ReadonlyMap<string, Uint8Array> | null | undefined;
export type ResultRow = Readonly<Record<string, Column>>;

export interface Answer {
  readonly rows: readonly ResultRow[];
  /** Where the next page begins. */
  readonly pageState: string | undefined;
  /** Of a conditional statement: its conditions held. */
  readonly isApplied: boolean;
}

export interface ReadSettings {
  readonly consistency: "quorum" | "serial";
  readonly timeoutMs: number;
  /** Rows of a page; all of them when absent. */
  readonly pageRows?: number;
  readonly pageState?: string;
}

export interface WriteSettings {
  readonly timeoutMs: number;
  /** "all": a write is acknowledged by every replica; QUORUM when absent. Not for reads. */
  readonly consistency?: "all";
}

/** How several statements go out together. */
export type BatchKind = "logged" | "unlogged";

export interface CassandraNode {
  readonly address: string;
  readonly datacenter: string;
  readonly isUp: boolean;
}

/**
 * The requests the adapter makes of Cassandra: another client library can stand there. Every method rejects with a CassandraFailure.
 * Statements are prepared. Only `write` and reads may reach a second coordinator, as they may be repeated.
 */
export interface CassandraSession {
  /** Of one partition; at SERIAL through Paxos. `IN` over partitions and scans are never asked for at SERIAL. */
  read(statement: Statement, settings: ReadSettings): Promise<Answer>;
  /** One or several statements with timestamps of their own, without a log. */
  write(statements: readonly Statement[], settings: WriteSettings): Promise<void>;
  /** Cassandra's own logged batch at QUORUM. */
  writeLogged(statements: readonly Statement[], settings: WriteSettings): Promise<void>;
  /** One lightweight transaction on one partition: SERIAL, committed at QUORUM, sent once. */
  compareAndSet(statements: readonly Statement[], settings: WriteSettings): Promise<Answer>;
  /** A change of the schema; resolves when all nodes that are up agree on it. */
  define(query: string): Promise<void>;
  /** Asks this node itself, about itself. */
  ask(address: string, query: string): Promise<readonly ResultRow[]>;
  nodes(): readonly CassandraNode[];
  /** From now on these nodes coordinate nothing but what `ask` asks of them. */
  avoid(addresses: ReadonlySet<string>): void;
  close(): Promise<void>;
}

export interface SessionOptions {
  /** host:port of nodes to begin with. */
  readonly contactPoints: readonly string[];
  /** Its nodes coordinate; those of others are tried second. */
  readonly datacenter: string;
  readonly credentials: { readonly username: string; readonly password: string } | undefined;
  /** PEM text of the authority of the nodes' certificates; undefined: no TLS. */
  readonly certificateAuthority: string | undefined;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
  /** A node came up again or joined. */
  readonly onNodeUp: (address: string) => void;
}

/** Resolves when a first node has answered. */
export type OpenSession = (options: SessionOptions) => Promise<CassandraSession>;
