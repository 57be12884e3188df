// Kills, restarts, pauses, stuck loops, one-way cuts and losses on simulated time, with I2 judged at every verdict.
import { assert } from "@concord/runtime";
import { DETECTION_LIMITS, majorityOf, observersOf } from "../index.ts";
import { Mesh } from "./mesh.ts";

export { Mesh };

const CALM_MS = 300;
const HEALED_MS = 3_000;
/** A member that started last waits so long for others that it never heard. */
const BURIED_MS = DETECTION_LIMITS.joinMs;

export type MeshFault =
  /** `list`: adds the member to the list, or removes it; `unread`: it cannot read the list until all is healed. */
  | { readonly kind: "kill" | "restart" | "stuck" | "unstuck" | "list" | "unread"; readonly at: number }
  /** The members whose bit is set hear only each other, and cannot read the list. */
  | { readonly kind: "split"; readonly side: number }
  | { readonly kind: "pause"; readonly at: number; readonly ms: number }
  | { readonly kind: "cut"; readonly from: number; readonly to: number }
  | { readonly kind: "loss"; readonly percent: number }
  | { readonly kind: "heal" };

/** A fault, so many milliseconds after the one before. */
export type MeshStep = readonly [afterMs: number, fault: MeshFault];

class Faults {
  readonly mesh: Mesh;
  readonly #cuts = new Set<string>();
  #lossPercent = 0;
  #seed: number;

  constructor(mesh: Mesh, seed: number) {
    this.#seed = seed;
    this.mesh = mesh;
    this.mesh.link = (from, to) => (this.#cuts.has(`${from} ${to}`) || this.#draw(100) < this.#lossPercent ? undefined : 1 + this.#draw(4));
  }

  inject(fault: MeshFault): void {
    const { mesh } = this;
    const count = mesh.members.length;
    if (fault.kind === "heal") this.heal();
    else if (fault.kind === "loss") this.#lossPercent = fault.percent;
    else if (fault.kind === "split") this.#split(fault.side);
    else if (fault.kind === "cut") this.#cuts.add(`${fault.from % count} ${fault.to % count}`);
    else {
      const at = fault.at % count;
      const one = mesh.members[at]!;
      const isListed = mesh.listed.includes(at);
      if (fault.kind === "list") void (mesh.recorded !== undefined && mesh.changeList(at));
      else if (fault.kind === "unread") one.isUnread = true;
      else if (fault.kind === "kill") mesh.kill(at);
      else if (fault.kind === "pause") mesh.pause(at, fault.ms);
      else if (fault.kind === "restart" && !one.alive && isListed) mesh.restart(at);
      else if (fault.kind === "stuck") one.loopStuckSinceMs ??= mesh.nowMs;
      else if (fault.kind === "unstuck") one.loopStuckSinceMs = undefined;
    }
  }

  #split(side: number): void {
    const { members } = this.mesh;
    const isOnSide = (at: number): boolean => ((side >> at) & 1) === 1;
    for (const [from, one] of members.entries()) {
      one.isUnread = isOnSide(from);
      for (const to of members.keys()) if (isOnSide(from) !== isOnSide(to)) this.#cuts.add(`${from} ${to}`);
    }
  }

  heal(): void {
    this.#cuts.clear();
    this.#lossPercent = 0;
    for (const one of this.mesh.members) one.isUnread = false;
  }

  #draw(below: number): number {
    this.#seed = (Math.imul(this.#seed, 1_664_525) + 1_013_904_223) >>> 0;
    return (this.#seed >>> 8) % below;
  }
}

/** At each verdict that takes work away from a member, that member's own lease has ended (I2). Where lists change: at each that a member may act on (I5). */
export function advanceJudged(mesh: Mesh, ms: number): void {
  for (let passed = 0; passed < ms; passed += 1) {
    const seen = mesh.changes.length;
    mesh.advance(1);
    for (const { at, about, verdict, atMs } of mesh.changes.slice(seen)) {
      if (mesh.recorded !== undefined && mesh.leaseEndMs(at) <= atMs) continue;
      if (about === "self" || (verdict !== "gone" && verdict !== "stuck") || !mesh.members[about]!.alive) continue;
      const leftMs = mesh.leaseEndMs(about) - atMs;
      assert(leftMs < 0, `member ${at}: member ${about} is called ${verdict} at ${atMs}, ${leftMs} ms before its lease ends`);
    }
  }
}

