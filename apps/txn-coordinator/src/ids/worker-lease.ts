import { fnv1a64 } from "@concord/codec";
import { takeOver } from "@concord/group-log";
import type { GroupLog } from "@concord/ports";
import { ConcordError, toHex, type Clock, type Epoch, type Log, type Random } from "@concord/runtime";
import { ID_LEASE_IDLE_MS, ID_LEASE_WORKERS } from "../limits.ts";
import { LogMark, markMs } from "./log-mark.ts";

const INCARNATION_BYTES = 8;
const NODE_HASH_TAG = 1;

export interface LeaseOptions {
  readonly nodeName: string;
  /** The only one to take; undefined: whichever is free. */
  readonly workerId: number | undefined;
  readonly groupLog: GroupLog;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface WorkerLease {
  readonly workerId: number;
  readonly mark: LogMark;
}

/** Who had a worker id last, as its log says. */
type Holder =
  | { readonly kind: "none" }
  /** An earlier life of a node of our name. */
  | { readonly kind: "own" }
  | { readonly kind: "other"; readonly owner: string; readonly epoch: Epoch };

/**
 * Takes a worker id by raising the epoch of its log (S7): the free one nearest to our name's hash, else one whose holder made no ids for
 * a while. `lost` are those this process was fenced from. OVERLOADED when others use all of them.
 */
export async function leaseWorkerId(options: LeaseOptions, lost: ReadonlySet<number>): Promise<WorkerLease> {
  const candidates = candidatesOf(options).filter((workerId) => !lost.has(workerId));
  const others: { readonly workerId: number; readonly holder: Extract<Holder, { kind: "other" }> }[] = [];
  for (const workerId of candidates) {
    const holder = await holderOf(options, workerId);
    if (holder.kind === "other") others.push({ workerId, holder });
    const lease = holder.kind === "other" ? undefined : await take(options, workerId);
    if (lease !== undefined) return lease;
  }
  for (const { workerId, holder } of others) {
    const lease = (await isIdle(options, workerId, holder)) ? await take(options, workerId) : undefined;
    if (lease !== undefined) return lease;
  }
  const text = options.workerId === undefined ? `all ${ID_LEASE_WORKERS} worker ids are` : `worker id ${options.workerId} is`;
  throw new ConcordError("OVERLOADED", `${text} in use by other processes`, { retryAfterMs: ID_LEASE_IDLE_MS });
}

export function workerGroup(workerId: number): string {
  return `ids/${workerId}`;
}

/** All of them, from the name's own place on: so a node comes back to the one it had, and nodes seldom meet. */
function candidatesOf({ nodeName, workerId }: LeaseOptions): readonly number[] {
  if (workerId !== undefined) return [workerId];
  const first = Number(fnv1a64(NODE_HASH_TAG, new TextEncoder().encode(nodeName)) % BigInt(ID_LEASE_WORKERS));
  return Array.from({ length: ID_LEASE_WORKERS }, (_, at) => (first + at) % ID_LEASE_WORKERS);
}

async function holderOf({ groupLog, nodeName, timeoutMs }: LeaseOptions, workerId: number): Promise<Holder> {
  const { promisedEpoch, owner } = await groupLog.status(workerGroup(workerId), timeoutMs);
  if (promisedEpoch === 0n) return { kind: "none" };
  if (owner.slice(0, owner.lastIndexOf("/")) === nodeName) return { kind: "own" };
  return { kind: "other", owner, epoch: promisedEpoch };
}

/** The holder's own raise once more: it promises nothing new and answers its mark. An undecided answer counts as busy. */
async function isIdle(
  { groupLog, timeoutMs, clock }: LeaseOptions,
  workerId: number,
  { epoch, owner }: { readonly epoch: Epoch; readonly owner: string },
): Promise<boolean> {
  const answer = await groupLog.raise({ group: workerGroup(workerId), epoch, owner }, timeoutMs * groupLog.exchangesMax);
  return answer.kind === "raised" && markMs(answer.tail.timestampCeilingUs) < clock.nowMs() - ID_LEASE_IDLE_MS;
}

/** Undefined: another coordinator raised the epoch first. */
async function take(options: LeaseOptions, workerId: number): Promise<WorkerLease | undefined> {
  const { groupLog, nodeName, timeoutMs, clock, random, log, signal } = options;
  const group = workerGroup(workerId);
  // One owner per epoch: no two lives share it, not even of the same node.
  const owner = `${nodeName}/${toHex(random.bytes(INCARNATION_BYTES))}`;
  // Marks need no applying: the ceiling of the whole tail is what counts.
  const apply = (): Promise<void> => Promise.resolve();
  const taken = await takeOver(groupLog, { group, owner, timeoutMs, clock, apply, signal });
  switch (taken.kind) {
    case "refused":
    case "fenced":
      return undefined;
    case "unavailable":
      throw new ConcordError("REPLICAS_UNAVAILABLE", `too few replicas answered to lease worker id ${workerId}`);
    case "taken": {
      const { epoch, lastSeq, lastEpoch, timestampFloorUs: ceilingUs } = taken;
      log.info("worker id leased", { workerId, epoch, markMs: markMs(ceilingUs) });
      return { workerId, mark: new LogMark(groupLog, { group, epoch, owner, lastSeq, lastEpoch, ceilingUs }, timeoutMs) };
    }
  }
}
