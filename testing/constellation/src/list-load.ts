// Transactions that append to one list per transaction group, and the check that nothing acknowledged was lost, torn or doubled.
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient, Topology, Transaction } from "@concord/client";
import { tokenOf } from "@concord/values";

const TABLES = [
  "CREATE TABLE failover_lists (id bigint PRIMARY KEY, length int)",
  "CREATE TABLE failover_items (list bigint, at int, value text, PRIMARY KEY (list, at))",
];
const LISTS_TRIED_MAX = 100_000n;
const CREATED_MS = 60_000;
/** Generous: a takeover on a busy machine takes a minute. */
const COMMITS_WITHIN_MS = 480_000;

interface List {
  readonly id: bigint;
  readonly group: string;
  /** Values by position, as acknowledged. */
  readonly acknowledged: Map<number, string>;
  readonly indeterminate: Set<string>;
}

/** A commit that left its client, and what the client found of it. */
export interface SentCommit {
  readonly group: string;
  /** performance.now() */
  readonly sentAt: number;
  result: "under way" | "committed" | "not applied" | "unknown";
}

export interface Commit {
  readonly group: string;
  /** performance.now() of its begin and of its acknowledgement. */
  readonly beganAt: number;
  readonly at: number;
}

export interface ListLoadOptions {
  /** Clients of the lists, in turn. */
  readonly clients: readonly ConcordClient[];
  /** Writers of each list. */
  readonly writers: number;
  /** Pause of a writer between two transactions, milliseconds. */
  readonly pauseMs: number;
  /** Time of a transaction with all its tries; the client's own when it is not said. */
  readonly deadlineMs?: number;
}

/** A load on every group, until `stop`. */
export class ListLoad {
  /** In the order of their acknowledgements. */
  readonly commits: Commit[] = [];
  /** Transactions that failed at their client. */
  readonly failures: unknown[] = [];
  readonly #options: ListLoadOptions;
  readonly #lists: readonly List[];
  readonly #stopping = new AbortController();
  readonly #underWay = new Set<SentCommit>();
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(options: ListLoadOptions, lists: readonly List[]) {
    this.#options = options;
    this.#lists = lists;
  }

  static async start(options: ListLoadOptions): Promise<ListLoad> {
    const [db] = options.clients;
    await created(db!);
    const load = new ListLoad(options, listsOf(db!.topology));
    let writers = 0;
    const loops = load.#lists.flatMap((list) =>
      Array.from({ length: options.writers }, () => load.#write(list, options.clients[writers++ % options.clients.length]!, `w${writers}`)),
    );
    load.#ended = Promise.all(loops);
    return load;
  }

  get indeterminate(): number {
    return this.#lists.reduce((sum, list) => sum + list.indeterminate.size, 0);
  }