/** Throws at a verdict before the lease ended (I2), and when the verdicts at the end differ from who lives. Answers how many verdicts changed. */
export function runDetectionHistory(members: number, steps: readonly MeshStep[], seed: number): number {
  return runHistory(new Mesh(members), steps, seed);
}

/**
 * The same in a ring of observers, with clocks that run at different rates: each up to 2.5 % faster or slower than simulated time, so 5 % apart. What is
 * expected at the end is what the observers that live can decide (TXD15).
 */
export function runRingHistory(members: number, steps: readonly MeshStep[], seed: number): number {
  return runHistory(new Mesh(members, { rateOf: (at) => 1 + (((seed + at * 7919) % 51) - 25) / 1_000 }), steps, seed);
}

/** The same while the list of members changes: `members` of them at first, up to `places` in the end. */
export function runListHistory(members: number, places: number, steps: readonly MeshStep[], seed: number): number {
  return runHistory(new Mesh(places, { listed: members }), steps, seed);
}

function runHistory(mesh: Mesh, steps: readonly MeshStep[], seed: number): number {
  const faults = new Faults(mesh, seed);
  advanceJudged(mesh, CALM_MS);
  for (const [afterMs, fault] of steps) {
    advanceJudged(mesh, afterMs);
    faults.inject(fault);
  }
  faults.heal();
  for (const one of mesh.members) one.loopStuckSinceMs = undefined;
  advanceJudged(mesh, HEALED_MS + DETECTION_LIMITS.stuckMs);
  checkLiving(mesh);
  advanceJudged(mesh, BURIED_MS);
  checkDead(mesh);
  return mesh.changes.length;
}

function checkLiving(mesh: Mesh): void {
  const alive = membersAlive(mesh);
  for (const at of alive) {
    // Itself and the observers that hear it.
    const mayWork = observersAlive(mesh, at) + 1 >= majorityAt(mesh, at);
    assert((mesh.self(at) === "works") === mayWork, `member ${at} of ${alive.length} alive says of itself: ${mesh.self(at)}`);
    for (const about of alive) {
      if (about === at || !isKnown(mesh, at, about)) continue;
      assert(mesh.verdict(at, about) === "works", `member ${at} calls member ${about} ${mesh.verdict(at, about)}`);
    }
  }
}

function checkDead(mesh: Mesh): void {
  for (const at of membersAlive(mesh)) {
    for (const about of mesh.listed) {
      if (mesh.members[about]!.alive || !isKnown(mesh, at, about)) continue;
      assert(mesh.verdict(at, about) !== "works", `member ${at} calls the dead member ${about} one that works`);
    }
  }
}

/** Do enough observers live for the member at `at` to know of the other one? In a ring a majority of them has to say so. */
function isKnown(mesh: Mesh, at: number, about: number): boolean {
  const { topology, majority } = mesh.members[at]!.state;
  if (topology.kind === "ring") return observersAlive(mesh, about) >= majority;
  return membersAlive(mesh).length * 2 > mesh.listed.length;
}

function observersAlive(mesh: Mesh, about: number): number {
  const { topology } = mesh.members[about]!.state;
  if (topology.kind === "mesh") return membersAlive(mesh).length - 1;
  return observersOf(topology, about).filter((at) => mesh.members[at]!.alive).length;
}

function majorityAt(mesh: Mesh, at: number): number {
  return mesh.recorded === undefined ? mesh.members[at]!.state.majority : majorityOf(mesh.listed.length);
}

function membersAlive(mesh: Mesh): number[] {
  return mesh.listed.filter((at) => mesh.members[at]!.alive);
}
