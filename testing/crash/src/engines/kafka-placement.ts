// Which brokers lead the partitions of a pipeline and coordinate its transactions, as the brokers themselves say.
import { connect } from "node:net";

const METADATA = { key: 3, version: 1 } as const;
const FIND_COORDINATOR = { key: 10, version: 1 } as const;
const OF_TRANSACTIONS = 1;
const ANSWER_WITHIN_MS = 2_000;
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const LENGTH_BYTES = 4;

/** What a load on Kafka uses, by its names there. */
export interface Pipeline {
  readonly topics: readonly string[];
  readonly transactionalIds: readonly string[];
}

export interface Placement {
  /** By partition of the pipeline's topics ("topic/partition") its leader's id; -1: none. */
  readonly leaders: ReadonlyMap<string, number>;
  /** By transactional id its coordinator's id. */
  readonly coordinators: ReadonlyMap<string, number>;
  /** Partitions of which a replica is behind. */
  readonly lagging: number;
}

/** Ids of brokers are the numbers of the engine's nodes. */
export type Broker = number;

/** Asks the brokers in turn: one that is paused does not answer. Rejects when none does. */
export async function kafkaPlacement(addresses: readonly string[], { topics, transactionalIds }: Pipeline): Promise<Placement> {
  const asked = await askAny(addresses, METADATA, metadataRequest(topics));
  const { leaders, lagging } = readMetadata(asked, new Set(topics));
  const coordinators = new Map<string, Broker>();
  for (const id of transactionalIds) {
    const broker = readCoordinator(await askAny(addresses, FIND_COORDINATOR, coordinatorRequest(id)));
    if (broker !== undefined) coordinators.set(id, broker);
  }
  return { leaders, coordinators, lagging };
}

/** The broker that leads the most partitions; of several the one that coordinates the most. */
export function busiestBroker({ leaders, coordinators }: Placement): Broker {
  const load = (broker: Broker): readonly [number, number] => [countOf(leaders, broker), countOf(coordinators, broker)];
  const brokers = [...new Set([...leaders.values(), ...coordinators.values()])].filter((broker) => broker >= 0);
  if (brokers.length === 0) throw new Error("no broker leads a partition of the pipeline");
  return brokers.reduce((most, broker) => {
    const [[led, coordinated], [mostLed, mostCoordinated]] = [load(broker), load(most)];
    return led > mostLed || (led === mostLed && coordinated > mostCoordinated) ? broker : most;
  });
}

export function countOf(placed: ReadonlyMap<string, Broker>, broker: Broker): number {
  return [...placed.values()].filter((each) => each === broker).length;
}

/** Of what a broker had before, how much another one has now. */
export function movedFrom(broker: Broker, before: ReadonlyMap<string, Broker>, after: ReadonlyMap<string, Broker>): number {
  const isElsewhere = (name: string): boolean => (after.get(name) ?? -1) >= 0 && after.get(name) !== broker;
  return [...before].filter(([name, had]) => had === broker && isElsewhere(name)).length;
}

async function askAny(addresses: readonly string[], api: { key: number; version: number }, body: Buffer): Promise<Buffer> {
  let last: unknown = new Error("there are no brokers");
  for (const address of addresses) {
    try {
      return await ask(address, api, body);
    } catch (error) {
      last = error;
    }
  }
  throw new Error(`no broker of ${addresses.join(", ")} answers`, { cause: last });
}

function ask(address: string, { key, version }: { key: number; version: number }, body: Buffer): Promise<Buffer> {
  const [host, port] = hostAndPort(address);
  const head = Buffer.alloc(14);
  head.writeInt32BE(10 + body.length, 0);
  head.writeInt16BE(key, 4);
  head.writeInt16BE(version, 6);
  // The correlation id stays 0; no client id.
  head.writeInt16BE(-1, 12);
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port }, () => socket.write(Buffer.concat([head, body])));
    const late = setTimeout(() => socket.destroy(new Error(`${address}: no answer`)), ANSWER_WITHIN_MS);
    let answer = Buffer.alloc(0);
    socket.on("error", reject);
    socket.on("close", () => {
      clearTimeout(late);
      reject(new Error(`${address}: closed`));
    });
    socket.on("data", (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      const bytes = answer.length < LENGTH_BYTES ? Infinity : answer.readInt32BE(0);
      if (bytes !== Infinity && bytes > ANSWER_BYTES_MAX) socket.destroy(new Error(`${address}: an answer of ${bytes} bytes`));
      if (answer.length < LENGTH_BYTES + bytes) return;
      // Behind length and correlation id.
      resolve(answer.subarray(2 * LENGTH_BYTES));
      socket.destroy();
    });
  });
}

export function hostAndPort(address: string): readonly [string, number] {
  const colon = address.lastIndexOf(":");
  return [address.slice(0, colon), Number(address.slice(colon + 1))];
}

function metadataRequest(topics: readonly string[]): Buffer {
  const count = Buffer.alloc(4);
  count.writeInt32BE(topics.length);
  return Buffer.concat([count, ...topics.map(textOf)]);
}

function coordinatorRequest(transactionalId: string): Buffer {
  return Buffer.concat([textOf(transactionalId), Buffer.from([OF_TRANSACTIONS])]);
}

function textOf(text: string): Buffer {
  const length = Buffer.alloc(2);
  length.writeInt16BE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text)]);
}

/** Metadata, version 1. */
export function readMetadata(answer: Buffer, topics: ReadonlySet<string>): Pick<Placement, "leaders" | "lagging"> {
  const reader = new Reader(answer);
  reader.list(() => [reader.int32(), reader.text(), reader.int32(), reader.text()]);
  // The controller.
  reader.int32();
  const leaders = new Map<string, Broker>();
  let lagging = 0;
  reader.list(() => {
    reader.int16();
    const topic = reader.text();
    reader.int8();
    reader.list(() => {
      reader.int16();
      const [partition, leader] = [reader.int32(), reader.int32()];
      const replicas = reader.list(() => reader.int32());
      const inSync = reader.list(() => reader.int32());
      if (!topics.has(topic)) return;
      leaders.set(`${topic}/${partition}`, leader);
      if (inSync.length < replicas.length) lagging += 1;
    });
  });
  return { leaders, lagging };
}

/** FindCoordinator, version 1. undefined: there is none now. */
export function readCoordinator(answer: Buffer): Broker | undefined {
  const reader = new Reader(answer);
  // How long the broker throttled.
  reader.int32();
  const error = reader.int16();
  reader.text();
  const broker = reader.int32();
  return error === 0 ? broker : undefined;
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int8(): number {
    this.#at += 1;
    return this.#bytes.readInt8(this.#at - 1);
  }

  int16(): number {
    this.#at += 2;
    return this.#bytes.readInt16BE(this.#at - 2);
  }

  int32(): number {
    this.#at += 4;
    return this.#bytes.readInt32BE(this.#at - 4);
  }

  /** One that is missing is empty. */
  text(): string {
    const length = Math.max(0, this.int16());
    this.#at += length;
    return this.#bytes.toString("utf8", this.#at - length, this.#at);
  }

  list<T>(read: () => T): readonly T[] {
    return Array.from({ length: Math.max(0, this.int32()) }, read);
  }
}
