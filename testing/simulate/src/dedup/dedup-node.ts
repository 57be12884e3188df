// Dedup-workers on simulated machines: one, or three that share a log, with windows so small that segments are written and dropped all the time.
import { composeDedupWorker, dedupWorkerSchema, type DedupWorkerConfig } from "@concord/dedup-worker";
import type { SnapshotStore } from "@concord/dedup";
import type { KeyValue } from "@concord/ports";
import type { Log, LogFields } from "@concord/runtime";
import type { NodeContext, SeededRandom, World } from "@concord/simulation";
import { flushedKeyValue, type StoreLimits } from "@concord/store";
import { simulatedListedMembership } from "../membership.ts";
import { drawStoreLimits, openSimulatedStore } from "../stores.ts";
import type { IdPlan } from "./message-forms.ts";
import { SnapshotShelf } from "./snapshot-shelf.ts";

export const WORKERS = ["dedup-1", "dedup-2", "dedup-3", "dedup-4", "dedup-5"] as const;
export const addressOf = (name: string): string => `${name}:7000`;
/** As a list of workers has them. */
export const workerOf = (name: string): { name: string; address: string; datacenter: string } => ({
  name,
  address: addressOf(name),
  datacenter: name,
});
export const WORKER_TOKEN = "of-the-workers";
const LOGS = "logs";
/** The one store that is not made again from the logs. */
const META = "meta";
const PROBE_EVERY_MS = 250;
/** What a supervisor allows: a partition that stopped, or a start that does not end. */
const NOT_READY_MS = 4_000;
const CLEAR_PAGE = 256;
const SNAPSHOT_EVERY_MS = 150;
/** Of starts, with snapshots: each window's folder is gone, as on a new machine. */
const LOST_PERCENT = 30;
const EVERYTHING = { from: Uint8Array.of(), to: new Uint8Array(64).fill(0xff) };

/** What a seed decides about the worker. */
export interface DedupPlan {
  /** Those that may run. */
  readonly workers: readonly string[];
  /** As they are configured. */
  readonly founders: readonly string[];
  readonly partitions: number;
  readonly windowIdsMax: number;
  /** 0 = no bound. With one, clocks must not step: an id would seem old at once. */
  readonly windowMaxAgeMs: number;
  readonly store: Partial<StoreLimits>;
  /** Snapshots that are kept; 0 = none. With some, a worker that starts may have lost its windows. */
  readonly snapshotsKept: number;
  readonly ids: IdPlan;
}

/** As the composition cuts a window into segments. */
const WINDOW_SEGMENTS = 16;

export function drawDedupPlan(random: SeededRandom, ids: IdPlan, workers: readonly string[], founders = workers): DedupPlan {
  return {
    workers,
    founders,
    partitions: random.pick([1, 2, 3]),
    windowIdsMax: random.pick([256, 256, 320, 1_024]),
    windowMaxAgeMs: random.pick([0, 0, 0, 1_200]),
    store: drawStoreLimits(random),
    snapshotsKept: random.pick([0, 1, 2, 3]),
    ids,
  };
}

/** Output offsets within which an id cannot come again, unless time drops it. */
export function guaranteedOffsets({ windowIdsMax }: DedupPlan): bigint {
  return BigInt(Math.ceil(windowIdsMax / WINDOW_SEGMENTS) * WINDOW_SEGMENTS);
}

/** Answers the workers whose start has ended well; who stops one takes it out first. */
export function startDedupNodes(world: World, plan: DedupPlan): Set<string> {
  const serving = new Set<string>();
  const isShared = plan.workers.length > 1;
  const founders = plan.founders.map(workerOf);
  if (isShared) world.sharedDisk(LOGS, plan.workers);
  const shelf = new SnapshotShelf();
  for (const name of plan.workers) {
    const config = configOf(plan, name, isShared ? founders : []);
    world.node(name, async (context) => {
      const shared = isShared ? { logDisk: context.sharedDisk(LOGS), membership: simulatedListedMembership(context, name) } : {};
      if (plan.snapshotsKept > 0) await loseWindows(context);
      const service = composeDedupWorker(config, {
        environment: { ...context.env, log: watched(world, context.env.log) },
        disk: context.disk,
        openSnapshots: (bucket, prefix) => counted(world, shelf.at(context.env, `${bucket}/${prefix}`)),
        openKeyValue: (folder) => (folder === META ? openSimulatedStore(context, folder, plan.store) : openWindow(context, folder)),
        onFailed: (cause) => context.exit(cause.message),
        ...shared,
      });
      const started = service.start();
      supervise(context, () => service.ready);
      await started;
      serving.add(name);
      return { stop: () => service.stop() };
    });
  }
  return serving;
}

