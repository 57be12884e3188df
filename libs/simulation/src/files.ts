import { diskOver, MemoryFiles, type CrashChooser, type DiskCall } from "@concord/port-contracts";
import type { Disk } from "@concord/runtime";
import type { Incarnation } from "./incarnation.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { fingerprint, type Trace } from "./trace.ts";

/** Death of a node: `kill` keeps what the operating system had, `power` keeps only what was synced plus a random part of the rest. */
export type CrashMode = "kill" | "power";

const READ_US = 30;
const WRITE_US = 40;
const NAMES_US = 20;
/** What a write costs on top per byte: 1 GiB/s. */
const BYTE_US = 0.001;

/** Of a node's store, and what else shows what its journal had. */
const STORE_JOURNAL = /^[^/]+\/journal\/\d+\.journal$/;
const SHOWS_JOURNAL = /^[^/]+\/(journal\/\d+\.journal|checkpoint)/;

/** Health that a disk's files share with its stores. */
export interface DiskHealth {
  failNextSync: boolean;
  readonly slowness: number;
  syncUs(random: SeededRandom): number;
}

/** A call that a process made and the disk has not finished: a death meanwhile decides it. */
interface InFlight {
  readonly owner: Incarnation;
  readonly call: DiskCall;
  readonly act: () => unknown;
}

/**
 * Files on a disk that outlives processes. A kill keeps what was written; of a call under way it may find nothing, all, or the first
 * bytes of a write. A power cut keeps what was synced, and of the rest each page of each write, each truncation and each name may be
 * lost, kept or torn (I7).
 */
export class SimFiles {
  readonly #name: string;
  readonly #scheduler: Scheduler;
  readonly #random: SeededRandom;
  readonly #trace: Trace;
  readonly #health: DiskHealth;
  /** What power cuts leave, instead of the seed's choice. */
  chooser: CrashChooser | undefined;
  #files = new MemoryFiles();
  #inFlight: InFlight[] = [];

  constructor(name: string, scheduler: Scheduler, random: SeededRandom, trace: Trace, health: DiskHealth) {
    this.#name = name;
    this.#scheduler = scheduler;
    this.#random = random;
    this.#trace = trace;
    this.#health = health;
  }

  /** Room for more bytes than now; a fault takes it away and gives it back. */
  leaveRoom(bytes: number): void {
    this.#files.capacityBytes = this.#files.usedBytes + bytes;
  }

  heal(): void {
    this.#files.clearFaults();
  }

  /** The disk as one process sees it. */
  diskOf(owner: Incarnation): Disk {
    return diskOver(
      this.#files,
      (call, act) =>
        new Promise((resolve, reject) => {
          const flight: InFlight = { owner, call, act };
          if (owner.isDead) return;
          this.#inFlight.push(flight);
          this.#scheduler.after(this.#latencyUs(call), () => this.#finish(flight, act, resolve, reject));
        }),
    );
  }

  /** Looks at the files from outside, in no time: for checks when the world is quiet. */
  directly(): Disk {
    return diskOver(this.#files, async (_, act) => act());
  }

  contents(): ReadonlyMap<string, Uint8Array> {
    return this.#files.contents();
  }

  /** The process is gone: each of its calls under way has happened, or not, or in part. */
  died(owner: Incarnation): void {
    const [own, others] = [
      this.#inFlight.filter((flight) => flight.owner === owner),
      this.#inFlight.filter((flight) => flight.owner !== owner),
    ];
    this.#inFlight = others;
    for (const { call, act } of own) {
      const isDone = this.#random.chance(0.5);
      const bytes = this.#random.below(call.bytes + 1);
      try {
        if (isDone && this.#random.chance(0.5)) act();
        else if (isDone) call.partly?.(bytes);
      } catch {
        // The caller is gone; nothing takes the report.
      }
    }
  }

  crash(mode: CrashMode): void {
    if (mode === "kill") return;
    const count = { kept: 0, lost: 0, torn: 0 };
    const decide = this.chooser ?? this.#draw();
    this.#files.crash((change) => {
      const kept = decide(change);
      count[kept === 0 ? "lost" : kept < change.length ? "torn" : "kept"] += 1;
      return kept;
    });
    this.#trace.line(
      this.#scheduler.nowUs,
      `files ${this.#name} power cut keeps ${count.kept}, loses ${count.lost}, tears ${count.torn} unsynced`,
    );
  }

  /** Changes so far. */
  get nth(): number {
    return this.#files.nth;
  }

  /** After a power cut: what the newest sync wrote to a store's journal is not what was written. False: something after change `nth` shows that it was there. */
  rotNewest(nth: number): boolean {
    const isRotten = this.#files.rotNewest(
      (path) => STORE_JOURNAL.test(path),
      (path) => SHOWS_JOURNAL.test(path),
      nth,
      (bytes) => this.#random.below(bytes),
    );
    if (isRotten) this.#trace.line(this.#scheduler.nowUs, `files ${this.#name} newest synced write rots`);
    return isRotten;
  }

  wipe(): void {
    this.#files = new MemoryFiles();
  }

  /** Most cuts lose all or nothing of what was not synced; the others mix. */
  #draw(): CrashChooser {
    const random = this.#random;
    if (random.chance(0.3)) return () => 0;
    if (random.chance(0.3)) return ({ length }) => length;
    return ({ length }) => (random.chance(0.4) ? 0 : random.chance(0.6) ? length : random.below(length + 1));
  }

  #finish<Answer>(flight: InFlight, act: () => Answer, resolve: (answer: Answer) => void, reject: (thrown: unknown) => void): void {
    const at = this.#inFlight.indexOf(flight);
    // A death meanwhile decided it.
    if (at < 0) return;
    if (flight.owner.isFrozen) {
      flight.owner.run(() => this.#finish(flight, act, resolve, reject));
      return;
    }
    this.#inFlight.splice(at, 1);
    if (flight.owner.isDead) return;
    if (flight.call.kind === "sync" && this.#health.failNextSync) {
      this.#health.failNextSync = false;
      this.#files.failNextSync();
    }
    try {
      const answer = act();
      this.#note(flight.call, "");
      flight.owner.run(() => resolve(answer), flight.call.kind === "write" ? flight.call.bytes : 0);
    } catch (thrown) {
      this.#note(flight.call, " FAILED");
      flight.owner.run(() => reject(thrown));
    }
  }

  #note(call: DiskCall, outcome: string): void {
    if (call.kind === "read") return;
    const content = call.parts === undefined ? "" : ` ${fingerprint(Buffer.concat(call.parts))}`;
    this.#trace.line(this.#scheduler.nowUs, `files ${this.#name} ${call.text}${content}${outcome}`);
  }

  #latencyUs(call: DiskCall): number {
    if (call.kind === "sync") return this.#health.syncUs(this.#random);
    const base = call.kind === "names" ? NAMES_US : call.kind === "write" ? WRITE_US : READ_US;
    return Math.ceil((base + this.#random.exponential(base) + call.bytes * BYTE_US) * this.#health.slowness);
  }
}
