// Transactions of a load through the client, each tried once, and what a checker may conclude from how they ended.
import type { ConcordClient, Entity, Transaction } from "@concord/client";

/** Longer than a killed process needs to serve again: a commit whose answer is lost is resolved meanwhile. */
const DEADLINE_MS = 15_000;
/** Final reads: the processes have just started. */
export const JUDGE_DEADLINE_MS = 60_000;

/** `fail`: certainly not applied; `info`: unknown. */
export type Outcome = "ok" | "fail" | "info";

/** What is wrong, as the tally counts it. */
export interface Finding {
  readonly kind: "lost" | "dirty" | "duplicated";
  readonly text: string;
}

export class Transactions {
  readonly db: ConcordClient;
  acknowledged = 0;
  /** Commits that failed and may be applied. */
  unanswered = 0;
  /** Errors that no kill explains. */
  readonly findings: Finding[] = [];
  readonly #commits = new Set<{ readonly sinceMs: number }>();

  constructor(db: ConcordClient) {
    this.db = db;
  }

  /** Commits on their way for at least so long. */
  underWay(forMs: number): number {
    const beforeMs = performance.now() - forMs;
    return [...this.#commits].filter(({ sinceMs }) => sinceMs <= beforeMs).length;
  }

  async run(entity: Entity, mode: "exclusive" | "shared", work: (txn: Transaction) => Promise<void>): Promise<Outcome> {
    const txn = await this.db.start(entity, { mode, deadlineMs: DEADLINE_MS }).catch((thrown: unknown) => this.#note(thrown));
    if (txn === undefined) return "fail";
    try {
      await work(txn);
    } catch (thrown) {
      this.#note(thrown);
      void txn.rollback();
      return "fail";
    }
    const commit = { sinceMs: performance.now() };
    this.#commits.add(commit);
    try {
      await txn.commit();
      this.acknowledged += 1;
      return "ok";
    } catch (thrown) {
      this.#note(thrown);
      if ((thrown as { applied?: unknown }).applied === "no") return "fail";
      this.unanswered += 1;
      return "info";
    } finally {
      this.#commits.delete(commit);
    }
  }

  #note(thrown: unknown): undefined {
    const { name, code } = thrown as { name?: unknown; code?: unknown };
    const isExplained = name === "ConcordClientError" && code !== "INTERNAL" && code !== "CORRUPT_DATA";
    if (!isExplained) this.findings.push({ kind: "dirty", text: thrown instanceof Error ? thrown.stack! : String(thrown) });
  }
}
