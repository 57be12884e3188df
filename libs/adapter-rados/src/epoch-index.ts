import { parseOid, type Oid, type OidRange } from "@concord/ports";
import { assert, ConcordError, type Checksum } from "@concord/runtime";
import { decodeEntry, encodeEntry, type Entry } from "./entry.ts";
import { ATTEMPTS_MAX, CALLS_AT_ONCE, KEYS_PER_READ, KNOWN_OBJECTS_MAX } from "./limits.ts";
import {
  entryPlace,
  epochKey,
  epochObject,
  epochOfKey,
  EPOCHS_OBJECT,
  keyBefore,
  oidOfKey,
  shardKey,
  shardOf,
  shardOfKey,
  slotObjects,
} from "./names.ts";
import type { RadosPool, WriteStep } from "./pool.ts";

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const STATE = "state";
const OPEN = text("open");
const CLOSED = text("closed");
const PRESENT = text("1");
const NONE = new Uint8Array();
const IS_OPEN: WriteStep = { kind: "expect-attribute", name: STATE, value: OPEN };

/** An entry, and its bytes: what the next change of it expects. */
export interface HeldEntry {
  readonly entry: Entry;
  readonly bytes: Uint8Array;
}

/** The entries of all epochs' blobs, and the fence of an epoch (I1). */
export class EpochIndex {
  readonly #pool: RadosPool;
  readonly #checksum: Checksum;
  /** Shards that were added and index objects that were open: a hint, for the cluster decides. */
  readonly #known = new Set<string>();

  constructor(pool: RadosPool, checksum: Checksum) {
    this.#pool = pool;
    this.#checksum = checksum;
  }