  /** Commits of these groups that have no answer yet. */
  underWay(groups: readonly string[]): readonly SentCommit[] {
    return [...this.#underWay].filter(({ group }) => groups.includes(group));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  /** Ends the load also when the test failed before its stop; what is under way ends with its clients. */
  close(): void {
    this.#stopping.abort();
  }

  /** Resolves when every one of the groups has a transaction that began after the time. */
  async commitsSince(groups: readonly string[], since: number): Promise<void> {
    const missing = new Set(groups);
    const endsAt = performance.now() + COMMITS_WITHIN_MS;
    for (let seen = 0; missing.size > 0; await sleep(1)) {
      for (; seen < this.commits.length; seen += 1) if (this.commits[seen]!.beganAt >= since) missing.delete(this.commits[seen]!.group);
      if (missing.size === 0 || performance.now() < endsAt) continue;
      const last = this.failures.at(-1) as { readonly message?: string } | undefined;
      throw new Error(
        `groups ${[...missing].join(", ")}: no commit within ${COMMITS_WITHIN_MS / 1000} s; last failure: ${last?.message ?? "none"}`,
      );
    }
  }

  /** Longest time between two acknowledgements of one group after the time, milliseconds. */
  longestGapMs(since: number): number {
    const last = new Map<string, number>();
    let longest = 0;
    for (const { group, at } of this.commits) {
      if (at < since) continue;
      longest = Math.max(longest, at - (last.get(group) ?? at));
      last.set(group, at);
    }
    return longest;
  }

  /** What is wrong with the lists; undefined = nothing. */
  async check(): Promise<string | undefined> {
    for (const list of this.#lists) {
      const problem = await this.#checkList(list);
      if (problem !== undefined) return `list ${list.id} of ${list.group}: ${problem}`;
    }
    return undefined;
  }

  async #write(list: List, db: ConcordClient, writer: string): Promise<void> {
    for (let turn = 0; !this.#stopping.signal.aborted; turn += 1) {
      const value = `${writer}.${turn}`;
      const beganAt = performance.now();
      try {
        list.acknowledged.set(await this.#append(list, db, value), value);
        this.commits.push({ group: list.group, beganAt, at: performance.now() });
      } catch (thrown) {
        this.failures.push(thrown);
        if (isUnknown(thrown)) list.indeterminate.add(value);
      }
      await sleep(this.#options.pauseMs);
    }
  }

  /** The position at which it was appended. */
  async #append({ id, group }: List, db: ConcordClient, value: string): Promise<number> {
    let sent: SentCommit | undefined;
    const settle = (result: SentCommit["result"]): void => {
      if (sent === undefined) return;
      sent.result = result;
      this.#underWay.delete(sent);
      sent = undefined;
    };
    try {
      const { deadlineMs } = this.#options;
      const options = deadlineMs === undefined ? {} : { deadlineMs };
      const work = async (txn: Transaction): Promise<number> => {
        // Run again: the commit before had no effect.
        settle("not applied");
        const at = (await txn.lock<{ length: number }>("failover_lists", { id }))?.length ?? 0;
        txn.insert("failover_items", { list: id, at, value });
        txn.insert("failover_lists", { id, length: at + 1 });
        sent = { group, sentAt: performance.now(), result: "under way" };
        this.#underWay.add(sent);
        return at;
      };
      const position = await db.runTransaction({ table: "failover_lists", key: { id } }, work, options);
      settle("committed");
      return position;
    } catch (thrown) {
      settle(isUnknown(thrown) ? "unknown" : "not applied");
      throw thrown;
    }
  }

  async #checkList({ id, acknowledged, indeterminate }: List): Promise<string | undefined> {
    const [db] = this.#options.clients;
    const length = (await db!.read<{ length: number }>("failover_lists", { id }))?.length ?? 0;
    const values: string[] = [];
    for await (const item of db!.readRange<{ at: number; value: string }>("failover_items", { partition: { list: id }, pageSize: 1000 })) {
      if (item.at !== values.length) return `position ${values.length} is missing`;
      values.push(item.value);
    }
    if (values.length !== length) return `${values.length} items, but its length says ${length}`;
    if (new Set(values).size !== values.length) return "a value comes twice";
    for (const [at, value] of acknowledged) if (values[at] !== value) return `${value} was acknowledged at ${at}, there is ${values[at]}`;
    const unknown = values.filter((value, at) => acknowledged.get(at) !== value && !indeterminate.has(value));
    return unknown.length === 0 ? undefined : `${unknown[0]} was never acknowledged and did not fail indeterminately`;
  }
}

/** A transaction that failed without saying that it had no effect. */
function isUnknown(thrown: unknown): boolean {
  return (thrown as { applied?: unknown }).applied !== "no";
}

/** Beside other work a coordinator may need longer than one call has. Creating them again changes nothing. */
async function created(db: ConcordClient): Promise<void> {
  const endsAt = performance.now() + CREATED_MS;
  for (;;) {
    try {
      await db.createTables(TABLES);
      return;
    } catch (thrown) {
      if ((thrown as { retryable?: unknown }).retryable !== true || performance.now() > endsAt) throw thrown;
    }
  }
}

/** One list in each group. */
function listsOf({ groups }: Topology): readonly List[] {
  const missing = new Set(groups.map((group) => group.id));
  const lists: List[] = [];
  for (let id = 1n; missing.size > 0 && id < LISTS_TRIED_MAX; id += 1n) {
    const token = tokenOf({ kind: "bigint", value: id });
    const group = groups.findLast(({ fromToken }) => fromToken <= token)?.id ?? "";
    if (missing.delete(group)) lists.push({ id, group, acknowledged: new Map(), indeterminate: new Set() });
  }
  return lists;
}
