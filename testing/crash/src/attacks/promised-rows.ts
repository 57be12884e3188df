// Writers of rows through single nodes, and what each replica must have of what they were answered.
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient, Write } from "@concord/client";
import type { RowKey } from "@concord/ports";
import type { Replica } from "./replicas.ts";

const PLAIN = "posted";
const TRANSACTIONAL = "settled";
const TABLES = [
  `CREATE TABLE ${PLAIN} (owner text, id int, body text, PRIMARY KEY (owner, id)) WITH kind = 'plain'`,
  `CREATE TABLE ${TRANSACTIONAL} (id int PRIMARY KEY, body text)`,
];
const PARTS = ["ann", "bob", "cid"];
const FILLER = "x".repeat(600);
/** At least what one batch writes. */
export const BATCH_BYTES = PARTS.length * FILLER.length;
const OLD = 300;
const BATCH_WRITERS = 4;
const RETRY_MS = 25;
const KINDS = ["batches", "plain writes", "transactions"] as const;

export type Kind = (typeof KINDS)[number];

/** Something that holds for good: it was acknowledged, or a change of it was refused. */
interface Fact {
  readonly key: RowKey;
  /** Undefined: there is no row. */
  readonly body: string | undefined;
}

interface Refusal {
  readonly code?: string;
  readonly applied?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Facts that a replica has and lacks. */
export interface Compared {
  readonly rows: number;
  readonly missing: number;
  /** Rows with another body. */
  readonly other: number;
  /** Rows that were deleted, or refused. */
  readonly undead: number;
}

const plainKey = (owner: string, id: number): RowKey => {
  return { table: PLAIN, partition: [{ kind: "text", value: owner }], clustering: [{ kind: "int", value: id }] };
};
const settledKey = (id: number): RowKey => ({ table: TRANSACTIONAL, partition: [{ kind: "int", value: id }], clustering: [] });
const nameOf = ({ table, partition, clustering }: RowKey): string => JSON.stringify([table, ...partition, ...clustering].map(textOf));
const textOf = (part: RowKey["partition"][number] | string): string => (typeof part === "string" ? part : String(part.value));

/** Each client asks one node alone. */
export class PromisedRows {
  readonly #clients: readonly ConcordClient[];
  readonly #facts = new Map<string, Fact>();
  readonly #acknowledged: Record<Kind, number> = { batches: 0, "plain writes": 0, transactions: 0 };
  /** Batches by node. */
  readonly #batches: number[];
  readonly #refusals = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #stoppingTransactions = new AbortController();
  /** Answers that must not be. */
  readonly wrong: string[] = [];
  #ended: Promise<unknown> = Promise.resolve();
  #transactionsEnded: Promise<unknown> = Promise.resolve();
  #next = OLD;
  #old = 0;

  constructor(clients: readonly ConcordClient[]) {
    this.#clients = clients;
    this.#batches = clients.map(() => 0);
  }

  /** Makes the tables, and rows that are changed and deleted later. */
  async prepare(): Promise<void> {
    const [db] = this.#clients;
    await db!.createTables(TABLES);
    for (let id = 0; id < OLD; id += 1) {
      await db!.insert(PLAIN, { owner: "old", id, body: "old" });
      this.#hold({ key: plainKey("old", id), body: "old" });
    }
  }

