import { Worker } from "node:worker_threads";
import {
  DETECTION_LIMITS,
  type ListedMembership,
  type MemberAddress,
  type MembershipChange,
  type ReadList,
} from "@concord/failure-detection";
import type { Authenticator, Service } from "@concord/rpc";
import { assert, type Clock, type Log, type Metrics, type Random, type Timer, type Transport } from "@concord/runtime";
import { BeatStreams } from "./beat-streams.ts";
import type { Input, Traffic, WorkerInput, WorkerOutput } from "./messages.ts";
import { SharedMemory } from "./shared-memory.ts";
import { systemMonotonicMs } from "./system-clock.ts";

/** The main loop says so often that it turns: a few times per limit of a stuck one. */
const PROGRESS_EVERY_MS = 50;
const INCARNATION_BYTES = 8;

export interface UdpMembershipOptions {
  /**
   * All configured members, in the same order everywhere; or those of a list that changes while they run (TX32), as `listRead` has it before the
   * start. Beats go to the UDP ports of these numbers.
   */
  readonly members: readonly MemberAddress[] | "listed";
  readonly nodeName: string;
  readonly listenAddress: string;
  /** The cluster's secret: who does not know it is no member. */
  readonly secret: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The way over the members' gRPC ports where UDP is blocked; none when not given. */
  readonly fallback?: {
    readonly transport: Transport;
    readonly authenticator: Authenticator;
    /** Credentials for the members' servers. */
    readonly token: string | undefined;
  };
}

/**
 * Membership by UDP datagrams from a worker thread, and over gRPC from the main one where these do not get through (TX13). `leaseEndMs` and verdicts as in failure-detection. When the thread dies, this process
 * is lost, to itself and soon to the others.
 */
export class UdpMembership implements ListedMembership {
  readonly #options: UdpMembershipOptions;
  readonly #memory = new SharedMemory();
  readonly #streams: BeatStreams | undefined;
  #worker: Worker | undefined;
  #members: readonly (MemberAddress | undefined)[];
  #list: ReadList | undefined;
  #progress: Timer | undefined;

  constructor(options: UdpMembershipOptions) {
    this.#options = options;
    const { fallback, clock, log, metrics, members } = options;
    this.#members = members === "listed" ? [] : members;
    if (fallback === undefined) return;
    const onDatagrams = (datagrams: readonly Uint8Array[], hearsNoUdp: boolean): void =>
      this.#worker?.postMessage({ kind: "streamed", datagrams, hearsNoUdp } satisfies Input);
    const addresses = this.#members.map((member) => member?.address);
    this.#streams = new BeatStreams({ ...fallback, addresses, clock, log, metrics, onDatagrams });
  }

  listRead(list: ReadList): void {
    assert(this.#options.members === "listed", "configured members do not change");
    if (list.version < (this.#list?.version ?? 0)) return;
    const before = this.#members;
    this.#members = list.members;
    assert(before.length === 0 || before[this.#self()]?.name === this.#options.nodeName, "a member keeps its place");
    this.#list = list;
    this.#streams?.change(list.members.map((member) => member?.address));
    this.#worker?.postMessage({ kind: "list", list } satisfies Input);
  }

  /** What this member's server has to have for it. */
  get services(): readonly Service[] {
    return this.#streams === undefined ? [] : [this.#streams.service];
  }

  start(onChange: (change: MembershipChange) => void, onNewerList?: (version: number) => void): Promise<void> {
    assert(this.#worker === undefined, "a membership starts once");
    const worker = new Worker(new URL("worker.ts", import.meta.url), { workerData: this.#input() });
    this.#worker = worker;
    this.#turn();
    return new Promise((resolve, reject) => {
      worker.on("message", (output: WorkerOutput) => {
        if (output.kind === "bound") resolve();
        else if (output.kind === "failed") reject(new Error(output.message));
        else if (output.kind === "change") onChange(output.change);
        else if (output.kind === "newer-list") onNewerList?.(output.version);
        else if (output.kind === "stream") this.#streams?.send(output.to, output.datagram, output.hearsNoUdp);
        else if (output.kind === "blocked") this.#sayBlocked(output.member);
        else this.#count(output.traffic);
      });
      const end = (reason: string): void => {
        reject(new Error(`the thread of heartbeats ended: ${reason}`));
        if (this.#worker !== worker) return;
        this.#options.log.error("the thread of heartbeats ended; this process serves no longer", { reason });
        onChange({ kind: "self", verdict: "lost" });
      };
      worker.on("error", (thrown: Error) => end(thrown.message));
      worker.on("exit", (code) => end(`exit ${code}`));
    });
  }

  leaseEndMs(): number {
    return this.#memory.leaseEndMs;
  }

  async stop(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#progress?.cancel();
    await worker?.terminate();
    this.#streams?.close();
  }

  #turn(): void {
    this.#memory.addProgress();
    this.#progress = this.#options.clock.setTimer(PROGRESS_EVERY_MS, () => this.#turn());
  }

  /** The own place. */
  #self(): number {
    const { nodeName } = this.#options;
    const self = this.#members.findIndex((member) => member?.name === nodeName);
    assert(self >= 0, `${nodeName} is not among the members`);
    return self;
  }

  #input(): WorkerInput {
    const { listenAddress, secret, clock, random } = this.#options;
    const members = this.#options.members === "listed" ? this.#list : this.#options.members;
    assert(members !== undefined, "a list is read before the start");
    const self = this.#self();
    const incarnation = new DataView(Uint8Array.from(random.bytes(INCARNATION_BYTES)).buffer).getBigUint64(0) | 1n;
    const clockOffsetMs = clock.monotonicMs() - systemMonotonicMs();
    return {
      members: "version" in members ? members : members.map(({ name, address }) => ({ name, address })),
      self,
      incarnation,
      secret,
      limits: DETECTION_LIMITS,
      listenAddress,
      memory: this.#memory.buffer,
      hasStreams: this.#streams !== undefined,
      clockOffsetMs,
    };
  }

  #sayBlocked(member: number): void {
    const found = this.#members[member];
    if (found === undefined) return;
    const { name, address } = found;
    this.#options.log.warn("no datagrams of a member that beats over gRPC: let UDP through to its port, and to ours", {
      member: name,
      address,
    });
  }

  #count({ sent, received, streamed, foreign, malformed }: Traffic): void {
    const { metrics } = this.#options;
    metrics.count("heartbeats_sent_total", sent);
    metrics.count("heartbeats_received_total", received);
    if (streamed > 0) metrics.count("heartbeats_streamed_total", streamed);
    if (foreign > 0) metrics.count("heartbeats_refused_total", foreign, { reason: "foreign" });
    if (malformed > 0) metrics.count("heartbeats_refused_total", malformed, { reason: "malformed" });
  }
}
