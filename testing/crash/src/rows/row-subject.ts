// Transactions on processes that are killed again and again, and what the independent checkers must find of them afterwards.
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient } from "@concord/client";
import type { Client, Constellation, Service } from "@concord/constellation";
import { failpointsIn } from "../failpoints.ts";
import { newTally, type Subject } from "../subject.ts";
import { ALBUM_TABLES, AlbumLoad } from "./album-load.ts";
import { LIST_TABLES, ListLoad } from "./list-load.ts";
import { Transactions } from "./transactions.ts";

export const ROW_SERVICES = ["storage-proxy", "txn-coordinator", "concord"] as const;
export type RowService = (typeof ROW_SERVICES)[number];

const HOUR_MS = 3_600_000;
/** Within what clients' ids are allowed to be off, and far beyond. */
const CLOCK_STEPS_MS = [3_000, 6 * HOUR_MS, -3_000, -3 * HOUR_MS];
const PROJECTS: Readonly<Record<RowService, readonly string[]>> = {
  "storage-proxy": ["libs/store", "libs/journal"],
  "txn-coordinator": ["libs/transactions"],
  concord: ["libs/store", "libs/journal", "libs/transactions"],
};
/** First, so that short runs come to them; a takeover has entries to finish only behind a death in a commit. */
const FIRST: readonly string[] = ["txn:after-append", "txn:taking-over", "txn:taken-over", "txn:after-apply"];
/** Of the first start, of failed syncs, or of segments that are larger than a cycle's writes. */
const NOT_ON_THE_WAY = /^(store:(migrating|suspects-.*)|journal:(segment-.*|snapshot-written))$/;
/** Passed once: with the first checkpoint of a life, or by a takeover before it serves. */
const ONCE = /^(store:(intended|rows-written|flushed|checkpointed|trimmed)|txn:(taking-over|taken-over))$/;
/** Passings of a start, and of the load. */
const HITS = [5, 60, 200, 20] as const;
/** A node that was killed just after a checkpoint replays little. */
const REPLAYS = "store:replaying";
const REPLAY_HITS = [1, 4, 2, 16] as const;
/** A checkpoint comes 5 s after the first write of a life. */
const REACH_MS = 9_000;
const LIST_WORKERS = 8;
const ALBUM_WORKERS = 4;
const THINK_MS = 4;
const RETRY_MS = 25;
/** A commit that began so shortly before a death was seen may have begun after it. */
const SEEN_AFTER_MS = 10;
const NOTES_MAX = 20;

export interface Clients {
  readonly client: Pick<Client, "connect">;
  /** Between 0 and 1. */
  readonly random: () => number;
}

export class RowSubject implements Subject {
  readonly service: RowService;
  readonly nodes: readonly string[];
  readonly beside = [];
  readonly points: readonly string[];
  readonly reachMs = REACH_MS;
  readonly reachOperations = 0;
  readonly worksThroughRestarts = true;
  readonly clockStepsMs = CLOCK_STEPS_MS;
  readonly tally = newTally();
  readonly slowReaders = undefined;
  readonly notes: string[] = [];
  readonly #random: () => number;
  readonly #connect: () => Promise<ConcordClient>;
  #db: ConcordClient | undefined;
  #loads: { readonly transactions: Transactions; readonly lists: ListLoad; readonly albums: AlbumLoad } | undefined;

  constructor(service: RowService, constellation: Pick<Constellation, "nodes" | "coordinators">, { client, random }: Clients) {
    this.service = service;
    this.nodes = constellation.nodes.filter((node) => node.service === (service satisfies Service)).map(({ name }) => name);
    const points = failpointsIn(PROJECTS[service]).filter((point) => !NOT_ON_THE_WAY.test(point));
    this.points = [...FIRST.filter((point) => points.includes(point)), ...points.filter((point) => !FIRST.includes(point))];
    this.#random = random;
    this.#connect = () => client.connect({ coordinators: constellation.coordinators, timeoutMs: 30_000 });
  }

  hitOf(point: string, cycle: number): number {
    if (ONCE.test(point)) return 1;
    const hits = point === REPLAYS ? REPLAY_HITS : HITS;
    return hits[(cycle + Math.floor(cycle / this.points.length)) % hits.length]!;
  }

  async prepare(): Promise<void> {
    this.#db = await this.#connect();
    await this.#db.createTables([...LIST_TABLES, ...ALBUM_TABLES]);
    const transactions = new Transactions(this.#db);
    this.#loads = { transactions, lists: new ListLoad(transactions), albums: new AlbumLoad(transactions) };
  }

  async work(signal: AbortSignal): Promise<void> {
    const { lists, albums } = this.#loads!;
    const worker = async (load: ListLoad | AlbumLoad): Promise<void> => {
      while (!signal.aborted) {
        const isDone = await load.once(this.#random);
        await sleep(isDone ? this.#random() * THINK_MS : RETRY_MS);
      }
    };
    await Promise.all([
      ...Array.from({ length: LIST_WORKERS }, () => worker(lists)),
      ...Array.from({ length: ALBUM_WORKERS }, () => worker(albums)),
    ]);
    this.tally.acknowledged = this.acknowledged;
  }

  /** Commits that were answered. */
  get acknowledged(): number {
    return this.#loads?.transactions.acknowledged ?? 0;
  }

  /** Commits that failed and may be applied. */
  get unanswered(): number {
    return this.#loads?.transactions.unanswered ?? 0;
  }

  died(): void {
    this.tally.indeterminate += this.#loads!.transactions.underWay(SEEN_AFTER_MS);
    this.tally.acknowledged = this.#loads!.transactions.acknowledged;
  }

  async judge(): Promise<void> {
    const { transactions, lists, albums } = this.#loads!;
    const findings = [...transactions.findings.splice(0), ...(await lists.judge()), ...(await albums.judge())];
    for (const { kind } of findings) this.tally[kind] += 1;
    this.notes.push(...findings.slice(0, NOTES_MAX).map(({ kind, text }) => `${kind}: ${text}`));
  }

  close(): void {
    this.#db?.close();
  }
}
