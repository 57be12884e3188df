import type { ConcordClient, Transaction } from "@concord/client";
import { sleep, type Environment } from "@concord/runtime";
import type { Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";

export const DOCUMENTS_TABLES = [
  "CREATE TABLE documents (document bigint, half bigint, revision int, body text, PRIMARY KEY (document, half))",
];
const DOCUMENTS = 4;
/** Both halves of a document are written in one commit: above what counts as large. */
const HALF_CHARACTERS = 24 * 1024;
const HALVES = [0n, 1n];

interface Half {
  readonly revision: number;
  readonly body: string;
}

/** What is known of one document: a revision per commit. */
interface DocumentRun {
  readonly document: bigint;
  committed: number;
  indeterminate: number;
}

/** Large commits of several documents at the same time, each a document of two halves with one revision more. */
export class Documents {
  readonly #cluster: Cluster;
  readonly #runs: readonly DocumentRun[];
  isOver = false;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#runs = Array.from({ length: DOCUMENTS }, (_, at) => ({ document: BigInt(at), committed: 0, indeterminate: 0 }));
  }

  async write(db: ConcordClient, env: Environment): Promise<void> {
    await Promise.all(this.#runs.map((run) => this.#writeOne(run, db, env)));
  }

  async #writeOne(run: DocumentRun, db: ConcordClient, env: Environment): Promise<void> {
    const { world, swarm } = this.#cluster;
    while (!this.isOver) {
      world.callsInFlight += 1;
      await this.#revise(run, db, swarm.timeoutMs).catch((thrown: unknown) => {
        reportBug(world, `document ${run.document}`, thrown);
        if (outcomeOf(thrown) === "info") run.indeterminate += 1;
      });
      world.callsInFlight -= 1;
      await sleep(env.clock, env.random.below(1 + swarm.thinkMs));
    }
  }

  async #revise(run: DocumentRun, db: ConcordClient, deadlineMs: number): Promise<void> {
    const work = async (txn: Transaction): Promise<void> => {
      const revision = await this.#read(run, txn);
      for (const half of HALVES) {
        const row = { document: run.document, half, revision: revision + 1, body: bodyOf(revision + 1) };
        if (revision === 0) txn.insert("documents", row);
        else txn.update("documents", row);
      }
    };
    await db.runTransaction({ table: "documents", key: { document: run.document, half: 0n } }, work, { deadlineMs });
    run.committed += 1;
  }

  /** The revision that both halves have; 0 before the first. A violation when they differ, or a body is not that of its revision. */
  async #read(run: DocumentRun, txn: Transaction): Promise<number> {
    const keys = HALVES.map((half) => ({ document: run.document, half }));
    const halves = (await txn.lockMany("documents", keys, { mode: "exclusive" })) as (Half | undefined)[];
    const revisions = halves.map((half) => half?.revision ?? 0);
    const isWhole = halves.every((half) => half === undefined || half.body === bodyOf(half.revision));
    if (revisions[0] !== revisions[1] || !isWhole)
      this.#cluster.world.violation(
        "document torn",
        `document ${run.document}: revisions ${revisions.join(" and ")}, bodies whole: ${isWhole}`,
      );
    return revisions[0]!;
  }

  /** All is quiet: each document takes one more commit, and has as many revisions as commits, give or take the indeterminate ones. */
  async judge(db: ConcordClient, deadlineMs: number): Promise<void> {
    for (const run of this.#runs) {
      await this.#revise(run, db, deadlineMs);
      const read = (txn: Transaction): Promise<number> => this.#read(run, txn);
      const revision = await db.runTransaction({ table: "documents", key: { document: run.document, half: 0n } }, read, { deadlineMs });
      const { document, committed, indeterminate } = run;
      if (revision < committed || revision > committed + indeterminate)
        this.#cluster.world.violation(
          "document revision",
          `document ${document}: ${revision}, of ${committed} commits and ${indeterminate} indeterminate`,
        );
    }
  }
}

function bodyOf(revision: number): string {
  return `revision ${revision}; `.padEnd(HALF_CHARACTERS, "concord ");
}
