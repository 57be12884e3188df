// List-append transactions: each reads lists and appends to some; judged is whether one order of all explains what every one has read.
import { checkListAppend, type AnomalyKind, type MicroOperation, type Transaction as CheckedTransaction } from "@concord/checkers";
import type { Transaction } from "@concord/client";
import { JUDGE_DEADLINE_MS, type Finding, type Transactions } from "./transactions.ts";

const ENTITIES = 6;
const LIVE_KEYS = 4;
/** After so many appends an entity's next key is used: lists stay short. */
const APPENDS_PER_KEY = 48;
const STEPS_MAX = 3;
/** Of so many transactions one only reads. */
const READER_EVERY = 4;
const KEYS_PER_READ = 64;

export const LIST_TABLES = ["CREATE TABLE lists (entity bigint, k bigint, elements text, PRIMARY KEY (entity, k))"];

interface Step {
  readonly k: bigint;
  readonly appends: boolean;
}

interface ListRow {
  readonly k: bigint;
  readonly elements: string;
}

export class ListLoad {
  readonly #transactions: Transactions;
  readonly #history: CheckedTransaction[] = [];
  readonly #appends: number[] = Array.from({ length: ENTITIES }, () => 0);
  #elements = 0;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  async once(random: () => number): Promise<boolean> {
    const entity = Math.floor(random() * ENTITIES);
    const plan = this.#draw(entity, random);
    const mode = plan[0]!.appends ? "exclusive" : "shared";
    const startedAt = performance.now();
    const operations: MicroOperation[] = [];
    const where = { table: "lists", key: { entity: BigInt(entity), k: plan[0]!.k } };
    const outcome = await this.#transactions.run(where, mode, async (txn) => {
      for (const step of plan) await this.#step(txn, entity, step, operations);
    });
    const name = `t${this.#history.length}`;
    if (operations.length > 0) this.#history.push({ name, outcome, startedAt, endedAt: performance.now(), operations });
    return outcome === "ok";
  }

  async judge(): Promise<readonly Finding[]> {
    for (const [entity, appends] of this.#appends.entries()) {
      const keys = Math.floor(appends / APPENDS_PER_KEY) + LIVE_KEYS;
      for (let k = 0; k < keys; k += KEYS_PER_READ) await this.#read(entity, k, Math.min(keys, k + KEYS_PER_READ));
    }
    const { anomalies } = checkListAppend(this.#history);
    return anomalies.map(({ kind, explanation }) => ({ kind: findingOf(kind), text: `list-append ${kind}: ${explanation.join("; ")}` }));
  }

  #draw(entity: number, random: () => number): Step[] {
    const base = Math.floor(this.#appends[entity]! / APPENDS_PER_KEY);
    const isReader = random() * READER_EVERY < 1;
    return Array.from({ length: 1 + Math.floor(random() * STEPS_MAX) }, () => ({
      k: BigInt(base + Math.floor(random() * LIVE_KEYS)),
      appends: !isReader && random() < 0.5,
    }));
  }

  async #step(txn: Transaction, entity: number, { k, appends }: Step, operations: MicroOperation[]): Promise<void> {
    const [id, key] = [{ entity: BigInt(entity), k }, `${entity}/${k}`];
    const row = await txn.lock<ListRow>("lists", id, { mode: appends ? "exclusive" : "shared" });
    operations.push({ kind: "read", key, elements: elementsOf(row) });
    if (!appends) return;
    this.#elements += 1;
    this.#appends[entity]! += 1;
    operations.push({ kind: "append", key, element: this.#elements });
    const elements = row === undefined ? String(this.#elements) : `${row.elements} ${this.#elements}`;
    if (row === undefined) txn.insert("lists", { ...id, elements });
    else txn.update("lists", { ...id, elements });
  }

  async #read(entity: number, from: number, to: number): Promise<void> {
    const keys = Array.from({ length: to - from }, (_, at) => ({ entity: BigInt(entity), k: BigInt(from + at) }));
    const startedAt = performance.now();
    const options = { deadlineMs: JUDGE_DEADLINE_MS, mode: "shared" as const };
    const rows = await this.#transactions.db.runTransaction(
      { table: "lists", key: keys[0]! },
      (txn) => txn.lockMany<ListRow>("lists", keys, { mode: "shared" }),
      options,
    );
    const operations = rows.map((row, at) => ({ kind: "read" as const, key: `${entity}/${from + at}`, elements: elementsOf(row) }));
    this.#history.push({ name: `final ${entity}/${from}`, outcome: "ok", startedAt, endedAt: performance.now(), operations });
  }
}

function elementsOf(row: ListRow | undefined): number[] {
  return row === undefined ? [] : row.elements.split(" ").map(Number);
}

/** An acknowledged append that a later read misses closes a cycle through real time. */
function findingOf(kind: AnomalyKind): Finding["kind"] {
  if (kind === "duplicate-elements") return "duplicated";
  return kind === "lost-update" || kind.endsWith("-realtime") ? "lost" : "dirty";
}
