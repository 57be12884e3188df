import { MemoryKeyValue } from "@concord/port-contracts";
import type { KeyValueOperation, StepRunner, StoreStep } from "@concord/ports";
import { ConcordError, type Checksum } from "@concord/runtime";
import { localLogReplica } from "../local-replica.ts";
import { openReplicaLog } from "../open-replica.ts";
import type { LogReplica } from "../replica.ts";
import type { Dice, VirtualTime } from "./virtual-time.ts";

export const checksum: Checksum = (bytes) => {
  let sum = 2166136261;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 16777619);
  return sum >>> 0;
};

export interface RingFaults {
  /** Probability that a message, request or reply, is lost. */
  loss: number;
  /** Longest delay of a message. */
  delayMs: number;
  /** Longest time until what a step persisted is on disk. */
  syncMs: number;
}

type Process = { readonly kind: "up"; readonly replica: LogReplica; readonly runner: SlowDisk } | { readonly kind: "down" };

/** Runs steps in order; what they persist is on disk, and their replies leave, some time later; a crash keeps a prefix. */
class SlowDisk implements StepRunner {
  readonly #pending: { readonly operations: readonly KeyValueOperation[]; readonly reply: () => void }[] = [];
  readonly #store: MemoryKeyValue;
  readonly #time: VirtualTime;
  readonly #syncMs: () => number;
  #alive = true;
  #syncing = false;

  constructor(store: MemoryKeyValue, time: VirtualTime, syncMs: () => number) {
    this.#store = store;
    this.#time = time;
    this.#syncMs = syncMs;
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    if (!this.#alive) return new Promise(() => undefined);
    return new Promise((resolve, reject) => {
      try {
        const { persist, reply } = step.run([]);
        this.#pending.push({ operations: persist, reply: () => resolve(reply) });
        this.#sync();
      } catch (thrown) {
        reject(thrown as Error);
      }
    });
  }

  async crash(keep: number): Promise<void> {
    this.#alive = false;
    for (const { operations } of this.#pending.slice(0, keep)) await this.#store.batch(operations, { sync: true });
  }

  get pending(): number {
    return this.#pending.length;
  }

  #sync(): void {
    if (this.#syncing) return;
    this.#syncing = true;
    this.#time.setTimer(this.#syncMs(), () => {
      if (!this.#alive) return;
      this.#syncing = false;
      for (const { operations, reply } of this.#pending.splice(0)) {
        void this.#store.batch(operations, { sync: true });
        reply();
      }
    });
  }
}

/** Replicas behind a network that loses, delays and reorders messages, on disks that lose what was not synced. */
export class SimulatedRing {
  readonly stores: MemoryKeyValue[];
  readonly faults: RingFaults;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly #processes: Process[];
  readonly #cut = new Set<string>();

  constructor(size: number, time: VirtualTime, dice: Dice, faults: RingFaults) {
    this.stores = Array.from({ length: size }, () => new MemoryKeyValue());
    this.#processes = this.stores.map(() => ({ kind: "down" }));
    this.#time = time;
    this.#dice = dice;
    this.faults = faults;
  }

  async start(node: number): Promise<void> {
    if (this.#processes[node]!.kind === "up") return;
    const store = this.stores[node]!;
    const runner = new SlowDisk(store, this.#time, () => this.#dice.below(this.faults.syncMs + 1));
    this.#processes[node] = { kind: "up", runner, replica: localLogReplica(`node-${node}`, await openReplicaLog(store, checksum), runner) };
  }

  async crash(node: number): Promise<void> {
    const process = this.#processes[node]!;
    if (process.kind === "down") return;
    this.#processes[node] = { kind: "down" };
    await process.runner.crash(this.#dice.below(process.runner.pending + 1));
  }

  isUp(node: number): boolean {
    return this.#processes[node]!.kind === "up";
  }

  cut(client: string, node: number): void {
    this.#cut.add(`${client}-${node}`);
  }

  heal(): void {
    this.#cut.clear();
  }

  /** The replicas as one client reaches them. */
  links(client: string): LogReplica[] {
    return this.stores.map((_, node) => {
      const call = <Reply>(timeoutMs: number, act: (replica: LogReplica) => Promise<Reply>): Promise<Reply> =>
        this.#call(client, node, timeoutMs, act);
      return {
        name: `node-${node}`,
        logRaise: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logRaise(request, timeoutMs)),
        logAppend: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logAppend(request, timeoutMs)),
        logState: (group, timeoutMs) => call(timeoutMs, (replica) => replica.logState(group, timeoutMs)),
        logRead: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logRead(request, timeoutMs)),
        logTrim: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logTrim(request, timeoutMs)),
      };
    });
  }

  #call<Reply>(client: string, node: number, timeoutMs: number, act: (replica: LogReplica) => Promise<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const timer = this.#time.setTimer(timeoutMs, () => reject(new ConcordError("DEADLINE_EXCEEDED", "no answer")));
      const send = (deliver: () => void): void => {
        if (this.#dice.chance(this.faults.loss) || this.#cut.has(`${client}-${node}`)) return;
        this.#time.setTimer(this.#dice.below(this.faults.delayMs + 1), deliver);
      };
      const answer = (settle: () => void): void =>
        send(() => {
          timer.cancel();
          settle();
        });
      send(() => {
        const process = this.#processes[node]!;
        if (process.kind === "down") return;
        act(process.replica).then(
          (reply) => answer(() => resolve(reply)),
          (error: Error) => answer(() => reject(error)),
        );
      });
    });
  }
}
