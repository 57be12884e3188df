import { DETECTION_LIMITS } from "@concord/failure-detection";
import { nextListStep, type ListChange, type ListStep, type MemberLists, type Owners } from "@concord/ownership";
import { LIST_TIMEOUT_MS, WORKERS_MAX } from "../limits.ts";
import { placedFrom, type WorkerList, type WorkerLists } from "../store/worker-list.ts";
import type { WorkerPeers } from "./peers.ts";

export interface ListChangesOptions {
  readonly lists: MemberLists<WorkerList>;
  readonly stored: WorkerLists;
  readonly peers: Pick<WorkerPeers, "served">;
  readonly nodeName: string;
}

export interface ListChanged {
  readonly step: ListStep;
  /** As it is now. */
  readonly list: WorkerList;
}

/**
 * Changes the list of workers, at any of them: each version is written once, on exactly the version before, and no earlier than `nextListAfterMs` after
 * its writer read that one first (I5 of the failure-detection README).
 */
export class ListChanges {
  readonly #options: ListChangesOptions;

  constructor(options: ListChangesOptions) {
    this.#options = options;
  }

  /** Takes the next step of the change if it may be taken now. Rejects when the list cannot be read, or it is not known whether it was written. */
  async step(change: ListChange, owners: Owners, served: number): Promise<ListChanged> {
    const { lists, stored } = this.#options;
    await lists.refresh();
    const list = lists.current;
    const servesNothing = change.kind === "remove" && (await this.#servesNothing(change.name, owners, served));
    const step = nextListStep(list, change, {
      sinceWrittenMs: lists.sinceReadMs,
      nextListAfterMs: DETECTION_LIMITS.nextListAfterMs,
      placesMax: WORKERS_MAX,
      works: (name) => owners.hears(name),
      servesNothing,
    });
    if (step.kind !== "write") return { step, list };
    const isWritten = await stored.write(placedFrom(list, step.list));
    await lists.refresh();
    const overtaken: ListStep = { kind: "wait", reason: `another worker changed version ${list.version} of the list` };
    return { step: isWritten ? step : overtaken, list: lists.current };
  }

  /** The worker itself says so; or it does not answer, and nothing hears it: its lease has ended. */
  async #servesNothing(name: string, owners: Owners, served: number): Promise<boolean> {
    const { lists, peers, nodeName } = this.#options;
    if (name === nodeName) return served === 0;
    const address = lists.current.members.find((member) => member.name === name)?.address;
    if (address === undefined) return false;
    return peers.served(address, LIST_TIMEOUT_MS).then(
      (partitions) => partitions === 0,
      () => owners.works && !owners.hears(name),
    );
  }
}
