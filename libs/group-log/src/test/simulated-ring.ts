import { MemoryKeyValue, type KeyValueImage } from "@concord/port-contracts";
import type { Checkpoints, KeyValueOperation, LogEntry, StepRunner, StoreStep } from "@concord/ports";
import { ConcordError, nextSeq, SEQ_NONE, seqOf, silentLog, toHex, type Checksum } from "@concord/runtime";
import { LOG_READ_ENTRIES_MAX } from "../limits.ts";
import { localLogReplica } from "../local-replica.ts";
import { entryKey } from "../log-format.ts";
import { openReplicaLog } from "../open-replica.ts";
import type { LogReplica } from "../replica.ts";
import { rejoinGroup, type RejoinOptions } from "../rejoin.ts";
import { restoreGroup } from "../restore.ts";
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

/** Where a replica keeps what an applied entry says, in place of rows. */
export function appliedKey(group: string, seq: bigint): Uint8Array {
  const key = entryKey(group, seqOf(seq));
  key[0] = 0x61;
  return key;
}

interface Effects {
  readonly persist: readonly KeyValueOperation[];
  readonly derived: readonly KeyValueOperation[];
  readonly reply: () => void;
}

/**
 * Runs steps in order; what they persist is on disk, and their replies leave, some time later; a crash keeps a prefix. Of what is derived a
 * crash keeps any part, unless a checkpoint was made.
 */
class SlowDisk implements StepRunner, Checkpoints {
  readonly #pending: Effects[] = [];
  readonly #store: MemoryKeyValue;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly #syncMs: number;
  readonly #onFailed: (thrown: unknown) => void;
  /** Newest values by key, those on their way included. */
  readonly #written = new Map<string, Uint8Array | undefined>();
  /** Derived and in no checkpoint. */
  readonly #volatile = new Map<string, KeyValueOperation>();
  readonly #listeners: (() => () => void)[] = [];
  #last: Promise<unknown> = Promise.resolve();
  #alive = true;
  #syncing = false;
  /** The store before the newest sync, while nothing was written since that a reader could tell it by. */
  #before: KeyValueImage | undefined;

  constructor(store: MemoryKeyValue, time: VirtualTime, dice: Dice, syncMs: number, onFailed: (thrown: unknown) => void) {
    this.#onFailed = onFailed;
    this.#store = store;
    this.#time = time;
    this.#dice = dice;
    this.#syncMs = syncMs;
  }

