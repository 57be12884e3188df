// Composes one gateway over its stores: worker id, journal and epoch, object store, and its background tasks.
import { openJournal, type Journal } from "@concord/journal";
import {
  CommitResolver,
  createObjectStore,
  GarbageCollector,
  KeyRotation,
  LifecycleEngine,
  LocalKeys,
  objectStoreContext,
  openUploadJournal,
  EventDelivery,
  Recovery,
  resolveBuckets,
  Scrubber,
  type EncryptionContext,
  type GatewayJournal,
  type ObjectLimits,
  type ObjectStore,
  type ObjectStoreContext,
} from "@concord/objects";
import type { ObjectData, ObjectMetadata } from "@concord/ports";
import {
  ConcordError,
  sleep,
  StartWaits,
  toConcordError,
  type Cipher,
  type Disk,
  type Environment,
  type ErrorCode,
} from "@concord/runtime";
import type { ObjectGatewayConfig } from "./config.ts";
import { openGatewayGuids } from "./gateway-guids.ts";
import { STOP_GRACE_MS_MIN, UPLOAD_JOURNAL_PREPARED_BYTES } from "./limits.ts";
import { eventMessage, type EventSinks } from "./event-sinks.ts";
import { epochOwners, goneSinceMs, type Peers } from "./peers.ts";

/** Lower limits and shorter intervals than in production, for tests. */
export interface GatewayTuning {
  readonly limits?: Partial<ObjectLimits>;
  readonly recoveryIntervalMs?: number;
  readonly epochDeadAfterMs?: number;
  readonly epochHeartbeatMs?: number;
  readonly epochBlockNames?: number;
  readonly eventScanMs?: number;
  readonly rotationIntervalMs?: number;
}

export interface StoreOptions {
  readonly config: ObjectGatewayConfig;
  readonly environment: Environment;
  readonly metadata: ObjectMetadata;
  readonly data: ObjectData;
  readonly cipher: Cipher;
  /** Of the journal. */
  readonly disk: Disk;
  readonly tuning?: GatewayTuning;
  /** Targets of events; none when not given. */
  readonly sinks?: EventSinks;
  /** The journal's disk failed for good: the process must end. */
  readonly onFailed: (cause: ConcordError) => void;
  readonly peers?: Peers;
  /** Ends the wait for the clock and for rows. */
  readonly signal?: AbortSignal;
}

export interface GatewayStore {
  readonly context: ObjectStoreContext;
  readonly store: ObjectStore;
  readonly journal: GatewayJournal;
  readonly resolver: CommitResolver;
  readonly recovery: Recovery;
  readonly collector: GarbageCollector;
  readonly scrubber: Scrubber;
  readonly lifecycle: LifecycleEngine;
  readonly events: EventDelivery;
  startBackground(): void;
  /** After the last request. Never rejects. */
  stop(): Promise<void>;
}

/** The journal's folder on the gateway's disk. */
const JOURNAL_FOLDER = "journal";

