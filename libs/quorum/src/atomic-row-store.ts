import type { AtomicRows, ReadOptions, RowImage, RowKey, RowPage, RowRange } from "@concord/ports";
import { decodeImage, decodeRowKey, encodeRange, encodeRowKey, imageRowKey, liveRow } from "@concord/rows";
import { assert, ConcordError, type Clock, type Seq } from "@concord/runtime";
import { gather } from "./gather.ts";
import { ATOMIC_HEDGE_MS, ATOMIC_READ_KEYS_MAX, RANGE_IMAGES_MAX, RANGE_SLACK_IMAGES } from "./limits.ts";
import { readError } from "./quorum-errors.ts";
import type { GroupRead, GroupReplica, GroupRows } from "./row-replica.ts";
import { imageOfStored } from "./stored-row.ts";

export interface AtomicRowStoreOptions {
  /** 1 or 3, this node's own first: it is asked first. */
  readonly replicas: readonly GroupReplica[];
  /** No entry of the group that was decided before the call is behind it. */
  readonly newestSeq: (group: string, timeoutMs: number) => Promise<Seq>;
  readonly clock: Clock;
}

interface Answered {
  readonly replica: GroupReplica;
  readonly rows: GroupRows;
}

/**
 * Reads of one state of a group (TXD5): a majority names the newest entry, one replica that has applied it answers all rows as of one
 * place in the log, and another one has applied that place before the reader is answered (I2). Answers of replicas are never merged.
 */
export class AtomicRowStore implements AtomicRows {
  readonly #options: AtomicRowStoreOptions;
  readonly #quorum: number;

  constructor(options: AtomicRowStoreOptions) {
    assert(options.replicas.length === 1 || options.replicas.length === 3, "a ring has 1 or 3 replicas (TXR4)");
    this.#options = options;
    this.#quorum = Math.floor(options.replicas.length / 2) + 1;
    assert(2 * this.#quorum > options.replicas.length, "I2: two quorums share a replica");
    assert(new Set(options.replicas.map(({ name }) => name)).size === options.replicas.length, "replicas are distinct");
  }

  async read(group: string, keys: readonly RowKey[], options: ReadOptions): Promise<(RowImage | undefined)[]> {
    if (keys.length > ATOMIC_READ_KEYS_MAX) throw tooManyKeys(keys.length);
    const { rows } = await this.#read(group, { kind: "keys", keys: keys.map(encodeRowKey) }, options);
    if (rows.length !== keys.length) throw new ConcordError("INTERNAL", `a replica answered ${rows.length} of ${keys.length} keys`);
    return rows.map((row) => (row.length === 0 ? undefined : decodeImage(imageOfStored(row))));
  }

  /** A page that dead rows cut short is read once more, as a larger one of another state. */
  async readRange(group: string, range: RowRange, options: ReadOptions): Promise<RowPage> {
    assert(range.limit >= 1, "a page takes at least one row");
    const deadlineMs = this.#options.clock.monotonicMs() + options.timeoutMs;
    const page = await this.#readPage(group, range, Math.min(range.limit + RANGE_SLACK_IMAGES, RANGE_IMAGES_MAX), options);
    if (page.next === undefined || page.rows.length === range.limit) return page;
    return this.#readPage(group, range, RANGE_IMAGES_MAX, { ...options, timeoutMs: this.#remaining(deadlineMs) });
  }

  async #readPage(group: string, range: RowRange, limit: number, options: ReadOptions): Promise<RowPage> {
    assert(limit >= 1 && limit <= RANGE_IMAGES_MAX, "a replica's page takes at least one image, and no more than it answers");
    const { from, to } = encodeRange(range);
    const found = await this.#read(group, { kind: "range", range: { from, to, reverse: range.reverse, limit } }, options);
    const rows: RowImage[] = [];
    for (const [at, stored] of found.rows.entries()) {
      const image = decodeImage(imageOfStored(stored));
      if (liveRow(image) !== undefined) rows.push(image);
      if (rows.length < range.limit) continue;
      const isLast = at === found.rows.length - 1 && !found.more;
      return { rows, next: isLast ? undefined : image.key.clustering };
    }
    const last = found.rows.at(-1);
    return { rows, next: found.more && last !== undefined ? decodeRowKey(imageRowKey(imageOfStored(last))).clustering : undefined };
  }

  async #read(group: string, rows: GroupRead["rows"], options: ReadOptions): Promise<GroupRows> {
    const deadlineMs = this.#options.clock.monotonicMs() + options.timeoutMs;
    let seq = await this.#options.newestSeq(group, options.timeoutMs);
    for (const seen of options.after ?? []) if (seen.group === group && seen.seq > seq) seq = seen.seq;
    const answered = await this.#firstAnswer({ group, seq, rows }, deadlineMs);
    await this.#heldByMajority(answered, group, deadlineMs);
    return answered.rows;
  }

  /** The next replica is asked when those before have failed or are slow. */
  async #firstAnswer(read: GroupRead, deadlineMs: number): Promise<Answered> {
    const { replicas, clock } = this.#options;
    const asked: Promise<Answered>[] = [];
    for (const [at, replica] of inOrder(replicas).entries()) {
      const rows = replica.readGroup(read, this.#remaining(deadlineMs));
      asked.push(rows.then((answer) => ({ replica, rows: answer })));
      const waitMs = at === replicas.length - 1 ? this.#remaining(deadlineMs) : Math.min(ATOMIC_HEDGE_MS, this.#remaining(deadlineMs));
      const first = await gather([Promise.any(asked)], { clock, timeoutMs: waitMs, needed: 1 });
      if (first.kind === "enough") return first.answers[0]!.value;
    }
    // Every one has failed, or has not answered in time.
    assert(asked.length === replicas.length, "I10: a read fails only after every replica was asked");
    const outcomes = await gather(asked, { clock, timeoutMs: 1, needed: 1 });
    if (outcomes.kind === "enough") return outcomes.answers[0]!.value;
    const lasting = outcomes.failures.find(({ kind }) => kind === "rejected" || kind === "corrupt");
    throw lasting ?? readError(outcomes, 1);
  }

  /** No later read sees less, whichever replicas answer it (TX30). */
  async #heldByMajority({ replica, rows }: Answered, group: string, deadlineMs: number): Promise<void> {
    const { replicas, clock } = this.#options;
    const timeoutMs = this.#remaining(deadlineMs);
    const others = replicas.filter((other) => other !== replica);
    assert(others.length === replicas.length - 1, "I10: what is answered comes from one replica of the ring");
    const calls = others.map((other) => other.catchUp(group, rows.appliedSeq, timeoutMs));
    const result = await gather(calls, { clock, timeoutMs, needed: this.#quorum - 1 });
    if (result.kind === "too-few") throw readError(result, this.#quorum - 1);
  }

  #remaining(deadlineMs: number): number {
    return Math.max(1, deadlineMs - this.#options.clock.monotonicMs());
  }
}

/** Those that are known to be gone last. */
function inOrder(replicas: readonly GroupReplica[]): readonly GroupReplica[] {
  const ordered = [...replicas.filter(({ reachable }) => reachable), ...replicas.filter(({ reachable }) => !reachable)];
  assert(ordered.length === replicas.length, "each replica is asked once");
  return ordered;
}

function tooManyKeys(count: number): ConcordError {
  const metadata = { limit: "ATOMIC_READ_KEYS_MAX", value: String(ATOMIC_READ_KEYS_MAX) };
  return new ConcordError("LIMIT_EXCEEDED", `${count} keys; an atomic read has at most ${ATOMIC_READ_KEYS_MAX}`, { metadata });
}
