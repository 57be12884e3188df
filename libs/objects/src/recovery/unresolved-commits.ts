import { assert, backoff, toConcordError, type Clock, type Log, type Metrics } from "@concord/runtime";
import type { UnresolvedCommit, UnresolvedCommits } from "../upload-journal.ts";
import { RESOLVE_BACKOFF } from "./limits.ts";

export interface ResolverOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Resolves unresolved commits after their requests ended (OGD2): each is tried until it is decided, with growing pauses. What is still here when
 * the process ends keeps its names unresolved, so recovery decides it.
 */
export class CommitResolver implements UnresolvedCommits {
  readonly #options: ResolverOptions;
  readonly #commits = new Set<UnresolvedCommit>();
  readonly #running = new Set<Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#commits.size;
  }

  /** Begins at once. */
  add(commit: UnresolvedCommit): void {
    assert(!this.#commits.has(commit), "I2: a commit is unresolved once");
    this.#commits.add(commit);
    this.#count();
    this.#options.log.warn("a commit is unresolved", { bucket: commit.bucket, key: commit.key, blobs: commit.oids.length });
    const running = this.#resolve(commit);
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }

  /** Tries each once more, now; how many are still unresolved. */
  async resolveNow(): Promise<number> {
    for (const commit of this.#commits) await this.#attempt(commit);
    return this.#commits.size;
  }

  /** Resolves when no attempt is running. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#running);
  }

  async #resolve(commit: UnresolvedCommit): Promise<void> {
    const retry = backoff(this.#options.clock, RESOLVE_BACKOFF, this.#stopping.signal);
    while (this.#commits.has(commit) && (await retry.pause())) await this.#attempt(commit);
  }

  readonly #attempts = new Map<UnresolvedCommit, Promise<void>>();

  /** One at a time for each commit: its names are resolved once. */
  #attempt(commit: UnresolvedCommit): Promise<void> {
    const attempt = this.#attempts.get(commit) ?? this.#tryOnce(commit).finally(() => this.#attempts.delete(commit));
    this.#attempts.set(commit, attempt);
    return attempt;
  }

  async #tryOnce(commit: UnresolvedCommit): Promise<void> {
    if (!this.#commits.has(commit)) return;
    try {
      if (await commit.attempt()) {
        const wasUnresolved = this.#commits.delete(commit);
        assert(wasUnresolved, "I2: a commit is decided once");
      }
      this.#count();
    } catch (thrown) {
      this.#options.log.warn("a commit is still unresolved", { key: commit.key, reason: toConcordError(thrown).message });
    }
  }

  #count(): void {
    this.#options.metrics.gauge("objects_commits_in_doubt", this.#commits.size);
  }
}
