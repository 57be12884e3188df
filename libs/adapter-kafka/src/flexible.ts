// Requests of Kafka's flexible versions (KIP-482), which kafkajs cannot write: it has none that names a topic by its id.
import Encoder from "kafkajs/src/protocol/encoder.js";
import type { AbortedTransaction } from "./record-batch.ts";

/** Bytes of a topic's id, as text in hexadecimal digits. */
const ID_BYTES = 16;
const METADATA = { apiKey: 3, apiVersion: 12, apiName: "Metadata" } as const;
const FETCH = { apiKey: 1, apiVersion: 13, apiName: "Fetch" } as const;
/** Tag of the epoch and the offset where a log parts from what was read. */
const DIVERGING_EPOCH = 0;
const NO_FIELDS = Buffer.of(0);
const NO_ID = "00".repeat(ID_BYTES);

interface Request {
  readonly apiKey: number;
  readonly apiVersion: number;
  readonly apiName: string;
  readonly expectResponse: () => boolean;
  readonly encode: () => Promise<Encoder>;
}

export interface DescribedTopic {
  readonly errorCode: number;
  readonly id: string;
  readonly partitions: number;
  readonly replicas: number;
}

export interface FetchAsked {
  readonly topicId: string;
  readonly partition: number;
  readonly from: bigint;
  readonly bytesMax: number;
  readonly isolationLevel: number;
  /** Leader epoch of the batch that ends at `from`; -1: unknown, nothing is compared. */
  readonly lastEpoch: number;
}

export interface FetchAnswer {
  readonly errorCode: number;
  readonly stableEnd: bigint;
  readonly aborted: readonly AbortedTransaction[];
  readonly batches: Buffer;
  /** Offset at which the broker's log parts from what was read before; undefined: the log continues what was read. */
  readonly divergesAt: bigint | undefined;
}

export function metadataRequest(topic: string): Request {
  const name = Buffer.from(topic);
  const asked = [uvarint(2), Buffer.from(NO_ID, "hex"), uvarint(name.length + 1), name, NO_FIELDS];
  return requestOf(METADATA, [...asked, Buffer.of(0, 0), NO_FIELDS]);
}

/** The one topic of the answer. */
export function readMetadata(bytes: Buffer): DescribedTopic {
  const reader = new FlexibleReader(bytes);
  reader.fields();
  reader.skip(4);
  reader.array(() => {
    reader.skip(4);
    reader.text();
    reader.skip(4);
    reader.text();
    reader.fields();
  });
  reader.text();
  reader.skip(4);
  const topics = reader.array(() => {
    const errorCode = reader.int16();
    reader.text();
    const id = reader.take(ID_BYTES).toString("hex");
    reader.skip(1);
    const replicas = reader.array(() => {
      reader.skip(2 + 4 + 4 + 4);
      const { length } = reader.array(() => reader.skip(4));
      for (let list = 0; list < 2; list += 1) reader.array(() => reader.skip(4));
      reader.fields();
      return length;
    });
    reader.skip(4);
    reader.fields();
    return { errorCode, id, partitions: replicas.length, replicas: Math.min(...replicas) };
  });
  const [topic] = topics;
  if (topic === undefined || topics.length !== 1) throw new Error(`the answer has ${topics.length} topics, 1 was asked for`);
  return topic;
}

export function fetchRequest({ topicId, partition, from, bytesMax, isolationLevel, lastEpoch }: FetchAsked): Request {
  const head = Buffer.alloc(4 * 4 + 1 + 4 * 2);
  head.writeInt32BE(-1, 0);
  head.writeInt32BE(bytesMax, 12);
  head.writeInt8(isolationLevel, 16);
  head.writeInt32BE(-1, 21);
  const asked = Buffer.alloc(4 + 4 + 8 + 4 + 8 + 4);
  asked.writeInt32BE(partition, 0);
  asked.writeInt32BE(-1, 4);
  asked.writeBigInt64BE(from, 8);
  asked.writeInt32BE(lastEpoch, 16);
  asked.writeBigInt64BE(-1n, 20);
  asked.writeInt32BE(bytesMax, 28);
  const topics = [uvarint(2), Buffer.from(topicId, "hex"), uvarint(2), asked, NO_FIELDS, NO_FIELDS];
  // Neither forgotten topics nor a rack.
  return requestOf(FETCH, [head, ...topics, uvarint(1), uvarint(1), NO_FIELDS]);
}

