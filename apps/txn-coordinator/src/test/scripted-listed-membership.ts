import type { ListedMembership, ReadList } from "@concord/failure-detection";
import { ScriptedMembership } from "./scripted-membership.ts";

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
