// The table against a model with no cleverness: lists, all pairs of conflicts, reachability by repeated search. The model follows the
// table's choice of victims and checks each; everything else (outcomes, grants, expiries) must be equal after every step.
import assert from "node:assert/strict";
import { dice } from "@concord/port-contracts";
import { LockTable, type LockGrant, type LockMode } from "../index.ts";

export const TRANSACTIONS = ["t1", "t2", "t3", "t4", "t5", "t6"] as const;
/** The range and two of its keys. */
const RANGE = "r|";
export const LOCK_KEYS = ["w", "x", RANGE, "r|1", "r|2"] as const;
const STEPS_MAX = 80;

interface Request {
  readonly id: string;
  readonly key: string;
  readonly mode: LockMode;
  readonly upgrade: boolean;
  readonly deadlineMs: number;
}

const goTogether = (left: LockMode, right: LockMode): boolean => left === right && left !== "exclusive";

class Model {
  holders: { id: string; key: string; mode: LockMode }[] = [];
  queue: Request[] = [];
  doomed = new Set<string>();
  committing = new Set<string>();

  held(id: string, key: string): LockMode | undefined {
    return this.holders.find((holder) => holder.id === id && holder.key === key)?.mode;
  }

  enqueue(request: Request): void {
    const isBehind = (other: Request): boolean => !request.upgrade || (other.upgrade && other.key === request.key);
    const at = this.queue.findLastIndex(isBehind) + 1;
    this.queue.splice(at, 0, request);
  }

  blockers(request: Request): Set<string> {
    const earlier = this.queue.slice(0, this.queue.indexOf(request)).filter((other) => other.key === request.key);
    const holders = this.holders.filter((holder) => holder.key === request.key && holder.id !== request.id);
    const conflicting = [...earlier, ...holders].filter((other) => !goTogether(other.mode, request.mode));
    return new Set(conflicting.map((other) => other.id));
  }

  /** Grants whatever nothing stands against, until nothing changes. */
  settle(): LockGrant[] {
    const granted: LockGrant[] = [];
    for (;;) {
      const request = this.queue.find((candidate) => this.blockers(candidate).size === 0);
      if (request === undefined) return granted;
      this.queue.splice(this.queue.indexOf(request), 1);
      this.holders = this.holders.filter((holder) => holder.id !== request.id || holder.key !== request.key);
      this.holders.push({ id: request.id, key: request.key, mode: request.mode });
      granted.push({ transactionId: request.id, key: request.key, mode: request.mode });
    }
  }

  edges(): Map<string, Set<string>> {
    const edges = new Map<string, Set<string>>();
    for (const request of this.queue) {
      const known = edges.get(request.id) ?? new Set();
      for (const blocker of this.blockers(request)) known.add(blocker);
      edges.set(request.id, known);
    }
    return edges;
  }

  /** All transactions on a cycle with `id`, itself included; empty when it is in none. */
  cycleMembers(id: string): string[] {
    const edges = this.edges();
    const reach = (from: string): Set<string> => {
      const seen = new Set<string>();
      const open = [from];
      for (let at = open.pop(); at !== undefined; at = open.pop()) {
        for (const next of edges.get(at) ?? []) {
          if (!seen.has(next)) open.push(next);
          seen.add(next);
        }
      }
      return seen;
    };
    return [...reach(id)].filter((other) => reach(other).has(id));
  }

  isSimpleCycle(members: readonly string[]): boolean {
    const edges = this.edges();
    return members.every((id) => [...(edges.get(id) ?? [])].filter((next) => members.includes(next)).length === 1);
  }

  takeBack(id: string, key?: string): void {
    this.queue = this.queue.filter((request) => request.id !== id || (key !== undefined && request.key !== key));
  }

  /** I6: once a range is locked, a holder of a key of it exclusively holds it as intent. */
  addWriters(range: string): void {
    if (this.holders.some((holder) => holder.key === range)) return;
    const writers = this.holders.filter((holder) => holder.mode === "exclusive" && holder.key.startsWith(range));
    for (const id of new Set(writers.map((holder) => holder.id))) this.holders.push({ id, key: range, mode: "intent" });
  }

  end(id: string): void {
    this.takeBack(id);
    this.holders = this.holders.filter((holder) => holder.id !== id);
    this.doomed.delete(id);
    this.committing.delete(id);
  }
}

export type LockStep =
  | { kind: "request"; id: string; key: string; mode: LockMode; waitMs: number }
  | { kind: "range"; id: string; waitMs: number }
  | { kind: "release" | "cancel" | "committing"; id: string }
  | { kind: "tick"; passMs: number };

/** Younger = larger start; several share one, so ties by id are met too. */
const startOf = (transaction: string): number => Math.floor(Number(transaction.slice(1)) / 2);

const sorted = (grants: readonly LockGrant[]): string[] =>
  grants.map((grant) => `${grant.key} ${grant.transactionId} ${grant.mode}`).toSorted();

function youngest(candidates: readonly string[]): string | undefined {
  return candidates.toSorted((left, right) => startOf(right) - startOf(left) || (left < right ? 1 : -1))[0];
}

