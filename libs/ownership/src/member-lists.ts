import type { ListedMembership } from "@concord/failure-detection";
import { byPlace, type ListedMember, type RecordedList } from "@concord/ownership";
import type { RowStore } from "@concord/ports";
import { ConcordError, sleep, toConcordError, type Clock, type Log } from "@concord/runtime";
import { LIST_AWAITED_LOG_EVERY_MS, LIST_AWAITED_POLL_MS, LIST_READ_EVERY_MS, LIST_TIMEOUT_MS, POLL_MS } from "../limits.ts";
import { readStoredList } from "./stored-list.ts";

export interface CoordinatorListsOptions {
  /** Version 0. */
  readonly configured: RecordedList;
  readonly nodeName: string;
  readonly rows: RowStore;
  readonly clock: Clock;
  readonly log: Log;
  /** undefined: the configured list never changes. */
  readonly membership: ListedMembership | undefined;
  /** This coordinator is not in the list any more, or counts by another cluster's: the process must end. */
  readonly onFailed: (cause: ConcordError) => void;
}

/** The list of coordinators as this one read it last (TX32). The lease hangs on reading it again and again (I5 of the failure-detection README). */
export class CoordinatorLists {
  readonly #options: CoordinatorListsOptions;
  readonly #stopping = new AbortController();
  #current: RecordedList;
  #places: readonly (ListedMember | undefined)[];
  /** It was in the list that was read last. */
  #isIn = false;
  #onChange: () => void = () => undefined;
  #soon = Promise.withResolvers<void>();

  constructor(options: CoordinatorListsOptions) {
    this.#options = options;
    this.#current = options.configured;
    this.#places = byPlace(options.configured);
  }

  /** One configured coordinator, which no other will join. */
  get isAlone(): boolean {
    return this.isFixed && this.#current.members.length === 1;
  }

  /** The coordinators are those of the configuration for as long as they run. */
  get isFixed(): boolean {
    return this.#options.membership === undefined;
  }

  /** Version 0. */
  get configured(): RecordedList {
    return this.#options.configured;
  }

  get current(): RecordedList {
    return this.#current;
  }

  /** The coordinator that verdicts name by this number. */
  at(place: number): ListedMember | undefined {
    return this.#places[place];
  }

  /** Resolves when this coordinator is in the list; goes on reading it until `stop`. Rejects when the signal is aborted before. */
  async start(signal: AbortSignal, onChange: () => void): Promise<void> {
    const { membership, clock, log, nodeName } = this.#options;
    this.#onChange = onChange;
    if (membership === undefined) return;
    let saidAtMs = Number.NEGATIVE_INFINITY;
    while (!this.#isIn) {
      if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
      const isOut = await this.#read(membership);
      if (this.#isIn) break;
      if (isOut && clock.monotonicMs() - saidAtMs >= LIST_AWAITED_LOG_EVERY_MS) {
        saidAtMs = clock.monotonicMs();
        log.warn("not in the list of coordinators: waits until it is added (txn-coordinator coordinators add)", { nodeName });
      }
      await sleep(clock, isOut ? LIST_AWAITED_POLL_MS : POLL_MS, signal);
    }
    void this.#readOn(membership);
  }

  /** A member counts by a newer version. */
  readSoon(): void {
    this.#soon.resolve();
  }

  stop(): void {
    this.#stopping.abort();
    this.#soon.resolve();
  }

  async #readOn(membership: ListedMembership): Promise<void> {
    const { signal } = this.#stopping;
    const { clock } = this.#options;
    while (!signal.aborted) {
      const elapsed = new AbortController();
      await Promise.race([sleep(clock, LIST_READ_EVERY_MS, elapsed.signal), this.#soon.promise]);
      elapsed.abort();
      this.#soon = Promise.withResolvers();
      if (!signal.aborted) await this.#read(membership);
    }
  }

  /** Goes by the list as it is now, if it can be read. True: this coordinator is not in it. */
  async #read(membership: ListedMembership): Promise<boolean> {
    const { rows, configured, nodeName, clock, log, onFailed } = this.#options;
    const readAtMs = clock.monotonicMs();
    let list: RecordedList;
    try {
      list = (await readStoredList(rows, { timeoutMs: LIST_TIMEOUT_MS })) ?? configured;
    } catch (thrown) {
      const error = toConcordError(thrown);
      log[error.kind === "corrupt" ? "error" : "debug"]("the list of coordinators cannot be read now", { reason: error.message });
      return false;
    }
    if (this.#stopping.signal.aborted || list.version < this.#current.version) return false;
    const problem = this.#problemWith(list);
    if (problem !== undefined) onFailed(new ConcordError("PERMISSION_DENIED", problem));
    if (problem !== undefined || placeOf(list, nodeName) === undefined) return true;
    const isNewer = list.version > this.#current.version;
    // First: verdicts name members by the places of what the membership has read.
    this.#current = list;
    this.#places = byPlace(list);
    this.#isIn = true;
    membership.listRead({ version: list.version, founders: list.founders, members: this.#places, readAtMs });
    if (isNewer) this.#changed(list);
    return false;
  }

  /** Why this coordinator cannot go on as one of the list; undefined: it can, or it never was in it. */
  #problemWith(list: RecordedList): string | undefined {
    if (!this.#isIn) return undefined;
    const { nodeName } = this.#options;
    if (placeOf(list, nodeName) !== placeOf(this.#current, nodeName)) return `${nodeName} was removed from the list of coordinators`;
    if (list.founders.join() !== this.#current.founders.join())
      return `the list of coordinators was founded by ${list.founders.join(", ")}, not by ${this.#current.founders.join(", ")}: start again`;
    return undefined;
  }

  #changed(list: RecordedList): void {
    this.#options.log.info("the list of coordinators", {
      version: list.version,
      coordinators: list.members.map(({ name, state }) => `${name} ${state}`).join(", "),
    });
    this.#onChange();
  }
}

function placeOf({ members }: RecordedList, nodeName: string): number | undefined {
  return members.find(({ name }) => name === nodeName)?.place;
}