function configOf(
  { partitions, windowIdsMax, windowMaxAgeMs, snapshotsKept, ids, workers: all }: DedupPlan,
  nodeName: string,
  workers: DedupWorkerConfig["workers"],
): DedupWorkerConfig {
  return dedupWorkerSchema.parse({
    nodeName,
    listenAddress: addressOf(nodeName),
    reflection: false,
    partitions,
    windowIdsMax,
    windowMaxAgeMs,
    drainGraceMs: 1_000,
    snapshotsKept,
    snapshotEveryMs: SNAPSHOT_EVERY_MS,
    workers,
    ...ids,
    snowflakeWorkerId: all.indexOf(nodeName),
    ...(workers.length > 1 ? { logFolder: LOGS, workerToken: WORKER_TOKEN } : {}),
  });
}

/**
 * A level store is a folder: it is there when its folder is, and one that was removed and made again is empty. The simulated disk keeps
 * stores beside its folders, so both are brought together here.
 */
async function openWindow(context: NodeContext, folder: string): Promise<KeyValue> {
  const at = folder.lastIndexOf("/");
  const [parent, name] = at < 0 ? ["", folder] : [folder.slice(0, at), folder.slice(at + 1)];
  const isThere = (await context.disk.list(parent)).some((entry) => entry.name === name);
  const store = flushedKeyValue(await context.openBacking(folder));
  if (!isThere) await clear(store);
  await context.disk.makeFolder(folder);
  // Each time: an earlier attempt may have made it and failed to sync it.
  for (let path = parent; ; path = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "") {
    await context.disk.syncFolder(path);
    if (path === "") return store;
  }
}

/** What lists the segments goes, and with it all of a window. */
async function loseWindows({ disk, env }: NodeContext): Promise<void> {
  const windows = await disk.list("window").catch(() => []);
  for (const { name } of windows) {
    const folder = `window/${name}`;
    const isThere = (await disk.list(folder)).some((entry) => entry.name === "window");
    if (!isThere || env.random.below(100) >= LOST_PERCENT) continue;
    await disk.remove(`${folder}/window`);
    await disk.syncFolder(folder);
  }
}

/** How often the seeds take and read snapshots. */
function counted(world: World, store: SnapshotStore): SnapshotStore {
  const named = (name: string, what: string): void => {
    if (name.startsWith("window-")) world.count(`dedup:snapshot-${what}`);
  };
  return {
    ...store,
    get: (name, bytesMax, signal) => {
      named(name, "read");
      return store.get(name, bytesMax, signal);
    },
    put: (name, bytes, signal) => {
      named(name, "written");
      return store.put(name, bytes, signal);
    },
  };
}

async function clear(store: KeyValue): Promise<void> {
  for (;;) {
    const entries = await store.range({ ...EVERYTHING, limit: CLEAR_PAGE });
    if (entries.length === 0) return;
    const deletes = entries.map(({ key }) => ({ kind: "delete" as const, key }));
    await store.batch(deletes, { sync: true });
  }
}

function supervise(context: NodeContext, isReady: () => boolean): void {
  const { clock } = context.env;
  let readyAtMs = clock.monotonicMs();
  const probe = (): void => {
    if (isReady()) readyAtMs = clock.monotonicMs();
    if (clock.monotonicMs() - readyAtMs > NOT_READY_MS) context.exit("not ready");
    else clock.setTimer(PROBE_EVERY_MS, probe);
  };
  probe();
}

/** A disk that failed, and another owner. */
const EXPECTED_STOPS: ReadonlySet<string> = new Set(["STORE_FAILED", "NOT_OWNER"]);

/** No simulated disk damages anything: whatever is quarantined, and a partition that stops for another reason than its disk or another owner, is a mistake of ours. */
function watched(world: World, log: Log): Log {
  const error = (message: string, fields?: LogFields): void => {
    const isStop = message.includes("is stopped") && !EXPECTED_STOPS.has(String(fields?.["code"]));
    if (isStop || message.includes("quarantined") || message.includes("damaged")) world.violation("damage", message);
    log.error(message, fields);
  };
  return { debug: (...line) => log.debug(...line), info: (...line) => log.info(...line), warn: (...line) => log.warn(...line), error };
}
