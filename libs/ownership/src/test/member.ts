// One member with its units; the others, the log and the list are the test's word.
import { ScriptedListedMembership } from "@concord/port-contracts";
import { ConcordError, StopProgress, silentLog } from "@concord/runtime";
import {
  foundingList,
  MemberLists,
  Owners,
  Units,
  type Ended,
  type HandOverPeers,
  type RecordedList,
  type Unit,
  type UnitTimes,
  type View,
} from "../index.ts";
import { settled, VirtualTime } from "./virtual-time.ts";

export const TIMES: UnitTimes = {
  releaseMs: 200,
  lostOpeningMs: 40,
  lostServingMs: 100,
  drainMs: 100,
  releaseTimeoutMs: 200,
  holdMs: 500,
  againMs: 50,
  takeOverPauseMs: 0,
  leaveMs: 300,
};

export class ScriptedUnit implements Unit {
  readonly name: string;
  /** Calls of the machine, in order. */
  readonly calls: string[] = [];
  readonly opened = Promise.withResolvers<void>();
  readonly drained = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<Ended>();
  readonly ended = this.#ended.promise;
  readonly confirm?: NonNullable<Unit["confirm"]>;

  constructor(name: string, confirm: Unit["confirm"]) {
    this.name = name;
    if (confirm !== undefined) this.confirm = confirm;
  }

  open(): Promise<void> {
    this.calls.push("open");
    return this.opened.promise;
  }

  drain(graceMs: number): Promise<void> {
    this.calls.push(`drain ${graceMs}`);
    return this.drained.promise;
  }

  async stop(): Promise<void> {
    this.calls.push("stop");
    this.opened.reject(new ConcordError("DRAINING", "stopped"));
  }

  end(how: Ended): void {
    this.opened.reject(new ConcordError(how === "fenced" ? "EPOCH_FENCED" : "CORRUPT_DATA", how));
    this.#ended.resolve(how);
  }
}

export interface Asked {
  readonly address: string;
  readonly unit: string;
  readonly listVersion: number;
  readonly answer: PromiseWithResolvers<number>;
}

const NAMES = ["a", "b", "c"];

export interface MemberOptions {
  readonly times?: Partial<UnitTimes>;
  readonly confirm?: Unit["confirm"];
  /** Units open, drain and are released by others without a delay unless a test says otherwise. */
  readonly holds?: readonly ("open" | "drain" | "release")[];
  /** Others that it hears at its start; both when not given. */
  readonly hears?: readonly ("a" | "c")[];
}

/** Member b of a, b and c. Unit u is a's, then b's, then c's; unit v is c's, then b's, then a's; unit w is its own. */
export class TestMember {
  readonly stopProgress = new StopProgress();
  readonly time = new VirtualTime();
  readonly membership = new ScriptedListedMembership();
  readonly asked: Asked[] = [];
  readonly left: string[] = [];
  readonly leaving = Promise.withResolvers<void>();
  readonly tenures: ScriptedUnit[] = [];
  readonly served: string[] = [];
  readonly owners: Owners;
  readonly units: Units<ScriptedUnit>;
  readonly placement = new Map([
    ["u", ["a", "b", "c"]],
    ["v", ["c", "b", "a"]],
    ["w", ["b", "a", "c"]],
  ]);
  /** The list as it is stored. */
  list: RecordedList = foundingList(NAMES.map((name) => ({ name, datacenter: name, address: `${name}:1` })));
  isUnreadable = false;
  readonly #lists: MemberLists<RecordedList>;
  readonly #hears: readonly string[];

  constructor({ times = {}, confirm, holds = [], hears = ["a", "c"] }: MemberOptions = {}) {
    this.#hears = hears;
    const { time, membership } = this;
    this.#lists = new MemberLists({
      configured: this.list,
      nodeName: "b",
      read: async () => {
        if (this.isUnreadable) throw new ConcordError("STORE_FAILED", "the list cannot be read");
        return this.list;
      },
      clock: time,
      log: silentLog,
      membership,
      noun: "workers",
      addCommand: "add",
      onFailed: (cause) => void Promise.reject(cause),
    });
    const view = (): View => ({
      version: BigInt(this.#lists.current.version),
      members: this.#lists.current.members,
      placement: new Map(this.placement),
    });
    this.owners = new Owners({ membership, lists: this.#lists, view, nodeName: "b", clock: time, log: silentLog });
    const peers: HandOverPeers = {
      leave: (address) => {
        this.left.push(address);
        return this.leaving.promise;
      },
      release: (address, request) => {
        const answer = Promise.withResolvers<number>();
        this.asked.push({ address, ...request, answer });
        if (!holds.includes("release")) answer.resolve(request.listVersion);
        return answer.promise;
      },
    };
    const tenure = (name: string): ScriptedUnit => {
      const unit = new ScriptedUnit(name, confirm);
      unit.opened.promise.catch(() => undefined);
      if (!holds.includes("open")) unit.opened.resolve();
      if (!holds.includes("drain")) unit.drained.resolve();
      this.tenures.push(unit);
      return unit;
    };
    const onServing = (name: string): void => void this.served.push(name);
    this.units = new Units({
      owners: this.owners,
      peers,
      tenure,
      times: { ...TIMES, ...times },
      noun: "unit",
      stopProgress: this.stopProgress,
      clock: time,
      log: silentLog,
      onServing,
    });
  }

  /** Works, and has these units. */
  async start(...names: readonly string[]): Promise<this> {
    await this.owners.listed(new AbortController().signal);
    await this.units.start();
    for (const name of this.#hears) this.membership.about(NAMES.indexOf(name), "works");
    for (const name of names) void this.units.add(name).catch(() => undefined);
    await settled();
    return this;
  }

  async about(member: "a" | "c", verdict: "gone" | "works" | "stuck"): Promise<void> {
    this.membership.about(NAMES.indexOf(member), verdict);
    await settled();
  }

  async self(verdict: "works" | "lost"): Promise<void> {
    this.membership.self(verdict);
    await settled();
  }

  /** The stored list has another version, and perhaps other ranks of a unit. */
  relist(ranks: readonly [unit: string, ranks: string[]][] = []): void {
    for (const [unit, order] of ranks) this.placement.set(unit, order);
    this.list = { ...this.list, version: this.list.version + 1 };
  }

  /** It is read, too. */
  async read(): Promise<void> {
    await this.owners.refresh();
    await settled();
  }

  kind(name: string): string {
    return this.units.tenure(name).kind;
  }

  async stop(): Promise<void> {
    for (const unit of this.tenures) unit.drained.resolve();
    await this.units.stop();
  }
}
