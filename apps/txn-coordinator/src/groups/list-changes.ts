import { DETECTION_LIMITS, MESH_MEMBERS_MAX } from "@concord/failure-detection";
import { nextListStep, type ListChange, type ListStep, type RecordedList } from "@concord/ownership";
import type { RowStore } from "@concord/ports";
import { newTimeId, toConcordError, type Environment } from "@concord/runtime";
import type { CommitToken, OperationCall, TransactionGroup } from "@concord/transactions";
import { LIST_TIMEOUT_MS } from "../limits.ts";
import { COORDINATOR_LIST_KEY, coordinatorListRow } from "../schema/system-tables.ts";
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
  async step(
    change: ListChange,
    group: TransactionGroup,
    deadlineAtMs: number,
  ): Promise<{ readonly step: ListStep; readonly list: RecordedList }> {
    const servesNothing = change.kind === "remove" && (await this.#servesNothing(change.name));
    const transaction = this.#transaction(group, deadlineAtMs);
    const list = await transaction.read();
    const { clock } = this.#options.environment;
    if (list.version > 0 && this.#seen?.version !== list.version) {
      // Another master wrote it, or this one without an answer. Once written again, it and all before it can be seen at a majority.
      await this.#written(list, await transaction.write(list), deadlineAtMs);
      return { step: { kind: "wait", reason: `version ${list.version} of the list is too new for another` }, list };
    }
    const step = nextListStep(list, change, {
      sinceWrittenMs: this.#seen === undefined ? Number.POSITIVE_INFINITY : clock.monotonicMs() - this.#seen.atMs,
      nextListAfterMs: DETECTION_LIMITS.nextListAfterMs,
      placesMax: MESH_MEMBERS_MAX,
      works: (name) => this.#options.groups.hears(name),
      servesNothing,
    });
    if (step.kind !== "write") {
      transaction.end();
      return { step, list };
    }
    await this.#written(step.list, await transaction.write(step.list), deadlineAtMs);
    this.#options.groups.lists.readSoon();
    return { step, list: step.list };
  }

  /** Each reading that begins from now on finds this version or a newer one. */
  async #written({ version }: RecordedList, { group, seq }: CommitToken, deadlineAtMs: number): Promise<void> {
    const { rows, environment } = this.#options;
    const { clock } = environment;
    await rows.read([COORDINATOR_LIST_KEY], { timeoutMs: Math.max(1, deadlineAtMs - clock.monotonicMs()), after: [{ group, seq }] });
    this.#seen = { version, atMs: clock.monotonicMs() };
  }

  /** The coordinator itself says so; or nothing hears it, and its lease has ended. */
  async #servesNothing(name: string): Promise<boolean> {
    const { groups, peers, nodeName } = this.#options;
    const address = groups.coordinators.find((coordinator) => coordinator.name === name)?.address;
    if (name === nodeName || address === undefined) return false;
    if (!groups.hears(name)) return true;
    return peers.serves(address, name, LIST_TIMEOUT_MS).then(
      (serves) => !serves,
      () => false,
    );
  }

  #transaction(group: TransactionGroup, deadlineAtMs: number): ListTransaction {
    const { environment, groups } = this.#options;
    const id = newTimeId(environment.clock, environment.random);
    const call = (number: number): OperationCall => ({ id, number, sessionId: undefined, deadlineAtMs });
    const end = (): void => {
      if (group.state.kind === "serving" && group.knows(id)) group.serving().rollback(id);
    };
    return {
      end,
      read: async () => {
        await group.serving().start(call(1), {
          key: COORDINATOR_LIST_KEY,
          mode: "exclusive",
          read: "read",
          firstStartMs: undefined,
          lifetimeMs: undefined,
        });
        try {
          const [row] = await group.serving().operate(call(2), (operations) => operations.read([COORDINATOR_LIST_KEY]));
          return listOfRow(row) ?? groups.lists.configured;
        } catch (thrown) {
          end();
          throw thrown;
        }
      },
      write: async (list) => {
        try {
          return await group.serving("unknown").commit(call(3), () => [coordinatorListRow(listToJson(list))], { maxDelayMs: 0 });
        } catch (thrown) {
          // Any other failure has ended it, or its commit is on its way and must be left alone.
          if (toConcordError(thrown).kind === "rejected") end();
          throw thrown;
        }
      },
    };
  }
}

interface ListTransaction {
  /** As recorded, or as configured. The row is locked. */
  read(): Promise<RecordedList>;
  /** Commits it as the list. */
  write(list: RecordedList): Promise<CommitToken>;
  /** Nothing was changed. */
  end(): void;
}