/** Resolves when uploads can begin: an epoch is acquired and its first names are reserved (OGD6). Earlier epochs are not recovered yet. */
export async function openGatewayStore(options: StoreOptions): Promise<GatewayStore> {
  const { config, environment, metadata, data, tuning = {}, onFailed } = options;
  const { clock, random, log, metrics, failpoint } = environment;
  const instance = config.nodeName;
  const guids = await whenPassed(options, () => openGatewayGuids({ metadata, clock, random, log, instance }));
  await whenPassed(options, () => guids.next());
  let snapshot = notOpenYet;
  const records = await openRecords(options, () => snapshot());
  const { checkpointIntervalMs, journal: mode } = config;
  const stores = { metadata, data, guids, clock, tasks: environment.tasks, log, metrics, failpoint };
  const heartbeat = tuning.epochHeartbeatMs === undefined ? {} : { heartbeatMs: tuning.epochHeartbeatMs };
  const blocks = tuning.epochBlockNames === undefined ? {} : { blockNames: tuning.epochBlockNames };
  const uploads = { ...stores, ...heartbeat, ...blocks, mode, journal: records, instance, checkpointIntervalMs };
  const journal = await whenPassed(options, () => openUploadJournal(uploads));
  snapshot = () => journal.snapshot();
  const resolver = new CommitResolver({ clock, log, metrics });
  const { objectBytesMax, longestRequestMs, gcGraceMs: garbageGraceMs, eventBytesMax, eventBytesTotalMax, headBytesMax } = config;
  const limits = { objectBytesMax, longestRequestMs, garbageGraceMs, eventBytesMax, eventBytesTotalMax, headBytesMax, ...tuning.limits };
  const context = objectStoreContext({
    ...stores,
    journal,
    unresolved: resolver,
    shards: config.shards,
    limits,
    encryption: encryptionOf(options),
  });
  const owners = options.peers === undefined ? undefined : epochOwners(options.peers, instance, environment);
  const gone = owners === undefined ? {} : { goneSinceMs: (name: string) => goneSinceMs(owners, name) };
  const recovery = new Recovery({ context, journal, instance, ...gone, ...paceOf(tuning) });
  const collector = new GarbageCollector({ context, intervalMs: config.collectIntervalMs });
  const isAlone = config.metadata === "local";
  const scrubber = new Scrubber({ context, intervalMs: config.scrubIntervalMs, bytesPerSecond: config.scrubBytesPerSecond, isAlone });
  const { lifecycleIntervalMs: intervalMs, lifecycleRowsPerSecond: rowsPerSecond, lifecycleDayMs: dayMs } = config;
  const lifecycle = new LifecycleEngine({ context, intervalMs, rowsPerSecond, dayMs, isAlone });
  const events = deliveryOf(options, context);
  const pause = tuning.rotationIntervalMs === undefined ? {} : { intervalMs: tuning.rotationIntervalMs };
  const rotation = hasEarlierKeys(config) ? new KeyRotation({ context, ...pause }) : undefined;
  return {
    context,
    store: createObjectStore(context),
    journal,
    resolver,
    recovery,
    collector,
    scrubber,
    lifecycle,
    events,
    startBackground: () => {
      recovery.start();
      owners?.start(() => recovery.wake()).catch((thrown: unknown) => onFailed(toConcordError(thrown)));
      collector.start();
      scrubber.start();
      lifecycle.start();
      rotation?.start();
      context.lockTime.start();
      events.start();
      resolveBuckets(context).catch((thrown: unknown) => log.warn("buckets are not resolved", { reason: toConcordError(thrown).message }));
    },
    stop: async () => {
      // Tasks that decide stop before the journal that records their decisions.
      const parts = [owners, rotation, events, context.lockTime, lifecycle, scrubber, collector, recovery, resolver, journal];
      const stopping = stopInOrder(parts, environment);
      await (isAlone ? stopping : withinGrace(stopping, options));
      // What goes on behind the grace is written nowhere any more.
      await records
        ?.close()
        .catch((thrown: unknown) => log.warn("the journal did not close well", { reason: toConcordError(thrown).message }));
    },
  };
}

function deliveryOf({ config, sinks, tuning }: StoreOptions, context: ObjectStoreContext): EventDelivery {
  const { eventsMaxAgeMs: maxAgeMs, eventsOverdue: overdue, eventsPerSecond } = config;
  const scan = tuning?.eventScanMs === undefined ? {} : { scanMs: tuning.eventScanMs };
  const sink: EventSinks["sink"] = (to) => sinks?.sink(to);
  return new EventDelivery({ context, encode: eventMessage, sink, maxAgeMs, overdue, eventsPerSecond, ...scan });
}

/** Without keys of its own the gateway still takes those of customers. */
function encryptionOf({ config: { encryptionKeys, kmsKeys }, environment: { random }, cipher }: StoreOptions): EncryptionContext {
  const decoded = (keys: ObjectGatewayConfig["kmsKeys"]) => keys.map(({ id, key }) => ({ id, key: Buffer.from(key, "base64") }));
  const managed = encryptionKeys.length === 0 ? undefined : new LocalKeys(cipher, random, decoded(encryptionKeys), "over-all-ids");
  const service = kmsKeys.length === 0 ? undefined : new LocalKeys(cipher, random, decoded(kmsKeys), "within-an-id");
  return { cipher, random, managed, service };
}

