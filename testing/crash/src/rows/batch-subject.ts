// Logged batches over several partitions while what they stand on fails, and what must be there of them afterwards (LB1, LB11).
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient } from "@concord/client";
import type { Constellation } from "@concord/constellation";
import { newTally, type Subject } from "../subject.ts";
import type { Clients } from "./row-subject.ts";

const TABLE = "CREATE TABLE crash_postings (account bigint, id uuid, part int, PRIMARY KEY (account, id)) WITH kind = 'plain'";
const WRITERS = 8;
const PARTS = 5;
const ACCOUNTS = 50;
const RETRY_MS = 25;
const PER_READ = 100;
/** An answer that was lost may still be on its way: replay completes it within the grace time. */
const SETTLED_WITHIN_MS = 60_000;
const LOOK_AGAIN_MS = 500;
const NOTES_MAX = 20;

interface Batch {
  readonly id: string;
  readonly accounts: readonly bigint[];
  state: "under way" | "acknowledged" | "refused" | "unknown";
}

export class BatchSubject implements Subject {
  readonly service = "storage-proxy";
  readonly nodes: readonly string[];
  readonly beside = [];
  /** Of batches it is not used with failpoints. */
  readonly points: readonly string[] = [];
  readonly reachMs = 0;
  readonly reachOperations = 0;
  readonly worksThroughRestarts = true;
  readonly clockStepsMs = [];
  readonly tally = newTally();
  readonly slowReaders = undefined;
  readonly notes: string[] = [];
  readonly #connect: () => Promise<ConcordClient>;
  readonly #batches: Batch[] = [];
  #db: ConcordClient | undefined;

  constructor(constellation: Pick<Constellation, "nodes" | "coordinators">, { client }: Clients) {
    this.nodes = constellation.nodes.filter(({ service }) => service === this.service).map(({ name }) => name);
    this.#connect = () => client.connect({ coordinators: constellation.coordinators, timeoutMs: 30_000 });
  }

  hitOf(): number {
    return 1;
  }

  async prepare(): Promise<void> {
    this.#db = await this.#connect();
    await this.#db.createTables([TABLE]);
  }

  async work(signal: AbortSignal): Promise<void> {
    await Promise.all(Array.from({ length: WRITERS }, () => this.#write(signal)));
  }

  /** Batches that failed and may be applied. */
  get unanswered(): number {
    return this.#batches.filter(({ state }) => state === "unknown").length;
  }

  died(): void {
    this.tally.indeterminate += this.#batches.filter(({ state }) => state === "under way").length;
  }

  async judge(): Promise<void> {
    const endsAt = performance.now() + SETTLED_WITHIN_MS;
    let torn = await this.#torn();
    while (torn.length > 0 && performance.now() < endsAt) {
      await sleep(LOOK_AGAIN_MS);
      torn = await this.#torn();
    }
    for (const { kind } of torn) this.tally[kind] += 1;
    this.notes.push(...torn.slice(0, NOTES_MAX).map(({ text }) => text));
  }

  close(): void {
    this.#db?.close();
  }

  async #write(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const first = this.#batches.length;
      const accounts = Array.from({ length: PARTS }, (_, part) => BigInt((first * 3 + part * 7) % ACCOUNTS));
      const batch: Batch = { id: randomUUID(), accounts, state: "under way" };
      this.#batches.push(batch);
      try {
        await this.#db!.batch(accounts.map((account, part) => ({ insert: "crash_postings", row: { account, id: batch.id, part } })));
        batch.state = "acknowledged";
        this.tally.acknowledged += 1;
      } catch (error) {
        batch.state = (error as { readonly applied?: string }).applied === "no" ? "refused" : "unknown";
        await sleep(RETRY_MS);
      }
    }
  }

  /** Batches of which a part is missing: none of one that was acknowledged, all or none of any other. */
  async #torn(): Promise<readonly { readonly kind: "lost" | "dirty"; readonly text: string }[]> {
    const torn: { kind: "lost" | "dirty"; text: string }[] = [];
    for (let at = 0; at < this.#batches.length; at += PER_READ) {
      const some = this.#batches.slice(at, at + PER_READ);
      const keys = some.flatMap(({ id, accounts }) => accounts.map((account) => ({ account, id })));
      const rows = await this.#db!.readMany("crash_postings", keys);
      some.forEach(({ id, state }, index) => {
        const found = rows.slice(index * PARTS, (index + 1) * PARTS).filter((row) => row !== undefined).length;
        const text = `batch ${id} (${state}) has ${found} of ${PARTS} rows`;
        if (state === "acknowledged" && found < PARTS) torn.push({ kind: "lost", text });
        else if (state === "refused" && found > 0) torn.push({ kind: "dirty", text });
        else if (found > 0 && found < PARTS) torn.push({ kind: "dirty", text });
      });
    }
    return torn;
  }
}
