import {
  assert,
  ConcordError,
  silentLog,
  silentMetrics,
  type Checksum,
  type Clock,
  type Disk,
  type Log,
  type Metrics,
  type Random,
} from "@concord/runtime";
import { openJournal, type JournalOptions } from "@concord/journal";
import type { LogMessage, LogTopic, MessageLog } from "@concord/ports";
import { ByteReader, ByteWriter } from "@concord/codec";
import { decodeMessages, decodePublication } from "./format.ts";
import {
  EMBEDDED_LOG_LIMITS,
  inputJournalLimits,
  outputJournalLimits,
  PARTITIONS_MAX,
  RETENTION,
  type EmbeddedLogLimits,
  type Retention,
} from "./limits.ts";
import { Partition } from "./partition.ts";
import { TopicLog } from "./topic-log.ts";

export interface EmbeddedLogOptions {
  readonly disk: Disk;
  /** The log's own folder. One process has it open at a time: the application locks its data folder. */
  readonly folder: string;
  /** Fixed when the folder is made (DDD3). */
  readonly partitions: number;
  readonly clock: Clock;
  readonly random: Random;
  /** CRC32C. */
  readonly checksum: Checksum;
  readonly limits?: Partial<EmbeddedLogLimits>;
  readonly retention?: Partial<Retention>;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly failpoint?: (name: string) => void;
}

type Decode = (payload: Uint8Array, offset: bigint) => readonly LogMessage[];

const LAYOUT_VERSION = 1;
const decodeInput: Decode = (payload, offset) => decodeMessages(payload, offset).messages;
const decodeOutput: Decode = (payload, offset) => decodePublication(payload, offset).output;

interface Settings extends EmbeddedLogOptions {
  readonly limits: EmbeddedLogLimits;
  readonly retention: Retention;
}

/**
 * Opens or makes a log. Finishes publications that a crash cut off before it answers. CORRUPT_DATA when a journal is damaged: what is
 * damaged was quarantined and reported. MALFORMED_REQUEST when the folder was made for another number of partitions.
 */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<MessageLog> {
  assert(
    Number.isSafeInteger(options.partitions) && options.partitions > 0 && options.partitions <= PARTITIONS_MAX,
    "a log has partitions",
  );
  const settings: Settings = {
    ...options,
    limits: { ...EMBEDDED_LOG_LIMITS, ...options.limits },
    retention: { ...RETENTION, ...options.retention },
  };
  const { limits, retention } = settings;
  assert(retention.inputBytes + 2 * limits.segmentBytes <= limits.inputBytes, "retention leaves room for input");
  await checkLayout(settings);
  const partitions: Partition[] = [];
  const partition = (number: number): Partition => {
    const found = partitions[number];
    if (found === undefined) throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${number} of ${options.partitions}`);
    return found;
  };
  const opened = await Promise.all(Array.from({ length: options.partitions }, (_, number) => openPartition(settings, number, partition)));
  partitions.push(...opened);
  // One after the other: a publication of one may go on in the input of another.
  for (const each of partitions) await each.recover();
  return new EmbeddedLog(partitions, partition, limits.appendBytes);
}

class EmbeddedLog implements MessageLog {
  readonly appendBytesMax: number;
  readonly #partitions: readonly Partition[];
  readonly #partition: (number: number) => Partition;

  constructor(partitions: readonly Partition[], partition: (number: number) => Partition, appendBytesMax: number) {
    this.#partitions = partitions;
    this.#partition = partition;
    this.appendBytesMax = appendBytesMax;
  }

  get partitions(): number {
    return this.#partitions.length;
  }

  append: MessageLog["append"] = async (partition, messages) => ({ from: await this.#partition(partition).append(messages) });

  /** The data folder's lock says so: one process has it. */
  isAssigned: MessageLog["isAssigned"] = async (partition) => this.#partition(partition).number === partition;

  open: MessageLog["open"] = async (partition, owner) => await this.#partition(partition).open(owner);

  read: MessageLog["read"] = async (topic, partition, from, limits) => await this.#partition(partition).topics[topic].read(from, limits);

  bounds: MessageLog["bounds"] = async (topic, partition) => this.#partition(partition).topics[topic].bounds;

  whenBeyond: MessageLog["whenBeyond"] = async (topic, partition, offset, signal) =>
    await this.#partition(partition).topics[topic].whenBeyond(offset, signal);

  async close(): Promise<void> {
    for (const partition of this.#partitions) await partition.close();
  }
}

async function openPartition(settings: Settings, number: number, partition: (number: number) => Partition): Promise<Partition> {
  const { clock, limits, retention, log = silentLog, failpoint = () => undefined } = settings;
  const topics: Record<LogTopic, TopicLog> = {
    input: await openTopic(settings, number, "input", decodeInput),
    output: await openTopic(settings, number, "output", decodeOutput),
    "dead-letters": await openTopic(settings, number, "dead-letters", decodeInput),
  };
  return new Partition({ number, topics, limits, retention, clock, log, failpoint, partition });
}

async function openTopic(settings: Settings, number: number, topic: LogTopic, decode: Decode): Promise<TopicLog> {
  const { folder, limits } = settings;
  const options: JournalOptions = {
    ...journalOptions(settings, `${folder}/partition-${String(number).padStart(4, "0")}/${topic}`),
    limits: topic === "input" ? inputJournalLimits(limits) : outputJournalLimits(limits),
    // Logs are long: what lies before the last segments is checked when it is read.
    verify: "last",
  };
  const { journal } = await openJournal(options);
  return new TopicLog(options, journal, decode);
}

/** The number of partitions is written down once, before there is any. */
async function checkLayout(settings: Settings): Promise<void> {
  const { journal } = await openJournal(journalOptions(settings, `${settings.folder}/layout`));
  try {
    if (journal.durableSequence === 0n) await journal.append(new ByteWriter().u8(LAYOUT_VERSION).u32(settings.partitions).finish());
    for await (const { payload } of journal.readBackward()) {
      const reader = new ByteReader(payload);
      const [version, partitions] = [reader.u8(), reader.u32()];
      if (version === LAYOUT_VERSION && partitions === settings.partitions) return;
      const text = `the log in ${settings.folder} has ${partitions} partitions (layout ${version}), configured are ${settings.partitions}`;
      throw new ConcordError("MALFORMED_REQUEST", text);
    }
  } finally {
    await journal.close();
  }
}

function journalOptions(settings: Settings, folder: string): JournalOptions {
  const { disk, checksum, random, log = silentLog, metrics = silentMetrics, failpoint = () => undefined } = settings;
  return { disk, folder, checksum, random, log, metrics, failpoint, strict: true };
}