  start(): void {
    const { signal } = this.#stopping;
    const writers = this.#clients.flatMap((db, node) => [
      ...Array.from({ length: BATCH_WRITERS }, () => repeat(signal, () => this.#batch(db, node))),
      repeat(signal, () => this.#plain(db)),
    ]);
    this.#ended = Promise.all(writers);
    const transactions = this.#clients.map((db) => repeat(this.#stoppingTransactions.signal, () => this.#transaction(db)));
    this.#transactionsEnded = Promise.all(transactions);
  }

  /** No append to a group's log comes from here any more: a node that is back gets what it lacks without one. */
  async stopTransactions(): Promise<void> {
    this.#stoppingTransactions.abort();
    await this.#transactionsEnded;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#ended, this.stopTransactions()]);
  }

  /** Acknowledged batches of the node with the fewest. */
  get fewestBatches(): number {
    return Math.min(...this.#batches);
  }

  get text(): string {
    const refusals = [...this.#refusals].map(([what, count]) => `${count} ${what}`);
    return `${KINDS.map((kind) => `${this.#acknowledged[kind]} ${kind}`).join(", ")} acknowledged; ${refusals.join(", ") || "nothing"} refused`;
  }

  /** Facts that hold now, whatever is under way. */
  facts(): readonly Fact[] {
    return [...this.#facts.values()];
  }

  /** Plain rows alone: those of transactions follow by the log. */
  plainFacts(): readonly Fact[] {
    return this.facts().filter(({ key }) => key.table === PLAIN);
  }

  /** Three new rows in partitions of their own; while there are old rows, one of them is changed and another one deleted. */
  async #batch(db: ConcordClient, node: number): Promise<void> {
    const id = this.#next++;
    const body = `${id} ${FILLER}`;
    const facts: Fact[] = PARTS.map((owner) => ({ key: plainKey(owner, id), body }));
    const writes: Write[] = PARTS.map((owner) => ({ insert: PLAIN, row: { owner, id, body } }));
    const [changed, deleted] = [this.#old++, this.#old++];
    if (deleted < OLD) {
      facts.push({ key: plainKey("old", changed), body }, { key: plainKey("old", deleted), body: undefined });
      writes.push({ insert: PLAIN, row: { owner: "old", id: changed, body } }, { delete: PLAIN, key: { owner: "old", id: deleted } });
    }
    if (await this.#write("batches", facts, () => db.batch(writes))) this.#batches[node]! += 1;
  }

  async #plain(db: ConcordClient): Promise<void> {
    const id = this.#next++;
    const row = { owner: "dan", id, body: `${id} ${FILLER}` };
    await this.#write("plain writes", [{ key: plainKey(row.owner, id), body: row.body }], () => db.insert(PLAIN, row));
  }

  async #transaction(db: ConcordClient): Promise<void> {
    const id = this.#next++;
    const row = { id, body: `${id}` };
    const run = (): Promise<void> =>
      db.runTransaction({ table: TRANSACTIONAL, key: { id } }, async (txn) => txn.insert(TRANSACTIONAL, row));
    await this.#write("transactions", [{ key: settledKey(id), body: row.body }], run);
  }

  /** Whether it was acknowledged. What was not refused for good may be so or so. */
  async #write(kind: Kind, facts: readonly Fact[], run: () => Promise<unknown>): Promise<boolean> {
    const before = facts.map(({ key }) => this.#facts.get(nameOf(key)) ?? { key, body: undefined });
    for (const { key } of facts) this.#facts.delete(nameOf(key));
    try {
      await run();
      facts.forEach((fact) => this.#hold(fact));
      this.#acknowledged[kind] += 1;
      return true;
    } catch (thrown) {
      const { code = String(thrown), applied = "unknown", metadata } = thrown as Refusal;
      if (applied === "no") before.forEach((fact) => this.#hold(fact));
      // The client adds what it knows of a try before; what the node knows of its own is in the outcome.
      if (code === "OVERLOADED" && metadata?.["outcome"] !== "NOT_LOGGED")
        this.wrong.push(`${kind}: ${String(thrown)} ${JSON.stringify(metadata)}`);
      const what = `${kind} ${code}, applied ${applied}`;
      this.#refusals.set(what, (this.#refusals.get(what) ?? 0) + 1);
      await sleep(RETRY_MS);
      return false;
    }
  }

  #hold(fact: Fact): void {
    this.#facts.set(nameOf(fact.key), fact);
  }
}

async function repeat(signal: AbortSignal, once: () => Promise<void>): Promise<void> {
  while (!signal.aborted) await once();
}

/** The facts compared with what the replica alone has. */
export async function compare(replica: Replica, facts: readonly Fact[]): Promise<Compared> {
  const rows = await replica.read(facts.map(({ key }) => key));
  const compared = { rows: facts.length, missing: 0, other: 0, undead: 0 };
  for (const [at, { body }] of facts.entries()) {
    const row = rows[at];
    if (row === undefined) compared.missing += body === undefined ? 0 : 1;
    else if (body === undefined) compared.undead += 1;
    else if (row.columns.get("body")?.value !== body) compared.other += 1;
  }
  return compared;
}
