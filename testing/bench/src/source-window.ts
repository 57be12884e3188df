import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert } from "@concord/runtime";
import {
  ID_KEY_BYTES,
  ID_WORDS,
  unpackIds,
  type OutputIds,
  type Window,
  type WindowEnvironment,
  type WindowOptions,
  type WindowStatistics,
  type WindowStores,
} from "@concord/dedup";

/** Ids one ageing pass takes (DD17). */
export const SOURCE_AGEING_PASS_IDS = 4096;
const STORE = "source";
const FORMAT_VERSION = 1;
const HEAD_KEY = Uint8Array.of(0x01);
const ID_PREFIX = 0x11;
const SEQUENCE_PREFIX = 0x12;
/** Of one id in both indexes: two keys and two values. */
const BYTES_PER_ID = 17 + 8 + 9 + 24;

/** What the next pass begins with, and what was applied: in one batch with the ids (DD17). */
interface Head {
  readonly idKey: Uint8Array;
  readonly next: bigint | undefined;
  /** Sequence of the oldest id: the seek hint. */
  readonly hint: bigint;
  readonly count: number;
  readonly oldestMs: number;
}

/**
 * The source's layout, kept for comparison (DD17): id -> sequence and sequence -> id, a look-up of each id in the store, an ageing pass
 * of at most n oldest from the hint. Keys have a fixed width, so that sequences order as numbers do (the source's decimal strings do not).
 * The sequence is the output offset.
 */
export class SourceWindow implements Window {
  readonly written = undefined;
  readonly missing = [];
  readonly #options: WindowOptions;
  readonly #store: KeyValue;
  readonly #environment: WindowEnvironment;
  #head: Head;
  #dropped = { bySize: 0, byTime: 0 };

  private constructor(options: WindowOptions, store: KeyValue, environment: WindowEnvironment, head: Head) {
    this.#options = options;
    this.#store = store;
    this.#environment = environment;
    this.#head = head;
  }

  static async open(options: WindowOptions, stores: WindowStores, environment: WindowEnvironment): Promise<SourceWindow> {
    const store = await stores.open(STORE);
    const bytes = await store.get(HEAD_KEY);
    const idKey = environment.random.bytes(ID_KEY_BYTES);
    const head = bytes === undefined ? { idKey, next: undefined, hint: 0n, count: 0, oldestMs: 0 } : decodeHead(bytes, environment);
    return new SourceWindow(options, store, environment, head);
  }

  get appliedOutput(): bigint | undefined {
    return this.#head.next;
  }

  /** It does not know: all of the output. */
  get neededFrom(): bigint {
    return 0n;
  }

  get idKey(): Uint8Array {
    return this.#head.idKey;
  }

