// Compare-and-set by conditional Executes (UN20): counters whose every step is one call, and copies of calls that come late.
import { TransactionService, type ExecuteRequestInit, type ExecuteResponse } from "@concord/protos-txn";
import type { ConcordClient } from "@concord/client";
import { callUnary } from "@concord/rpc";
import { ERRORS, newTimeIdBytes, sleep, toConcordError, type Channel, type Environment } from "@concord/runtime";
import type { SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import { reportBug } from "../outcome.ts";

export const COUNTERS_TABLE = "CREATE TABLE counters (id bigint PRIMARY KEY, value int, steps text)";
/** Share of the seeds that count. */
export const COUNTERS = 0.3;

const CLIENTS_MAX = 3;
const COUNTERS_LIVE = 2;
/** A counter with so many steps makes room for the next: rows stay small enough to come back with a refusal. */
const STEPS_MAX = 40;
/** Share of the calls that compare and write nothing, and of those that are sent once more after their answer. */
const ONLY_CONDITIONS = 0.1;
const COPIES = 0.5;
/** Other clients change the counter before a copy arrives. */
const COPY_PAUSE_MS = 400;
const CALL_MS = 1_500;
const RETRY_MS = 60;
const TRIES_MAX = 12;

interface Seen {
  readonly value: number;
  readonly steps: string;
}

type Answer =
  | { readonly kind: "applied"; readonly seq: bigint }
  | { readonly kind: "refused"; readonly seen: Seen | undefined }
  /** No try was answered: it may have been applied. `isNever`: an answer that nothing was and will be. */
  | { readonly kind: "unknown"; readonly isNever: boolean };

/** Each step adds its number to the row if the counter is as its client saw it: the row has each applied step once, and no refused one. */
export class Counters {
  readonly #cluster: Cluster;
  /** Keys are counter and step. */
  readonly #steps = new Map<bigint, Map<number, Answer["kind"]>>();
  #step = 0;
  isOver = false;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  async count(env: Environment, at: number): Promise<void> {
    if (at >= CLIENTS_MAX) return;
    const random = this.#cluster.world.random(`counters:${at}`);
    const channels = this.#cluster.coordinatorAddresses.map((address) => env.transport.connect(address));
    const seen = new Map<bigint, Seen | undefined>();
    let first = 0n;
    while (!this.isOver) {
      const id = first + BigInt(random.below(COUNTERS_LIVE));
      if ((seen.get(id)?.value ?? 0) >= STEPS_MAX) first += 1n;
      else seen.set(id, await this.#one(env, channels, random, id, seen.get(id)));
      await sleep(env.clock, random.below(1 + this.#cluster.swarm.thinkMs));
    }
  }

  /** One step, or one look by conditions alone; returns how the counter is as far as the client knows. */
  async #one(
    env: Environment,
    channels: readonly Channel[],
    random: SeededRandom,
    id: bigint,
    seen: Seen | undefined,
  ): Promise<Seen | undefined> {
    const { world } = this.#cluster;
    this.#step += 1;
    const step = this.#step;
    const next: Seen = { value: (seen?.value ?? 0) + 1, steps: seen === undefined ? String(step) : `${seen.steps} ${step}` };
    const isWritten = !random.chance(ONLY_CONDITIONS);
    const request: ExecuteRequestInit = {
      transactionId: newTimeIdBytes(env.clock, env.random),
      conditional: conditionalOf(id, seen, isWritten ? next : undefined),
    };
    const answer = await this.#send(env, channels, random, request, TRIES_MAX);
    if (isWritten) this.#stepsOf(id).set(step, answer.kind === "unknown" && answer.isNever ? "refused" : answer.kind);
    world.count(`sim:op-counter-${answer.kind}`);
    if (answer.kind !== "unknown" && random.chance(COPIES)) void this.#copyLater(env, channels, random, request, answer);
    if (answer.kind === "applied") return isWritten ? next : seen;
    return answer.kind === "refused" ? answer.seen : seen;
  }

  /** The same call once more, as a network may deliver it late: its answer is the first one, or none. */
  async #copyLater(
    env: Environment,
    channels: readonly Channel[],
    random: SeededRandom,
    request: ExecuteRequestInit,
    first: Answer,
  ): Promise<void> {
    await sleep(env.clock, random.below(COPY_PAUSE_MS));
    const copy = await this.#send(env, channels, random, request, channels.length);
    this.#cluster.world.count(`sim:op-counter-copy-${copy.kind}`);
    if (copy.kind === "unknown" || textOf(copy) === textOf(first)) return;
    this.#cluster.world.violation("copy of an Execute", `first ${textOf(first)}, then ${textOf(copy)}`);
  }

  async #send(
    env: Environment,
    channels: readonly Channel[],
    random: SeededRandom,
    request: ExecuteRequestInit,
    triesMax: number,
  ): Promise<Answer> {
    const from = random.below(channels.length);
    let isNever = true;
    for (let tries = 0; tries < triesMax; tries += 1) {
      try {
        const channel = channels[(from + tries) % channels.length]!;
        return answerOf(await callUnary(channel, TransactionService.methods.Execute, request, { timeoutMs: CALL_MS }));
      } catch (thrown) {
        reportBug(this.#cluster.world, "counter", thrown);
        const error = toConcordError(thrown);
        isNever &&= error.applied === "no";
        if (!ERRORS[error.code].retryable && error.code !== "NOT_MASTER" && error.applied === "no") break;
      }
      await sleep(env.clock, RETRY_MS);
    }
    return { kind: "unknown", isNever };
  }

  #stepsOf(id: bigint): Map<number, Answer["kind"]> {
    const steps = this.#steps.get(id) ?? new Map<number, Answer["kind"]>();
    this.#steps.set(id, steps);
    return steps;
  }

  /** All is quiet: each counter is as many as it has steps, each of which was applied or has no answer. */
  async judge(db: ConcordClient, deadlineMs: number): Promise<void> {
    const { world } = this.#cluster;
    for (const [id, steps] of this.#steps) {
      const where = { table: "counters", key: { id } };
      const row = await db.runTransaction(where, (txn) => txn.lock<{ value: number; steps: string }>("counters", { id }), { deadlineMs });
      const found = row === undefined ? [] : row.steps.split(" ").map(Number);
      const lost = Array.from(steps)
        .filter(([step, kind]) => kind === "applied" && !found.includes(step))
        .map(([step]) => step);
      const extra = found.filter((step) => steps.get(step) === "refused" || !steps.has(step));
      const isCounted = (row?.value ?? 0) === found.length && new Set(found).size === found.length;
      if (lost.length === 0 && extra.length === 0 && isCounted) continue;
      world.violation(
        "counter",
        `${id} is ${row?.value}, steps ${row?.steps}; applied and lost ${String(lost)}; refused and there ${String(extra)}`,
      );
    }
  }
}

function conditionalOf(id: bigint, seen: Seen | undefined, next: Seen | undefined): ExecuteRequestInit["conditional"] {
  const key = { table: "counters", partition: [{ bigintValue: id }], clustering: [] };
  const value = seen === undefined ? { nullValue: true } : { intValue: seen.value };
  const columns = [{ name: "value", value }];
  const written = (state: Seen): object[] => [
    { name: "value", value: { intValue: state.value } },
    { name: "steps", value: { textValue: state.steps } },
  ];
  return {
    conditions: [{ kind: "CONDITION_KIND_COLUMNS_EQUAL", key, columns }],
    writes: next === undefined ? [] : [{ kind: "WRITE_KIND_INSERT", key, columns: written(next) as never }],
  };
}

function answerOf({ token, failed }: ExecuteResponse): Answer {
  if (token !== null) return { kind: "applied", seq: token.seq };
  const columns = failed[0]?.row?.columns ?? [];
  const cell = (name: string): unknown => columns.find((column) => column.name === name)?.value;
  const value = (cell("value") as { intValue?: number } | undefined)?.intValue;
  const steps = (cell("steps") as { textValue?: string } | undefined)?.textValue;
  return { kind: "refused", seen: value === undefined || steps === undefined ? undefined : { value, steps } };
}

function textOf(answer: Answer): string {
  if (answer.kind === "applied") return `applied at ${answer.seq}`;
  return answer.kind === "refused" ? `refused at ${answer.seen?.value}: ${answer.seen?.steps}` : "unknown";
}
