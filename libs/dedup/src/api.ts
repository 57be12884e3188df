import type { KeyValue, MessageLog, PageLimits } from "@concord/ports";
import type { ConcordError, Environment } from "@concord/runtime";

/** Where a message's id is found (DDD8). */
export type IdSource =
  | { readonly kind: "header"; readonly name: string }
  | { readonly kind: "key" }
  /** The value is JSON; the string or number at this path of member names is the id. Found by scanning bytes, nothing is parsed. */
  | { readonly kind: "json"; readonly path: readonly string[] }
  /** Equal values are the same message. */
  | { readonly kind: "content" };

/** What happens to a message whose id is missing, empty, too long or not decodable (DDD8). */
export type MissingIdPolicy =
  /** It is published and never compared. */
  | "pass"
  /** It is published with an id made of its partition and input offset, the same one however often it is processed, and never compared. */
  | "make"
  /** Its content is its id. */
  | "hash"
  /** It goes to the dead letters with its reason. */
  | "dead-letter";

/** A keyed hash of 128 bits: without the key no one can make an id that collides with another's (DDD6). */
export type IdHash = (key: Uint8Array, bytes: Uint8Array) => Uint8Array;

/**
 * The window's stores: "window" (manifest and journal) and one per segment. `open` creates an absent one. `remove` takes a closed or
 * never opened one with all it holds; an absent one is not an error. `list` names all that exist, also half removed ones.
 */
export interface WindowStores {
  open(name: string): Promise<KeyValue>;
  remove(name: string): Promise<void>;
  list(): Promise<readonly string[]>;
}

/**
 * Where snapshots of one partition's window are kept, by name (small letters, digits and hyphens). Any failure costs a snapshot or the time of a
 * rebuild, never an id. What is not answered when the signal is aborted is taken for failed.
 */