/** The one partition of the answer. */
export function readFetched(bytes: Buffer): FetchAnswer {
  const reader = new FlexibleReader(bytes);
  reader.fields();
  reader.skip(4);
  const errorCode = reader.int16();
  reader.skip(4);
  if (errorCode !== 0) return { errorCode, stableEnd: -1n, aborted: [], batches: Buffer.alloc(0), divergesAt: undefined };
  const answers = reader.array(() => {
    reader.skip(ID_BYTES);
    const partitions = reader.array(() => readPartition(reader));
    reader.fields();
    return partitions;
  });
  const [answer] = answers.flat();
  if (answer === undefined || answers.flat().length !== 1) throw new Error("the answer to a fetch has another number of partitions");
  return answer;
}

function readPartition(reader: FlexibleReader): FetchAnswer {
  reader.skip(4);
  const errorCode = reader.int16();
  reader.skip(8);
  const stableEnd = reader.int64();
  reader.skip(8);
  const aborted = reader.array(() => {
    const transaction = { producerId: reader.int64(), firstOffset: reader.int64() };
    reader.fields();
    return transaction;
  });
  reader.skip(4);
  const batches = reader.bytes();
  const diverging = reader.fields().get(DIVERGING_EPOCH);
  return { errorCode, stableEnd, aborted, batches, divergesAt: diverging?.readBigInt64BE(4) };
}

/** The header of a flexible request ends with fields that are not used. */
function requestOf(api: typeof METADATA | typeof FETCH, parts: readonly Buffer[]): Request {
  const encode = async (): Promise<Encoder> => {
    const encoder = new Encoder();
    encoder.writeBufferInternal(Buffer.concat([NO_FIELDS, ...parts]));
    return encoder;
  };
  return { ...api, expectResponse: () => true, encode };
}

function uvarint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left >>>= 7) bytes.push((left & 0x7f) | 0x80);
  return Buffer.from([...bytes, left]);
}

class FlexibleReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  take(length: number): Buffer {
    const to = this.#at + length;
    if (to > this.#bytes.length) throw new Error("the answer is cut");
    const taken = this.#bytes.subarray(this.#at, to);
    this.#at = to;
    return taken;
  }

  skip(length: number): void {
    this.take(length);
  }

  int16(): number {
    return this.take(2).readInt16BE(0);
  }

  int64(): bigint {
    return this.take(8).readBigInt64BE(0);
  }

  uvarint(): number {
    let [value, factor] = [0, 1];
    for (let byte = 0x80; byte >= 0x80; factor *= 0x80) {
      byte = this.take(1)[0]!;
      value += (byte & 0x7f) * factor;
      if (factor > 2 ** 35) throw new Error("a number has no end");
    }
    return value;
  }

  /** No bytes for null. */
  bytes(): Buffer {
    const length = this.uvarint() - 1;
    return length <= 0 ? Buffer.alloc(0) : this.take(length);
  }

  text(): string {
    return this.bytes().toString();
  }

  array<Item>(read: () => Item): Item[] {
    const items: Item[] = [];
    for (let left = this.uvarint() - 1; left > 0; left -= 1) items.push(read());
    return items;
  }

  /** Tagged fields by their tags. */
  fields(): ReadonlyMap<number, Buffer> {
    const fields = new Map<number, Buffer>();
    for (let left = this.uvarint(); left > 0; left -= 1) {
      const tag = this.uvarint();
      fields.set(tag, this.take(this.uvarint()));
    }
    return fields;
  }
}
