import { checkRegister, type RegisterEffect, type RegisterOperation } from "@concord/checkers";
import type { World } from "@concord/simulation";

/** Histories of registers, one per key, in the form that the checker takes. */
export class RegisterHistory {
  readonly outcomes = { ok: 0, fail: 0, info: 0 };
  readonly #world: World;
  /** Names what is judged in violations and counters. */
  readonly #subject: string;
  readonly #operations = new Map<string, RegisterOperation[]>();

  constructor(world: World, subject: string) {
    this.#world = world;
    this.#subject = subject;
  }

  done(key: string, name: string, startedAt: number, effect: RegisterEffect): void {
    this.outcomes.ok += 1;
    this.#add(key, { name, startedAt, endedAt: this.#world.nowMs, ...effect });
  }

  /** It may have happened, or happen later. */
  unknown(key: string, name: string, startedAt: number, effect: RegisterEffect): void {
    this.outcomes.info += 1;
    this.#add(key, { name, startedAt, endedAt: Number.POSITIVE_INFINITY, ...effect });
  }

  /** It certainly changed nothing. */
  failed(): void {
    this.outcomes.fail += 1;
  }

  judge(): void {
    for (const [key, operations] of this.#operations) {
      const verdict = checkRegister(operations);
      if (verdict.kind === "undecided") this.#world.count(`${this.#subject}:register-undecided`);
      if (verdict.kind !== "anomaly") continue;
      const possible = verdict.possible.join(", ");
      this.#world.violation(`${this.#subject} register`, `${key}: ${verdict.operation} found ${verdict.found}; possible: ${possible}`);
    }
  }

  #add(key: string, operation: RegisterOperation): void {
    const known = this.#operations.get(key);
    if (known === undefined) this.#operations.set(key, [operation]);
    else known.push(operation);
  }
}
