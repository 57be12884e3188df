import type { ListedMembership, Membership, MembershipChange, ReadList, Verdict } from "@concord/failure-detection";

/** Opinions as a test dictates them. */
export class ScriptedMembership implements Membership {
  #tell: (change: MembershipChange) => void = () => undefined;
  #leaseEndMs = Number.POSITIVE_INFINITY;
  isStopped = false;

  async start(onChange: (change: MembershipChange) => void): Promise<void> {
    this.#tell = onChange;
    onChange({ kind: "self", verdict: "works" });
  }

  about(member: number, verdict: Verdict): void {
    this.#tell({ kind: "verdict", member, verdict });
  }

  self(verdict: "works" | "lost"): void {
    this.#leaseEndMs = verdict === "works" ? Number.POSITIVE_INFINITY : 0;
    this.#tell({ kind: "self", verdict });
  }

  endLease(): void {
    this.#leaseEndMs = 0;
  }

  leaseEndMs(): number {
    return this.#leaseEndMs;
  }

  async stop(): Promise<void> {
    this.isStopped = true;
  }
}

/** Opinions as a test dictates them, of a list that changes. */
export class ScriptedListedMembership extends ScriptedMembership implements ListedMembership {
  readonly readings: ReadList[] = [];
  onRead: () => void = () => undefined;
  #onNewerList: (version: number) => void = () => undefined;

  override start(...[onChange, onNewerList]: Parameters<ListedMembership["start"]>): Promise<void> {
    if (onNewerList !== undefined) this.#onNewerList = onNewerList;
    return super.start(onChange);
  }

  listRead(list: ReadList): void {
    this.readings.push(list);
    this.onRead();
  }

  /** A beat named it. */
  newerList(version: number): void {
    this.#onNewerList(version);
  }
}
