import { corrupt } from "@concord/codec";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { Checkpoints, KeyValueOperation, LogEntry, StepRunner, StoreStep } from "@concord/ports";
import { silentLog, type Clock } from "@concord/runtime";
import { localLogReplica } from "../local-replica.ts";
import { openReplicaLog } from "../open-replica.ts";
import type { ReplicaLog } from "../replica-steps.ts";
import type { LogReplica } from "../replica.ts";
import { text } from "./history.ts";
import { appliedKey, checksum } from "./simulated-ring.ts";

/** Steps one after another, each one durable before the next, rows and all: every step ends a checkpoint. */
export class PlainDisk implements StepRunner, Checkpoints {
  readonly store: MemoryKeyValue;
  readonly #listeners: (() => () => void)[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: MemoryKeyValue) {
    this.store = store;
  }

  onCheckpoint(begun: () => () => void): void {
    this.#listeners.push(begun);
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    const reply = this.#last.then(async () => {
      const { persist, derived = [], onSynced, reply } = step.run(await this.store.getMany(step.load));
      await this.store.batch([...persist, ...derived], { sync: true });
      onSynced?.();
      for (const begun of this.#listeners) begun()();
      return reply;
    });
    this.#last = reply.catch(() => undefined);
    return reply;
  }
}

/** What an entry says, in place of rows. */
export function rowsOf(group: string, entry: LogEntry): KeyValueOperation[] {
  checkRows(entry.rows);
  return [{ kind: "put", key: appliedKey(group, entry.seq), value: entry.bytes }];
}

/** Rows that do not decode. */
export const BROKEN_ROWS = "broken";

export function checkRows(rows: Uint8Array): void {
  if (text(rows) === BROKEN_ROWS) throw corrupt("broken rows");
}

export interface PlainReplica {
  readonly log: ReplicaLog;
  readonly disk: PlainDisk;
}

export async function openPlain(store: MemoryKeyValue): Promise<PlainReplica> {
  const disk = new PlainDisk(store);
  const reader = { range: store.range.bind(store) };
  return { disk, log: await openReplicaLog({ reader, runner: disk, checkpoints: disk, checksum, rowsOf, checkRows }) };
}

/** The replicas of a ring over their stores; each reaches its peers through `linkOf`. */
export async function openPlainRing(
  stores: readonly MemoryKeyValue[],
  clock: Clock,
  linkOf: (at: number, replica: LogReplica) => LogReplica = (_, replica) => replica,
): Promise<LogReplica[]> {
  const replicas: LogReplica[] = [];
  const link = (at: number): LogReplica => ({
    name: `node-${at}`,
    get reachable() {
      return linkOf(at, replicas[at]!).reachable;
    },
    logRaise: (...call) => linkOf(at, replicas[at]!).logRaise(...call),
    logAppend: (...call) => linkOf(at, replicas[at]!).logAppend(...call),
    logState: (...call) => linkOf(at, replicas[at]!).logState(...call),
    logRead: (...call) => linkOf(at, replicas[at]!).logRead(...call),
    logAdvance: (...call) => linkOf(at, replicas[at]!).logAdvance(...call),
    logCatchUp: (...call) => linkOf(at, replicas[at]!).logCatchUp(...call),
  });
  const links = stores.map((_, at) => link(at));
  for (const [at, store] of stores.entries()) {
    const { log, disk } = await openPlain(store);
    const peers = links.filter((_, other) => other !== at);
    const onTooFarBehind = (): void => undefined;
    replicas.push(localLogReplica({ name: `node-${at}`, log, runner: disk, peers, clock, report: silentLog, onTooFarBehind }));
  }
  return replicas;
}
