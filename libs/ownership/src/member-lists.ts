// The list of members as one member reads it again and again (TX3, TX32), as docs/design/membership.md says.
import type { ListedMembership } from "@concord/failure-detection";
import { ConcordError, every, sleep, Task, toConcordError, type Clock, type Log, type Tasks } from "@concord/runtime";
import { LIST_AWAITED_LOG_EVERY_MS, LIST_AWAITED_POLL_MS, LIST_READ_EVERY_MS, LIST_START_POLL_MS } from "./limits.ts";
import { byPlace, type ListedMember, type RecordedList } from "./recorded-list.ts";

export interface MemberListsOptions<L extends RecordedList> {
  /** Version 0. */
  readonly configured: L;
  readonly nodeName: string;
  /**
   * The newest version that there was when the call began, or a newer one; undefined: version 0. Rejects when it is not known; then the list stays as
   * it was read last.
   */
  readonly read: () => Promise<L | undefined>;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  /** undefined: the configured list never changes. */
  readonly membership: ListedMembership | undefined;
  /** Of what the list is, as operators know it. */
  readonly noun: "coordinators" | "workers";
  /** The command that adds a member. */
  readonly addCommand: string;
  /** This member is not in the list any more, or counts by another cluster's: the process must end. */
  readonly onFailed: (cause: ConcordError) => void;
}

/** The list of members as this one read it last (TX32). The lease hangs on reading it again and again (I5 of the failure-detection README). */
export class MemberLists<L extends RecordedList> {
  readonly #options: MemberListsOptions<L>;
  /** From the moment in which this member is in the list. */
  readonly #reading: Task;
  #current: L;
  #places: readonly (ListedMember | undefined)[];
  /** Since when each reading that begins finds the current version or a newer one. */
  #sinceMs = Number.NEGATIVE_INFINITY;
  /** It was in the list that was read last. */
  #isIn = false;
  #onChange: () => void = () => undefined;

  constructor(options: MemberListsOptions<L>) {
    this.#options = options;
    this.#current = options.configured;
    this.#places = byPlace(options.configured);
    this.#reading = new Task({
      ...options,
      name: `the list of ${options.noun}`,
      firstAfterMs: LIST_READ_EVERY_MS,
      ...every(LIST_READ_EVERY_MS, () => this.refresh()),
      failed: (error) => this.#unreadable(error),
      progress: () => ({ version: this.#current.version }),
    });
  }

  /** One configured member, which no other will join. */
  get isAlone(): boolean {
    return this.isFixed && this.#current.members.length === 1;
  }

  /** The members are those of the configuration for as long as they run. */
  get isFixed(): boolean {
    return this.#options.membership === undefined;
  }

  get current(): L {
    return this.#current;
  }

  /** How long ago this member first read the current version; infinite: version 0. */
  get sinceReadMs(): number {
    return this.#options.clock.monotonicMs() - this.#sinceMs;
  }

  /** The member that verdicts name by this number. */
  at(place: number): ListedMember | undefined {
    return this.#places[place];
  }

  /** Resolves when this member is in the list; goes on reading it until `stop`. Rejects when the signal is aborted before. */
  async start(signal: AbortSignal, onChange: () => void): Promise<void> {
    const { membership, clock, log, nodeName, noun, addCommand } = this.#options;
    this.#onChange = onChange;
    if (membership === undefined) return;
    let saidAtMs = Number.NEGATIVE_INFINITY;
    while (!this.#isIn) {
      if (signal.aborted || this.#reading.signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
      const isOut = await this.#tryRead(membership);
      if (this.#isIn) break;
      if (isOut && clock.monotonicMs() - saidAtMs >= LIST_AWAITED_LOG_EVERY_MS) {
        saidAtMs = clock.monotonicMs();
        log.warn(`not in the list of ${noun}: waits until it is added (${addCommand})`, { nodeName });
      }
      await sleep(clock, isOut ? LIST_AWAITED_POLL_MS : LIST_START_POLL_MS, signal);
    }
    this.#reading.start();
  }

  /** A member counts by a newer version. */
  readSoon(): void {
    this.#reading.wake();
  }

  /** Goes by the list as it is now. Rejects when it cannot be read. */
  async refresh(): Promise<void> {
    const { membership } = this.#options;
    if (membership !== undefined) await this.#read(membership);
  }

  stop(): void {
    void this.#reading.stop();
  }

  async #tryRead(membership: ListedMembership): Promise<boolean> {
    try {
      return await this.#read(membership);
    } catch (thrown) {
      this.#unreadable(toConcordError(thrown));
      return false;
    }
  }

  #unreadable({ kind, message }: ConcordError): void {
    const { log, noun } = this.#options;
    log[kind === "corrupt" ? "error" : "debug"](`the list of ${noun} cannot be read now`, { reason: message });
  }

  /** Goes by the list as it is now. True: this member is not in it. */
  async #read(membership: ListedMembership): Promise<boolean> {
    const { read, configured, nodeName, clock, onFailed } = this.#options;
    const readAtMs = clock.monotonicMs();
    const list = (await read()) ?? configured;
    if (this.#reading.signal.aborted || list.version < this.#current.version) return false;
    const problem = this.#problemWith(list);
    if (problem !== undefined) onFailed(new ConcordError("PERMISSION_DENIED", problem));
    if (problem !== undefined || placeOf(list, nodeName) === undefined) return true;
    const isNewer = list.version > this.#current.version;
    // First: verdicts name members by the places of what the membership has read.
    this.#current = list;
    this.#places = byPlace(list);
    this.#isIn = true;
    if (isNewer) this.#sinceMs = clock.monotonicMs();
    membership.listRead({ version: list.version, founders: list.founders, members: this.#places, readAtMs });
    if (isNewer) this.#changed(list);
    return false;
  }

  /** Why this member cannot go on as one of the list; undefined: it can, or it never was in it. */
  #problemWith(list: RecordedList): string | undefined {
    if (!this.#isIn) return undefined;
    const { nodeName, noun } = this.#options;
    if (placeOf(list, nodeName) !== placeOf(this.#current, nodeName)) return `${nodeName} was removed from the list of ${noun}`;
    if (list.founders.join() !== this.#current.founders.join())
      return `the list of ${noun} was founded by ${list.founders.join(", ")}, not by ${this.#current.founders.join(", ")}: start again`;
    return undefined;
  }

  #changed(list: RecordedList): void {
    const { log, noun } = this.#options;
    log.info(`the list of ${noun}`, {
      version: list.version,
      members: list.members.map(({ name, state }) => `${name} ${state}`).join(", "),
    });
    this.#onChange();
  }
}

/** The configured members, for as long as they run. */
export function fixedLists<L extends RecordedList>(
  configured: L,
  nodeName: string,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): MemberLists<L> {
  const read = async (): Promise<undefined> => undefined;
  return new MemberLists({
    configured,
    nodeName,
    clock,
    log,
    read,
    membership: undefined,
    noun: "workers",
    addCommand: "",
    onFailed: () => undefined,
  });
}

function placeOf({ members }: RecordedList, nodeName: string): number | undefined {
  return members.find(({ name }) => name === nodeName)?.place;
}