  async begin(outputFrom: bigint): Promise<void> {
    assert(this.#head.next === undefined, "a window begins once");
    await this.#write([], { ...this.#head, next: outputFrom, hint: outputFrom }, true);
  }

  restore(): Promise<void> {
    assert(false, "one store has no missing segments");
  }

  async lookUp(ids: Uint32Array): Promise<Uint8Array> {
    const bytes = unpackIds(ids);
    const keys = Array.from({ length: ids.length / ID_WORDS }, (_, at) => idKeyOf(bytes.subarray(at * 16, at * 16 + 16)));
    const values = await this.#store.getMany(keys);
    return Uint8Array.from(values, (value) => (value === undefined ? 0 : 1));
  }

  async apply(output: OutputIds): Promise<void> {
    assert(this.#head.next !== undefined && output.next >= this.#head.next, "the output is applied in order");
    if (output.next === this.#head.next) return;
    const bytes = unpackIds(output.ids);
    const operations: KeyValueOperation[] = [];
    for (const [at, offset] of output.offsets.entries()) {
      const id = bytes.subarray(at * 16, at * 16 + 16);
      const entry = new ByteWriter(24).raw(id).u64(BigInt(output.publishedMs[at]!)).finish();
      operations.push({ kind: "put", key: idKeyOf(id), value: new ByteWriter(8).u64(offset).finish() });
      operations.push({ kind: "put", key: sequenceKey(offset), value: entry });
    }
    const isFirst = this.#head.count === 0 && output.offsets.length > 0;
    const added = { ...this.#head, next: output.next, count: this.#head.count + output.offsets.length };
    await this.#write(operations, isFirst ? { ...added, oldestMs: output.publishedMs[0]! } : added, false);
    this.#environment.failpoint("dedup:journaled");
  }

  async newestMs(): Promise<number | undefined> {
    const { hint, next } = this.#head;
    if (next === undefined) return undefined;
    const [newest] = await this.#store.range({ from: sequenceKey(hint), to: sequenceKey(next), limit: 1, reverse: true });
    return newest === undefined ? undefined : publishedMsOf(newest.value);
  }

  forget(nowMs: number): Promise<void> {
    return this.age(nowMs);
  }

  /** One pass: at most n oldest from the hint on; ids, sequence entries and the next hint in one batch (DD17). */
  async age(nowMs: number): Promise<void> {
    const { idsPerSegment, segmentsMax, windowMs } = this.#options;
    const excess = Math.max(0, this.#head.count - idsPerSegment * (segmentsMax + 1));
    if (excess === 0 && (windowMs === 0 || this.#head.oldestMs >= nowMs - windowMs)) return;
    const oldest = await this.#store.range({
      from: sequenceKey(this.#head.hint),
      to: sequenceKey(this.#head.next!),
      limit: SOURCE_AGEING_PASS_IDS,
    });
    const operations: KeyValueOperation[] = [];
    let taken = 0;
    for (const { key, value } of oldest) {
      const isOld = windowMs > 0 && publishedMsOf(value) < nowMs - windowMs;
      if (taken >= excess && !isOld) break;
      taken += 1;
      operations.push({ kind: "delete", key }, { kind: "delete", key: idKeyOf(value.subarray(0, 16)) });
    }
    if (taken === 0) return;
    const first = oldest[taken];
    const hint = first === undefined ? sequenceOf(oldest.at(-1)!.key) + 1n : sequenceOf(first.key);
    const oldestMs = first === undefined ? this.#head.oldestMs : publishedMsOf(first.value);
    await this.#write(operations, { ...this.#head, hint, count: this.#head.count - taken, oldestMs }, false);
    this.#dropped.bySize += Math.min(taken, excess);
    this.#dropped.byTime += Math.max(0, taken - excess);
  }

  /** Each batch is written as it is applied. */
  async flush(): Promise<void> {}

  statistics(nowMs: number): WindowStatistics {
    const { count, next, oldestMs } = this.#head;
    return {
      ids: count,
      segments: 0,
      windowMs: count === 0 ? 0 : Math.max(0, nowMs - oldestMs),
      diskBytes: count * BYTES_PER_ID,
      memoryBytes: 0,
      appliedOutput: next ?? 0n,
      droppedBySize: this.#dropped.bySize,
      droppedByTime: this.#dropped.byTime,
      quarantined: [],
    };
  }

  async close(): Promise<void> {
    await this.#store.close().catch(() => undefined);
  }

  async #write(operations: readonly KeyValueOperation[], head: Head, sync: boolean): Promise<void> {
    await this.#store.batch([...operations, { kind: "put", key: HEAD_KEY, value: encodeHead(head, this.#environment) }], { sync });
    this.#head = head;
  }
}

function encodeHead(head: Head, { checksum }: WindowEnvironment): Uint8Array {
  const body = new ByteWriter(64).raw(head.idKey).u64(head.next!).u64(head.hint).u64(BigInt(head.count)).u64(BigInt(head.oldestMs));
  return sealRecord(FORMAT_VERSION, body.finish(), checksum);
}

function decodeHead(bytes: Uint8Array, { checksum }: WindowEnvironment): Head {
  const reader = new ByteReader(openRecord(bytes, FORMAT_VERSION, checksum).body);
  const idKey = Uint8Array.from(reader.raw(ID_KEY_BYTES));
  return { idKey, next: reader.u64(), hint: reader.u64(), count: Number(reader.u64()), oldestMs: Number(reader.u64()) };
}

function idKeyOf(id: Uint8Array): Uint8Array {
  return new ByteWriter(17).u8(ID_PREFIX).raw(id).finish();
}

function sequenceKey(sequence: bigint): Uint8Array {
  return new ByteWriter(9).u8(SEQUENCE_PREFIX).u64(sequence).finish();
}

function sequenceOf(key: Uint8Array): bigint {
  const reader = new ByteReader(key);
  reader.u8();
  return reader.u64();
}

function publishedMsOf(value: Uint8Array): number {
  const reader = new ByteReader(value);
  reader.raw(16);
  return Number(reader.u64());
}