/** Plays a request in both; returns how many deadlocks were broken. */
function playRequest(table: LockTable, model: Model, now: number, step: Extract<LockStep, { kind: "request" | "range" }>): number {
  const { id } = step;
  const { key, mode } = step.kind === "range" ? { key: RANGE, mode: "shared" as const } : step;
  if (step.kind === "range") model.addWriters(RANGE);
  const owner = { id, firstStartMs: startOf(id) };
  const deadlineMs = now + step.waitMs;
  const held = model.held(id, key);
  const covered = held === "exclusive" || held === mode;
  const waits = model.queue.some((other) => other.id === id && other.key === key);
  if (waits && !covered && !model.doomed.has(id)) {
    assert.throws(() => table.request(owner, key, mode, deadlineMs, now), { code: "TRANSACTION_STATE" });
    return 0;
  }
  const decision =
    step.kind === "range" ? table.requestRange(owner, key, deadlineMs, now) : table.request(owner, key, mode, deadlineMs, now);
  if (model.doomed.has(id)) {
    assert.deepEqual(decision, { outcome: "deadlock", victims: [], granted: [] });
    return 0;
  }
  if (covered) {
    assert.equal(decision.outcome, "granted");
    return 0;
  }
  const upgrade = held !== undefined;
  const asked: Request = { id, key, mode: upgrade ? "exclusive" : mode, upgrade, deadlineMs };
  model.enqueue(asked);
  if (model.blockers(asked).size > 0 && deadlineMs <= now) {
    model.takeBack(id, key);
    assert.equal(decision.outcome, "expired");
    return 0;
  }
  const granted = model.settle();
  for (const victim of decision.victims) granted.push(...checkVictim(model, id, victim));
  assert.deepEqual(model.cycleMembers(id), [], "a deadlock was left");
  const isOwn = (grant: LockGrant): boolean => grant.transactionId === id && grant.key === key;
  const outcome = model.doomed.has(id) ? "deadlock" : granted.some(isOwn) ? "granted" : "queued";
  assert.equal(decision.outcome, outcome);
  assert.deepEqual(sorted(decision.granted), sorted(granted.filter((grant) => !isOwn(grant))));
  return decision.victims.length;
}

function checkVictim(model: Model, asking: string, victim: string): LockGrant[] {
  const members = model.cycleMembers(asking);
  assert.ok(members.includes(victim), `${victim} is in no deadlock with ${asking}`);
  const eligible = members.filter((member) => !model.committing.has(member));
  if (eligible.length > 0 && model.isSimpleCycle(members)) assert.equal(victim, youngest(eligible));
  if (eligible.length === 0) assert.equal(victim, asking);
  model.doomed.add(victim);
  model.takeBack(victim);
  return model.settle();
}

/** Answers how many deadlocks were broken; throws at the first step after which table and model differ. */
export function playLocks(steps: readonly LockStep[]): number {
  const table = new LockTable();
  const model = new Model();
  let now = 0;
  let deadlocks = 0;
  for (const step of steps) {
    switch (step.kind) {
      case "request":
      case "range":
        deadlocks += playRequest(table, model, now, step);
        break;
      case "release":
        model.end(step.id);
        assert.deepEqual(sorted(table.release(step.id)), sorted(model.settle()));
        break;
      case "cancel":
        model.takeBack(step.id);
        assert.deepEqual(sorted(table.cancel(step.id)), sorted(model.settle()));
        break;
      case "committing":
        if (model.doomed.has(step.id) || table.stats().transactions === 0) break;
        if (!model.holders.some((holder) => holder.id === step.id)) break;
        table.setCommitting(step.id);
        model.committing.add(step.id);
        break;
      case "tick": {
        now += step.passMs;
        const due = model.queue.filter((waiting) => waiting.deadlineMs <= now);
        model.queue = model.queue.filter((waiting) => waiting.deadlineMs > now);
        const { expired, granted } = table.tick(now);
        assert.deepEqual(
          expired.map((one) => `${one.transactionId} ${one.key}`).toSorted(),
          due.map((one) => `${one.id} ${one.key}`).toSorted(),
        );
        assert.deepEqual(sorted(granted), sorted(model.settle()));
        const next = model.queue.map((waiting) => waiting.deadlineMs);
        assert.equal(table.nextDeadlineMs(), next.length === 0 ? undefined : Math.min(...next));
        break;
      }
    }
    table.audit();
    compareStates(table, model);
  }
  return deadlocks;
}

function compareStates(table: LockTable, model: Model): void {
  const { held, waiting } = table.stats();
  assert.deepEqual([held, waiting], [model.holders.length, model.queue.length]);
  for (const holder of model.holders) assert.ok(table.holds(holder.id, holder.key, holder.mode));
}

/** One of a seed: the table is equal to the model after each step, and its invariants hold. */
export function runLockHistory(seed: number): { readonly steps: number; readonly deadlocks: number } {
  const below = dice(seed);
  const steps = Array.from({ length: 1 + below(STEPS_MAX) }, () => drawStep(below));
  return { steps: steps.length, deadlocks: playLocks(steps) };
}

function drawStep(below: (limit: number) => number): LockStep {
  const pick = <Choice>(...choices: readonly Choice[]): Choice => choices[below(choices.length)]!;
  const id = pick(...TRANSACTIONS);
  const weight = below(20);
  if (weight < 12)
    return {
      kind: "request",
      id,
      key: pick(...LOCK_KEYS),
      mode: pick<LockMode>("shared", "exclusive", "intent"),
      waitMs: pick(0, 30, 100, 200),
    };
  if (weight < 15) return { kind: "range", id, waitMs: pick(30, 200) };
  if (weight < 17) return { kind: "release", id };
  if (weight === 17) return { kind: "cancel", id };
  return weight === 18 ? { kind: "committing", id } : { kind: "tick", passMs: below(41) };
}
