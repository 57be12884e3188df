import { MESH_MEMBERS_MAX } from "@concord/failure-detection";
import { stepList, type ListChange, type ListVersions, type RecordedList } from "@concord/ownership";
import type { RowStore } from "@concord/ports";
import type { Environment } from "@concord/runtime";
import type { CommitToken, TransactionGroup } from "@concord/transactions";
import { LIST_TIMEOUT_MS } from "../limits.ts";
import { COORDINATOR_LIST_KEY, coordinatorListRow } from "../schema/system-tables.ts";
import { SystemTransaction } from "../schema/system-transaction.ts";
import type { Groups } from "./groups.ts";
import type { Peers } from "./peers.ts";
import { listOfRow, listToJson } from "./stored-list.ts";

export interface ListChangesOptions {
  readonly environment: Environment;
  readonly groups: Groups;
  readonly rows: RowStore;
  readonly peers: Peers;
  readonly nodeName: string;
}

/**
 * Changes the list of coordinators, at the master of the system group: each version is one transaction on exactly the version before. The next one comes
 * `nextListAfterMs` after a majority was seen to have this one (I5 of the failure-detection README).
 */
export class ListChanges {
  readonly #options: ListChangesOptions;
  /** The newest version that this master has seen at a majority, and since when. */
  #seen: { readonly version: number; readonly atMs: number } | undefined;

  constructor(options: ListChangesOptions) {
    this.#options = options;
  }

  /** Takes the next step of the change if it may be taken now. */
  async step(change: ListChange, group: TransactionGroup, deadlineAtMs: number): ReturnType<typeof stepList<RecordedList>> {
    const { environment, groups, peers, nodeName } = this.#options;
    const transaction = new SystemTransaction(group, environment, deadlineAtMs);
    try {
      return await stepList(change, {
        versions: this.#versions(transaction, deadlineAtMs),
        owners: groups.owners,
        placesMax: MESH_MEMBERS_MAX,
        servesNothing: async ({ name, address }) => name !== nodeName && !(await peers.serves(address, name, LIST_TIMEOUT_MS)),
      });
    } finally {
      transaction.end();
    }
  }

  #versions(transaction: SystemTransaction, deadlineAtMs: number): ListVersions<RecordedList> {
    const { environment, groups } = this.#options;
    const write = async (list: RecordedList): Promise<void> => {
      await this.#written(list, await transaction.commit([coordinatorListRow(listToJson(list))]), deadlineAtMs);
    };
    return {
      read: async () => {
        const [row] = await transaction.read(COORDINATOR_LIST_KEY, (operations) => operations.read([COORDINATOR_LIST_KEY]));
        const list = listOfRow(row) ?? groups.lists.configured;
        const seen = this.#seen;
        if (list.version === 0) return { list, sinceWrittenMs: Number.POSITIVE_INFINITY };
        if (seen?.version === list.version) return { list, sinceWrittenMs: environment.clock.monotonicMs() - seen.atMs };
        // Another master wrote it, or this one without an answer. Once written again, it and all before it can be seen at a majority.
        await write(list);
        return { list, sinceWrittenMs: 0 };
      },
      write: async (list) => {
        await write(list);
        groups.lists.readSoon();
        return { isWritten: true, list };
      },
    };
  }

  /** Each reading that begins from now on finds this version or a newer one. */
  async #written({ version }: RecordedList, { group, seq }: CommitToken, deadlineAtMs: number): Promise<void> {
    const { rows, environment } = this.#options;
    const { clock } = environment;
    await rows.read([COORDINATOR_LIST_KEY], { timeoutMs: Math.max(1, deadlineAtMs - clock.monotonicMs()), after: [{ group, seq }] });
    this.#seen = { version, atMs: clock.monotonicMs() };
  }
}