export interface SnapshotStore {
  /** Undefined: there is none of that name. Rejects when it has more than `bytesMax`. */
  get(name: string, bytesMax: number, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Durable and whole when it resolves, in place of what had that name. */
  put(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  list(signal: AbortSignal): Promise<readonly string[]>;
  /** An absent one is not an error. */
  remove(name: string, signal: AbortSignal): Promise<void>;
}

/** Periodic snapshots of immutable segments (DD18, DDD11), and the restore of the newest one where no window is (DD11). */
export interface SnapshotOptions {
  readonly store: SnapshotStore;
  /** Pause between two, milliseconds. None is taken while no segment was added. */
  readonly everyMs: number;
  /** Snapshots that are kept, 1 to SNAPSHOTS_KEPT_MAX: at most so many segments more than the window has. */
  readonly kept: number;
}

export interface WindowOptions {
  /** Output offsets per segment: the precision of ageing. Segments begin at multiples of it. */
  readonly idsPerSegment: number;
  /** The size bound (DD7): segments that are kept. An id stays for at least `segmentsMax * idsPerSegment` output offsets, unless time drops it. */
  readonly segmentsMax: number;
  /** The time bound: a segment whose newest id is older is dropped. 0 = no time bound. */
  readonly windowMs: number;
}

export interface WorkerOptions {
  readonly partition: number;
  /** Names this process to the log: two that run at once differ. */
  readonly owner: string;
  /** Where the ids of input messages are found: the first source that has one. */
  readonly idSources: readonly IdSource[];
  readonly missingId: MissingIdPolicy;
  /** One batch of the processing loop. */
  readonly page: PageLimits;
  readonly window: WindowOptions;
}

export interface WorkerDependencies {
  readonly log: MessageLog;
  /** Of this partition alone. */
  readonly stores: WindowStores;
  /** Left out: no snapshots, neither taken nor restored. */
  readonly snapshots?: SnapshotOptions;
  readonly hash: IdHash;
  /** Figures of all partitions of the process. */
  readonly sources: { add(counts: CountsBySource): void };
  readonly environment: Pick<Environment, "clock" | "random" | "checksum" | "log" | "metrics" | "failpoint">;
}

/** What became of one input offset. Known when it is durable. */
export type InputResult =
  /** In the output, at `offset`. */
  | { readonly kind: "accepted"; readonly offset: bigint }
  /** Another copy is in the output. */
  | { readonly kind: "duplicate" }
  /** In the dead letters, at `offset`. */
  | { readonly kind: "dead-lettered"; readonly offset: bigint }
  /** Appended to the input of the partition it belongs to; its result comes from there. */
  | { readonly kind: "rerouted"; readonly partition: number };

/** Results of a page by the names of its sources; what was rerouted is counted where it belongs. */
export type CountsBySource = ReadonlyMap<string, Readonly<Record<Exclude<InputResult["kind"], "rerouted">, number>>>;

export type WorkerState =
  | { readonly kind: "rebuilding" }
  | { readonly kind: "running" }
  /** The log cannot be reached: tried until it can. */
  | { readonly kind: "unavailable"; readonly reason: ConcordError }
  /** Needs an operator, or a restart of the process: `reason` says what to do. */
  | { readonly kind: "stopped"; readonly reason: ConcordError };

export interface WindowStatistics {
  /** Ids the window holds. */
  readonly ids: number;
  /** Segments. */
  readonly segments: number;
  /** Age of the oldest id: the effective window, shorter in a flood (DD7). */
  readonly windowMs: number;
  /** Bytes of ids written to segments and the journal that are kept. */
  readonly diskBytes: number;
  /** Bytes of filters, fences and active ids. */
  readonly memoryBytes: number;
  /** The next output offset to apply (DDD2). */
  readonly appliedOutput: bigint;
  /** Segments dropped by size and by time, since the window was opened. */
  readonly droppedBySize: number;
  readonly droppedByTime: number;
  /** Stores that failed a check and were kept under their names, out of use. */
  readonly quarantined: readonly string[];
}

export interface PartitionStatistics {
  readonly partition: number;
  readonly state: WorkerState;
  /** Input offsets behind the acknowledged one. */
  readonly lag: bigint;
  readonly window: WindowStatistics;
  /** Since the worker started. */
  readonly accepted: number;
  readonly duplicates: number;
  readonly deadLettered: number;
  readonly rerouted: number;
}

/**
 * One partition's deduplication: the only writer of its output and window (DDD7).
 */
export interface PartitionWorker {
  readonly partition: number;
  readonly state: WorkerState;
  /** Fences earlier owners, brings the window up to the output (DD9), goes on with the input. Resolves when it runs, rejects with the reason it stopped for. */
  start(): Promise<void>;
  /** Ends after the batch in flight. Waiters are rejected with DRAINING. */
  stop(): Promise<void>;
  /** Resolves with the reason when the worker stops by itself; never when `stop` was called. */
  whenStopped(): Promise<ConcordError>;
  /**
   * The result of an input offset, as soon as it is durable. Rejects with OUTCOME_UNKNOWN when it was processed too long ago or by
   * another owner, with PARTITION_STOPPED or DRAINING when the worker ends first: sending the message again is harmless.
   */
  whenProcessed(offset: bigint): Promise<InputResult>;
  /** Whether ids of this source, as a message would have them, are in the window (DDD12). Undefined or empty: of no source. */
  seen(ids: readonly Uint8Array[], source?: Uint8Array): Promise<readonly boolean[]>;
  /** Forgets ids that are too old although nothing is published, and tells the log what the window needs: where messages are refused because it needs too much, no publication would. */
  forget(): Promise<void>;
  /** Writes down what the window has in memory alone: where messages come seldom, the output that it would be read from again goes meanwhile. */
  flush(): Promise<void>;
  /** Resolves with the statistics now. */
  statistics(): Promise<PartitionStatistics>;
}

/** What the pipeline says about a message of the output or the dead letters, out of its headers. */
export interface MessageOrigin {
  readonly inputOffset: bigint;
  /** The id as it was given, undefined when there was none. */
  readonly id: Uint8Array | undefined;
  /** Whose id it is; undefined or empty: of no source. */
  readonly source: Uint8Array | undefined;
  /** Why it is a dead letter. */
  readonly reason: string | undefined;
}
