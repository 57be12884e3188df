import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert, TIMESTAMP_ZERO, type Checksum, type TimestampUs } from "@concord/runtime";

/** Node-local. */
const FORGOTTEN_KEY = new TextEncoder().encode("m:forgotten");
const FORGOTTEN_VERSION = 1;

/**
 * The tombstones of plain rows that this replica has dropped (I11, I12): a name for the newest collection, and the newest deletion among all.
 * Both change only inside steps.
 */
export class Forgotten {
  readonly #opening: string;
  readonly #checksum: Checksum;
  #collections = 0;
  #collection: string;
  #newestUs: TimestampUs;

  /** `opening`: of the store; no other opening of any store has this name. */
  constructor(opening: string, checksum: Checksum, newestUs: TimestampUs = TIMESTAMP_ZERO) {
    this.#opening = opening;
    this.#collection = `${opening}-0`;
    this.#checksum = checksum;
    this.#newestUs = newestUs;
  }

  static async open(store: Pick<KeyValue, "get">, opening: string, checksum: Checksum): Promise<Forgotten> {
    return new Forgotten(opening, checksum, await readForgotten(store, checksum));
  }

  /** Names the newest collection. A copy that was read before it had this name must not be merged (I11). */
  get collection(): string {
    return this.#collection;
  }

  /** A write with this timestamp or an older one may be of a row whose tombstone is gone (I12); 0 = none is. */
  get newestUs(): TimestampUs {
    return this.#newestUs;
  }

  /** In the step that drops tombstones: the write that goes with it. */
  collected(newestUs: TimestampUs): KeyValueOperation {
    this.#collections += 1;
    this.#collection = `${this.#opening}-${this.#collections}`;
    if (newestUs > this.#newestUs) this.#newestUs = newestUs;
    assert(this.#newestUs >= newestUs, "I12: the newest deletion that is forgotten only grows");
    return forgottenNote(this.#newestUs, this.#checksum);
  }
}

/** What the store has noted; 0 = nothing was dropped. */
export async function readForgotten(store: Pick<KeyValue, "get">, checksum: Checksum): Promise<TimestampUs> {
  const stored = await store.get(FORGOTTEN_KEY);
  return stored === undefined ? TIMESTAMP_ZERO : new ByteReader(openRecord(stored, FORGOTTEN_VERSION, checksum).body).timestampUs();
}

/** Of a store whose rows come from replicas that have dropped tombstones up to this one. */
export function forgottenNote(newestUs: TimestampUs, checksum: Checksum): KeyValueOperation {
  const value = sealRecord(FORGOTTEN_VERSION, new ByteWriter().i64(newestUs), checksum);
  return { kind: "put", key: FORGOTTEN_KEY, value };
}