function hasEarlierKeys({ encryptionKeys, kmsKeys }: ObjectGatewayConfig): boolean {
  return encryptionKeys.length > 1 || new Set(kmsKeys.map(({ id }) => id)).size < kmsKeys.length;
}

/** What ends by itself: a clock that stands behind the ids of every worker id, rows whose master moves or does not answer. */
const PASSING: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "CLOCK_UNUSABLE",
  "STARTING",
  "DRAINING",
  "NOT_MASTER",
  "TRANSACTION_ABORTED",
  "TRANSACTION_UNKNOWN",
  "LOCK_TIMEOUT",
  "REPLICAS_UNAVAILABLE",
  "READ_TIMEOUT",
  "WRITE_TIMEOUT",
  "OUTCOME_UNKNOWN",
  "CONNECTION_LOST",
  "DEADLINE_EXCEEDED",
]);

/**
 * A step of the start, again until it does not fail by what passes: no upload can begin without it, and ending the process would not help and would take
 * the other parts of a process with it. What a failed try has left is as of a crash there.
 */
function whenPassed<Result>({ environment, signal = NEVER }: StoreOptions, step: () => Promise<Result>): Promise<Result> {
  const { startWaits = new StartWaits(environment) } = environment;
  const again = (thrown: unknown): boolean => thrown instanceof ConcordError && PASSING.has(thrown.code);
  return startWaits.until("the rows of objects", step, { signal, again });
}

const NEVER = new AbortController().signal;

function paceOf({ recoveryIntervalMs, epochDeadAfterMs }: GatewayTuning): { intervalMs?: number; deadAfterMs?: number } {
  return {
    ...(recoveryIntervalMs === undefined ? {} : { intervalMs: recoveryIntervalMs }),
    ...(epochDeadAfterMs === undefined ? {} : { deadAfterMs: epochDeadAfterMs }),
  };
}

interface Stoppable {
  stop(): Promise<void>;
}

async function stopInOrder(parts: readonly (Stoppable | undefined)[], { log }: Environment): Promise<void> {
  for (const part of parts)
    await part?.stop().catch((thrown: unknown) => log.warn("a part did not stop well", { reason: toConcordError(thrown).message }));
}

/** Rows of others may not answer any more, as when all nodes of a ring stop: then the gateway ends as by a crash, and recovery does what is left. */
async function withinGrace(stopping: Promise<void>, { config, environment: { clock, log } }: StoreOptions): Promise<void> {
  const graceMs = Math.max(config.drainGraceMs, STOP_GRACE_MS_MIN);
  const stopped = new AbortController();
  void stopping.then(() => stopped.abort());
  await sleep(clock, graceMs, stopped.signal);
  if (!stopped.signal.aborted) log.warn("its rows do not answer: what is undecided is left to recovery", { graceMs });
}

/** The unresolved names are known only after the journal was read, and no segment may begin without them. */
const notOpenYet = (): Uint8Array => {
  throw new ConcordError("STORE_FAILED", "the journal failed while it was being opened", { applied: "no" });
};

/** One failed sync costs the records that waited for it, a second one in a row ends the process (OGD8). */
async function openRecords(
  { config, environment, disk, onFailed }: StoreOptions,
  snapshot: () => Uint8Array,
): Promise<Journal | undefined> {
  // Switched off, the journal may still have records of an earlier process.
  if (config.journal === "off" && (await disk.list(JOURNAL_FOLDER)).length === 0) return undefined;
  const { checksum, random, log, metrics, failpoint } = environment;
  const onStopped = (cause: unknown): void => onFailed(toConcordError(cause));
  const limits = { preparedBytes: UPLOAD_JOURNAL_PREPARED_BYTES };
  const options = { disk, folder: JOURNAL_FOLDER, checksum, random, log, metrics, failpoint, limits, onSyncFailed: snapshot, onStopped };
  const { journal, findings } = await openJournal(options);
  for (const { name, reason } of findings.quarantined)
    log.error("a part of the journal was quarantined; check the consistency", { file: name, reason });
  return journal;
}
