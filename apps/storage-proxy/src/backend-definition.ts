import type { FailureObserver } from "@concord/failure-detection";
import type { StorageBackend, Store } from "@concord/ports";
import type { Authenticator, Service } from "@concord/rpc";
import type { ConcordError, Disk, Environment, MetricDefinition, SpaceReserve, TimestampUs, Writes } from "@concord/runtime";

/** The clock of a node's plain writes, as its peers see it. */
export interface SharedClock {
  /** No timestamp that this node drew is above it. */
  readonly markUs: TimestampUs;
  /** The same of a peer: what is drawn from now on is above it. */
  saw(timestampUs: TimestampUs): void;
}

export interface BackendOptions<Config> {
  readonly config: Config;
  readonly environment: Environment;
  readonly authenticator: Authenticator;
  /** Timestamps of batches that come without one: the clock of this node's plain writes. */
  readonly drawTimestampUs: () => TimestampUs;
  /** The same clock, for nodes that share how far theirs came. */
  readonly writeClock: SharedClock;
  /** What is stored cannot be relied on any more: the process must end and start again. */
  readonly onFailed: (cause: ConcordError) => void;
  /** What the cluster thinks of the nodes of this backend; its own heartbeats when not given. */
  readonly failures?: FailureObserver;
  /** The data folder, for a backend that keeps one; the machine's when not given. */
  readonly disk?: Disk;
  /** Space on `disk` that the backend keeps; its own, of the configured size, when not given. */
  readonly reserve?: SpaceReserve;
  /** A local store by name, for a backend that keeps one; its own choice when not given. */
  readonly openKeyValue?: (name: string) => Promise<Store>;
}

/** A backend whose resources are bound, and the services its nodes call on each other: the program mounts them beside its own. */
export interface OpenedBackend {
  readonly backend: StorageBackend;
  readonly services: readonly Service[];
  /** Taken when not given. */
  readonly writes?: Writes;
  /** How far each replica is behind, as a page for operators; undefined: the engine has pages of its own. */
  readonly replicas?: () => Promise<object>;
}

export type OpenBackend<Config> = (options: BackendOptions<Config>) => Promise<OpenedBackend>;

/** An engine as the program knows it. */
export interface BackendDefinition<Config> {
  readonly open: OpenBackend<Config>;
  /** Mistakes that the types of single keys cannot show. */
  readonly problems: (config: Config) => readonly { readonly key: string; readonly message: string }[];
  readonly metrics: readonly MetricDefinition[];
}