  onCheckpoint(begun: () => () => void): void {
    this.#listeners.push(begun);
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    if (!this.#alive) return new Promise(() => undefined);
    return new Promise((resolve, reject) => {
      this.#last = this.#last.then(async () => {
        const stored = await this.#store.getMany(step.load);
        const loaded = step.load.map((key, at) => (this.#written.has(toHex(key)) ? this.#written.get(toHex(key)) : stored[at]));
        try {
          const { persist, derived = [], onSynced, reply } = step.run(loaded);
          for (const one of persist) this.#written.set(toHex(one.key), one.kind === "put" ? one.value : undefined);
          const answer = (): void => {
            onSynced?.();
            resolve(reply);
          };
          this.#pending.push({ persist, derived, reply: answer });
          this.#sync();
        } catch (thrown) {
          this.#onFailed(thrown);
          reject(thrown as Error);
        }
      });
    });
  }

  async crash(keep: number): Promise<void> {
    this.#alive = false;
    for (const { persist } of this.#pending.slice(0, keep)) await this.#store.batch(persist, { sync: true });
    const kept = [...this.#volatile.values()].filter(() => this.#dice.chance(0.5));
    await this.#store.batch(kept, { sync: true });
  }

  /** The process dies, and what it synced and acknowledged last is rotten: what is left, or undefined when a checkpoint came behind it. */
  rot(): KeyValueImage | undefined {
    this.#alive = false;
    return this.#before;
  }

  get pending(): number {
    return this.#pending.length;
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const derived = this.#volatile.get(toHex(key));
    return derived?.kind === "put" ? derived.value : this.#store.get(key);
  }

  #sync(): void {
    if (this.#syncing) return;
    this.#syncing = true;
    this.#time.setTimer(this.#dice.below(this.#syncMs + 1), () => {
      if (!this.#alive) return;
      this.#syncing = false;
      this.#before = { entries: this.#store.contents() };
      for (const { persist, derived, reply } of this.#pending.splice(0)) {
        void this.#store.batch(persist, { sync: true });
        for (const one of derived) this.#volatile.set(toHex(one.key), one);
        reply();
      }
      if (this.#dice.chance(0.2)) this.#checkpoint();
    });
  }

  #checkpoint(): void {
    this.#before = undefined;
    const durable = this.#listeners.map((begun) => begun());
    void this.#store.batch([...this.#volatile.values()], { sync: true });
    this.#volatile.clear();
    for (const done of durable) done();
  }
}

/** A node whose newest write rotted: it has to catch up from both peers. */
interface RottenNode {
  readonly node: number;
  readonly group: string;
}

interface LostDisk {
  readonly node: number;
  readonly group: string;
  readonly settledAtMs: number;
}

/** Nothing of a node's earlier life is under way after this: its calls ended, their messages arrived. */
export const SETTLE_MS = 150;

/** Replicas behind a network that loses, delays and reorders messages, on disks that lose what was not synced. */
export class SimulatedRing {
  readonly stores: MemoryKeyValue[];
  readonly faults: RingFaults;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly #processes: Process[];
  readonly #cut = new Set<string>();
  /** The node whose disk was replaced, until it is copied from its peers; one at a time (TXR4). */
  #lost: LostDisk | undefined;
  /** One at a time, and not while a disk is lost: two replicas that forget the same entry lose it. */
  #rotten: RottenNode | undefined;
  /** A node has lost its disk, or its newest write. */
  #hasForgotten = false;
  /** Told of a node before it reads from its peers what it may have forgotten. */
  readonly onRestart: ((node: string) => void)[] = [];
  /** The first failed assertion of a replica: its callers take it for a replica that does not answer. */
  failed: ConcordError | undefined;
  readonly #onApply: (entry: LogEntry) => void;
  readonly #onFailed = (thrown: unknown): void => {
    if (thrown instanceof ConcordError && thrown.code === "INTERNAL") this.failed ??= thrown;
  };

  /** `onApply` hears of every entry a replica applies, again after its restarts. */
  constructor(size: number, time: VirtualTime, dice: Dice, faults: RingFaults, onApply: (entry: LogEntry) => void = () => undefined) {
    this.stores = Array.from({ length: size }, () => new MemoryKeyValue());
    this.#processes = this.stores.map(() => ({ kind: "down" }));
    this.#time = time;
    this.#dice = dice;
    this.faults = faults;
    this.#onApply = onApply;
  }

  /** A node whose disk was lost stays down until its peers are up and nothing of its earlier life is under way. */
  async start(node: number): Promise<void> {
    if (this.#processes[node]!.kind === "up") return;
    if (this.#lost?.node === node && !(await this.#restore(this.#lost))) return;
    const store = this.stores[node]!;
    const runner = new SlowDisk(store, this.#time, this.#dice, this.faults.syncMs, this.#onFailed);
    const rowsOf = (group: string, entry: LogEntry): KeyValueOperation[] => {
      this.#onApply(entry);
      return [{ kind: "put", key: appliedKey(group, entry.seq), value: entry.rows }];
    };
    const reader = { range: store.range.bind(store) };
    const opened = await openReplicaLog({ reader, runner, checkpoints: runner, checksum, rowsOf, checkRows: () => undefined });
    const name = `node-${node}`;
    const peers = this.links(name).filter((link) => link.name !== name);
    const options = { name, log: opened, runner, peers, clock: this.#time, report: silentLog };
    const onTooFarBehind = (group: string): void => {
      if (!this.#hasForgotten) throw new Error(`nothing of ${group} is dropped before all have applied it`);
      // A replica forgot what it had said to have applied, and a copied one has no older entries: this one is copied anew (TXR4).
      void this.lose(node, group);
    };
    if (this.#rotten?.node === node && !(await this.#rejoin(name, this.#rotten, { log: opened, runner, peers }))) return;
    this.#processes[node] = { kind: "up", runner, replica: localLogReplica({ ...options, onTooFarBehind }) };
  }

  async #rejoin(name: string, { node, group }: RottenNode, options: RejoinOptions): Promise<boolean> {
    for (const tell of this.onRestart) tell(name);
    const joined = await rejoinGroup(options, group).catch((thrown: unknown) => {
      this.#onFailed(thrown);
      return "failed";
    });
    if (joined === "joined" || joined === "too-far") this.#rotten = undefined;
    if (joined === "too-far") await this.lose(node, group);
    return joined === "joined";
  }

  /** What a replica has applied up to its watermark; undefined in place of what it lacks. */
  async applied(node: number, group: string): Promise<(Uint8Array | undefined)[]> {
    const process = this.#processes[node]!;
    if (process.kind === "down") return [];
    const { appliedSeq } = await process.replica.logState(group, 1);
    const seqs = Array.from({ length: Number(appliedSeq) }, (_, at) => BigInt(at + 1));
    return Promise.all(seqs.map((seq) => process.runner.get(appliedKey(group, seq))));
  }

  async crash(node: number): Promise<void> {
    const process = this.#processes[node]!;
    if (process.kind === "down") return;
    this.#processes[node] = { kind: "down" };
    await process.runner.crash(this.#dice.below(process.runner.pending + 1));
  }

  /** The node is down with an empty disk. Nothing happens while another one is. */
  async lose(node: number, group: string): Promise<void> {
    if (this.#lost !== undefined || this.#rotten !== undefined) return;
    this.#lost = { node, group, settledAtMs: this.#time.monotonicMs() + SETTLE_MS };
    this.#hasForgotten = true;
    await this.crash(node);
    this.stores[node] = new MemoryKeyValue();
  }

  /** The node is down, and its newest write, which it may have acknowledged, is gone. */
  rot(node: number, group: string): void {
    const process = this.#processes[node]!;
    if (process.kind === "down" || this.#lost !== undefined || this.#rotten !== undefined) return;
    this.#processes[node] = { kind: "down" };
    const left = process.runner.rot();
    if (left === undefined) return;
    this.#rotten = { node, group };
    this.#hasForgotten = true;
    this.stores[node] = new MemoryKeyValue(left);
  }

  async #restore({ node, group, settledAtMs }: LostDisk): Promise<boolean> {
    const store = this.stores[node]!;
    const others = [...this.#processes.keys()].filter((other) => other !== node);
    if (this.#time.monotonicMs() < settledAtMs || !others.every((other) => this.isUp(other))) return false;
    let copiedSeq = SEQ_NONE;
    for (const other of others) {
      const rows = await this.applied(other, group);
      if (BigInt(rows.length) > copiedSeq) copiedSeq = seqOf(BigInt(rows.length));
      const puts = rows.flatMap((value, at): KeyValueOperation[] => {
        return value === undefined ? [] : [{ kind: "put", key: appliedKey(group, BigInt(at + 1)), value }];
      });
      await store.batch(puts, { sync: true });
    }
    const read = { group, fromSeq: nextSeq(copiedSeq), limit: LOG_READ_ENTRIES_MAX };
    const links = this.links("restore");
    try {
      const states = await Promise.all(others.map((other) => links[other]!.logRead(read, 1000)));
      await store.batch(restoreGroup(group, copiedSeq, states, checksum), { sync: true });
    } catch (thrown) {
      this.#onFailed(thrown);
      return false;
    }
    this.#lost = undefined;
    return true;
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
        reachable: true,
        logRaise: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logRaise(request, timeoutMs)),
        logAppend: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logAppend(request, timeoutMs)),
        logState: (group, timeoutMs) => call(timeoutMs, (replica) => replica.logState(group, timeoutMs)),
        logRead: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logRead(request, timeoutMs)),
        logAdvance: (request, timeoutMs) => call(timeoutMs, (replica) => replica.logAdvance(request, timeoutMs)),
        logCatchUp: (group, seq, timeoutMs) => call(timeoutMs, (replica) => replica.logCatchUp(group, seq, timeoutMs)),
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
          (error: Error) => {
            this.#onFailed(error);
            answer(() => reject(error));
          },
        );
      });
    });
  }
}