  /** Undefined: no blob, and none was burnt. */
  async get(oid: Oid): Promise<HeldEntry | undefined> {
    const { object, key } = entryPlace(oid);
    const bytes = await this.#pool.key(object, key);
    return bytes === undefined ? undefined : { entry: decodeEntry(bytes, this.#checksum), bytes };
  }

  /** Records the blob before any of its stripes (I2). PIECE_EXISTS, EPOCH_FENCED. */
  async begin(oid: Oid, entry: Entry): Promise<HeldEntry> {
    const { epoch, shard, object } = entryPlace(oid);
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
      if (!this.#known.has(object)) await this.#openObject(epoch, shard, object);
      const held = await this.change(oid, undefined, entry);
      if (held !== undefined) return held;
      this.#known.delete(object);
      if ((await this.get(oid)) !== undefined) throw new ConcordError("PIECE_EXISTS", `data blob ${oid} exists already`);
    }
    throw new ConcordError("STORE_FAILED", `the index of epoch ${epoch} changes all the time`, { applied: "no" });
  }

  /** In an open epoch only. Undefined: the entry is another one by now, or the epoch is closed. */
  change(oid: Oid, from: HeldEntry | undefined, to: Entry): Promise<HeldEntry | undefined> {
    return this.#exchange(oid, from, to, [IS_OPEN]);
  }

  /** In a closed epoch, too. */
  changeAnywhere(oid: Oid, from: HeldEntry | undefined, to: Entry): Promise<HeldEntry | undefined> {
    return this.#exchange(oid, from, to, []);
  }

  /** An entry whose writing was not answered cannot appear any more. False: it is there. */
  async burnAbsent(oid: Oid): Promise<boolean> {
    const { object, key } = entryPlace(oid);
    const value = encodeEntry({ kind: "burnt", stripes: 0 }, this.#checksum);
    const steps: WriteStep[] = [
      { kind: "expect-key", key, value: NONE },
      { kind: "set-key", key, value },
    ];
    // Without a shard the entry was never sent: an object is made before its entries.
    return (await this.#pool.write(object, steps)) !== "mismatch";
  }

  /** False: the entry is another one by now. */
  async delete(oid: Oid, from: HeldEntry): Promise<boolean> {
    const { object, key } = entryPlace(oid);
    const steps: WriteStep[] = [
      { kind: "expect-key", key, value: from.bytes },
      { kind: "remove-key", key },
    ];
    return (await this.#pool.write(object, steps)) === "done";
  }

  /** Blobs in order; burnt names are none. */
  async list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    const found: Oid[] = [];
    for await (const shard of this.#shards(epoch, shardOf(fromSequence))) {
      const slots = await atOnce(slotObjects(epoch, shard), (object) => this.#listSlot(object, epoch, fromSequence, limit));
      found.push(...slots.flat().sort());
      if (found.length >= limit) break;
    }
    return found.slice(0, limit);
  }

  async epochs(): Promise<readonly number[]> {
    const epochs: number[] = [];
    for await (const page of this.#pages(EPOCHS_OBJECT, "")) {
      const some = await atOnce(page, async ([key]) => ((await this.#hasBlobs(epochOfKey(key))) ? [epochOfKey(key)] : []));
      epochs.push(...some.flat());
    }
    return epochs;
  }

  /** No entry of the epoch is made or sealed after it (I1). */
  async close(epoch: number): Promise<void> {
    const close: readonly WriteStep[] = [{ kind: "ensure" }, { kind: "set-attribute", name: STATE, value: CLOSED }];
    // First the epoch: from here on no shard is added, so the following sees all of them.
    await this.#pool.write(epochObject(epoch), close);
    for await (const page of this.#pages(epochObject(epoch), ""))
      for (const [key] of page) await atOnce(slotObjects(epoch, shardOfKey(key)), (object) => this.#pool.write(object, close));
    this.#known.clear();
  }

  async #exchange(oid: Oid, from: HeldEntry | undefined, to: Entry, guards: readonly WriteStep[]): Promise<HeldEntry | undefined> {
    const { object, key } = entryPlace(oid);
    const bytes = encodeEntry(to, this.#checksum);
    const steps: WriteStep[] = [...guards, { kind: "expect-key", key, value: from?.bytes ?? NONE }, { kind: "set-key", key, value: bytes }];
    return (await this.#pool.write(object, steps)) === "done" ? { entry: to, bytes } : undefined;
  }

  /**
   * Made from the top down, each level durable before the next: what has entries can be found. EPOCH_FENCED. A level that was closed
   * meanwhile has its closed object, and `create` leaves that as it is.
   */
  async #openObject(epoch: number, shard: number, object: string): Promise<void> {
    const create: readonly WriteStep[] = [{ kind: "create" }, { kind: "set-attribute", name: STATE, value: OPEN }];
    const shardName = `${epochKey(epoch)}.${shardKey(shard)}`;
    if (this.#known.size >= KNOWN_OBJECTS_MAX) this.#known.clear();
    if (!this.#known.has(shardName)) {
      await this.#pool.write(EPOCHS_OBJECT, [{ kind: "set-key", key: epochKey(epoch), value: PRESENT }]);
      await this.#pool.write(epochObject(epoch), create);
      const added = await this.#pool.write(epochObject(epoch), [IS_OPEN, { kind: "set-key", key: shardKey(shard), value: PRESENT }]);
      if (added !== "done") throw fenced(epoch);
      this.#known.add(shardName);
    }
    await this.#pool.write(object, create);
    const checked = await this.#pool.read(object, 0, 0);
    if (!isOpen(checked?.attributes.get(STATE))) throw fenced(epoch);
    this.#known.add(object);
  }

  async #listSlot(object: string, epoch: number, fromSequence: number, limit: number): Promise<Oid[]> {
    const found: Oid[] = [];
    for await (const page of this.#pages(object, keyBefore(fromSequence), Math.min(KEYS_PER_READ, limit))) {
      found.push(...page.flatMap(([key, bytes]) => (this.#isBurnt(bytes) ? [] : [oidOfKey(epoch, key)])));
      if (found.length >= limit) break;
    }
    return found;
  }

  /** A damaged entry is listed: `inspect` says what is wrong. */
  #isBurnt(bytes: Uint8Array): boolean {
    try {
      return decodeEntry(bytes, this.#checksum).kind === "burnt";
    } catch {
      return false;
    }
  }

  /** An epoch that was closed and has nothing left is forgotten: nothing is ever added to it. */
  async #hasBlobs(epoch: number): Promise<boolean> {
    const [first] = await this.list({ epoch, fromSequence: 0, limit: 1 });
    if (first !== undefined) return true;
    const root = await this.#pool.read(epochObject(epoch), 0, 0);
    if (root !== undefined && !isOpen(root.attributes.get(STATE)) && (await this.list({ epoch, fromSequence: 0, limit: 1 })).length === 0)
      await this.#pool.write(EPOCHS_OBJECT, [{ kind: "remove-key", key: epochKey(epoch) }]);
    return false;
  }

  async *#shards(epoch: number, from: number): AsyncGenerator<number> {
    const after = from === 0 ? "" : shardKey(from - 1);
    for await (const page of this.#pages(epochObject(epoch), after)) yield* page.map(([key]) => shardOfKey(key));
  }

  async *#pages(object: string, after: string, limit = KEYS_PER_READ): AsyncGenerator<readonly (readonly [string, Uint8Array])[]> {
    for (let last = after; ;) {
      const { entries, more } = await this.#pool.keys(object, last, limit);
      yield entries;
      if (!more) return;
      assert(entries.length > 0, "a page with more behind it has entries");
      last = entries.at(-1)![0];
    }
  }
}

export function fenced(epoch: number): ConcordError {
  return new ConcordError("EPOCH_FENCED", `epoch ${epoch} is closed`, { applied: "no" });
}

export const fencedBlob = (oid: Oid): ConcordError => fenced(parseOid(oid).epoch);

/** In the order of the items. */
export async function atOnce<Item, Result>(items: readonly Item[], action: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) results[at] = await action(items[at]!);
  };
  await Promise.all(Array.from({ length: Math.min(CALLS_AT_ONCE, items.length) }, work));
  return results;
}

function isOpen(state: Uint8Array | undefined): boolean {
  return state?.length === OPEN.length && state.every((byte, at) => byte === OPEN[at]);
}
