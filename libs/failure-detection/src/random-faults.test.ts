// Kills, restarts, pauses, stuck loops, one-way cuts and losses, drawn by fast-check, on simulated time. Judged: I2 at every verdict, and that
// all who live work again when the faults are over (completeness, accuracy).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { DETECTION_LIMITS } from "./index.ts";
import { Mesh } from "./test/mesh.ts";

const { stuckMs } = DETECTION_LIMITS;
const HEALED_MS = 3_000;

type Fault =
  | { readonly kind: "kill" | "restart" | "stuck" | "unstuck"; readonly at: number }
  | { readonly kind: "pause"; readonly at: number; readonly ms: number }
  | { readonly kind: "cut"; readonly from: number; readonly to: number }
  | { readonly kind: "loss"; readonly percent: number }
  | { readonly kind: "heal" };

const member = fc.nat(4);
const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({ kind: fc.constantFrom("kill" as const, "restart" as const, "stuck" as const, "unstuck" as const), at: member }),
  fc.record({ kind: fc.constant("pause" as const), at: member, ms: fc.integer({ min: 1, max: 2_500 }) }),
  fc.record({ kind: fc.constant("cut" as const), from: member, to: member }),
  fc.record({ kind: fc.constant("loss" as const), percent: fc.integer({ min: 0, max: 60 }) }),
  fc.record({ kind: fc.constant("heal" as const) }),
);
const plan = fc.array(fc.tuple(fc.integer({ min: 0, max: 700 }), fault), { minLength: 1, maxLength: 25 });

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

  inject(fault: Fault): void {
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
function advanceJudged(mesh: Mesh, ms: number): void {
  for (let passed = 0; passed < ms; passed += 1) {
    const seen = mesh.changes.length;
    mesh.advance(1);
    for (const { about, verdict, atMs } of mesh.changes.slice(seen)) {
      if (about === "self" || (verdict !== "gone" && verdict !== "stuck") || !mesh.members[about]!.alive) continue;
      const leftMs = mesh.leaseEndMs(about) - atMs;
      assert.ok(leftMs < 0, `member ${about} is called ${verdict} at ${atMs}, ${leftMs} ms before its lease ends`);
    }
  }
}

for (const members of [2, 3, 5]) {
  test(`[TX14] random faults: ${members} members: no verdict before the lease ended (I2); healed: all who live work, the dead are gone`, () => {
    fc.assert(
      fc.property(plan, fc.nat(), (steps, seed) => {
        const faults = new Faults(members, seed + 1);
        const { mesh } = faults;
        advanceJudged(mesh, 300);
        for (const [afterMs, fault] of steps) {
          advanceJudged(mesh, afterMs);
          faults.inject(fault);
        }
        faults.heal();
        for (const one of mesh.members) one.loopStuckSinceMs = undefined;
        advanceJudged(mesh, HEALED_MS + stuckMs);
        const alive = [...mesh.members.entries()].filter(([, one]) => one.alive).map(([at]) => at);
        if (alive.length * 2 <= members) {
          for (const at of alive) assert.notEqual(mesh.self(at), "works");
          return;
        }
        for (const at of alive) {
          assert.equal(mesh.self(at), "works");
          for (const about of alive) if (about !== at) assert.equal(mesh.verdict(at, about), "works", `${at} about ${about}`);
        }
      }),
      { numRuns: 25 },
    );
  });
}

for (const members of [3, 5]) {
  test(`[TX14] stuck: ${members} members: a loop that goes on just after a beat said that it is stuck: no verdict before the lease ended (I2)`, () => {
    for (let stuckForMs = stuckMs - 10; stuckForMs < stuckMs + 100; stuckForMs += 1) {
      const mesh = new Mesh(members);
      mesh.link = () => 4;
      advanceJudged(mesh, 300);
      mesh.members[0]!.loopStuckSinceMs = mesh.nowMs;
      advanceJudged(mesh, stuckForMs);
      mesh.members[0]!.loopStuckSinceMs = undefined;
      advanceJudged(mesh, 500);
      assert.equal(mesh.self(0), "works");
    }
  });
}
