// Kills, restarts, pauses, stuck loops, one-way cuts and losses on simulated time, with I2 judged at every verdict.
import { assert } from "@concord/runtime";
import { DETECTION_LIMITS } from "../index.ts";
import { Mesh } from "./mesh.ts";

export { Mesh };

const CALM_MS = 300;
const HEALED_MS = 3_000;
/** A member that started last waits so long for others that it never heard. */
const BURIED_MS = DETECTION_LIMITS.joinMs;

export type MeshFault =
  | { readonly kind: "kill" | "restart" | "stuck" | "unstuck"; readonly at: number }
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

  constructor(members: number, seed: number) {
    this.#seed = seed;
    this.mesh = new Mesh(members);
    this.mesh.link = (from, to) => (this.#cuts.has(`${from} ${to}`) || this.#draw(100) < this.#lossPercent ? undefined : 1 + this.#draw(4));
  }

  inject(fault: MeshFault): void {
    const { mesh } = this;
    const count = mesh.members.length;
    if (fault.kind === "heal") this.heal();
    else if (fault.kind === "loss") this.#lossPercent = fault.percent;
    else if (fault.kind === "cut") this.#cuts.add(`${fault.from % count} ${fault.to % count}`);
    else {
      const at = fault.at % count;
      const one = mesh.members[at]!;
      if (fault.kind === "kill") mesh.kill(at);
      else if (fault.kind === "pause") mesh.pause(at, fault.ms);
      else if (fault.kind === "restart" && !one.alive) mesh.restart(at);
      else if (fault.kind === "stuck") one.loopStuckSinceMs ??= mesh.nowMs;
      else if (fault.kind === "unstuck") one.loopStuckSinceMs = undefined;
    }
  }

  heal(): void {
    this.#cuts.clear();
    this.#lossPercent = 0;
  }

  #draw(below: number): number {
    this.#seed = (Math.imul(this.#seed, 1_664_525) + 1_013_904_223) >>> 0;
    return (this.#seed >>> 8) % below;
  }
}

/** At each verdict that takes work away from a member, that member's own lease has ended (I2). */
export function advanceJudged(mesh: Mesh, ms: number): void {
  for (let passed = 0; passed < ms; passed += 1) {
    const seen = mesh.changes.length;
    mesh.advance(1);
    for (const { about, verdict, atMs } of mesh.changes.slice(seen)) {
      if (about === "self" || (verdict !== "gone" && verdict !== "stuck") || !mesh.members[about]!.alive) continue;
      const leftMs = mesh.leaseEndMs(about) - atMs;
      assert(leftMs < 0, `member ${about} is called ${verdict} at ${atMs}, ${leftMs} ms before its lease ends`);
    }
  }
}

/** Throws at a verdict before the lease ended (I2), and when the verdicts at the end differ from who lives. Answers how many verdicts changed. */
export function runDetectionHistory(members: number, steps: readonly MeshStep[], seed: number): number {
  const faults = new Faults(members, seed);
  const { mesh } = faults;
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
  const hasMajority = alive.length * 2 > mesh.members.length;
  for (const at of alive) {
    assert((mesh.self(at) === "works") === hasMajority, `member ${at} of ${alive.length} alive says of itself: ${mesh.self(at)}`);
    if (!hasMajority) continue;
    for (const about of alive) {
      if (about !== at) assert(mesh.verdict(at, about) === "works", `member ${at} calls member ${about} ${mesh.verdict(at, about)}`);
    }
  }
}

function checkDead(mesh: Mesh): void {
  const alive = membersAlive(mesh);
  if (alive.length * 2 <= mesh.members.length) return;
  for (const at of alive) {
    for (const [about, one] of mesh.members.entries()) {
      if (!one.alive) assert(mesh.verdict(at, about) !== "works", `member ${at} calls the dead member ${about} one that works`);
    }
  }
}

function membersAlive(mesh: Mesh): number[] {
  return [...mesh.members.entries()].filter(([, one]) => one.alive).map(([at]) => at);
}
