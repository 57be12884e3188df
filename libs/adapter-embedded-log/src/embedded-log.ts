import {
  assert,
  ConcordError,
  silentLog,
  silentMetrics,
  toConcordError,
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
import { HeldReports } from "./held-reports.ts";
import { Partition } from "./partition.ts";
import { RecentBudget, RecentRecords } from "./recent-records.ts";
import { MENDED_SUFFIX } from "./salvage.ts";
import { soleTenure, takeOver, type Tenure } from "./tenure.ts";
import { TopicLog } from "./topic-log.ts";

export interface EmbeddedLogOptions {
  readonly disk: Disk;
  /** The log's own folder. */
  readonly folder: string;
  /**
   * Several processes may share the log, each the owner of some of its partitions: whether this one should own the partition now. A partition is
   * open from `open` on, which takes it from its owner before, until `release` (I8). Without it one process has the log: the application locks
   * its data folder, and every partition is open.
   */
  readonly isAssigned?: (partition: number) => boolean;
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
/** Of a log that one process has, and of one that several share. */
const SOLE_LAYOUT = "layout";
const SHARED_LAYOUT = "layout-1";
const decodeInput: Decode = (payload, offset) => decodeMessages(payload, offset).messages;
const decodeOutput: Decode = (payload, offset) => decodePublication(payload, offset).output;

interface Settings extends EmbeddedLogOptions {
  readonly limits: EmbeddedLogLimits;
  readonly retention: Retention;
  readonly recent: RecentBudget;
}

/**
 * Opens or makes a log. Finishes publications that a crash cut off before it answers. A partition that cannot be opened does not stop the
 * others: its calls are refused with the reason, CORRUPT_DATA when a journal is damaged. MALFORMED_REQUEST when the folder was made for another number of partitions. A shared log opens nothing
 * yet; its partitions are finished and refused the same way when they are taken over.
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
    recent: new RecentBudget(),
  };
  const { limits, retention } = settings;
  assert(retention.inputBytes + 2 * limits.segmentBytes <= limits.inputBytes, "retention leaves room for input");
  const log = new EmbeddedLog(settings);
  if (settings.isAssigned === undefined) {
    await checkLayout(settings);
    await log.openAll();
  } else {
    await checkSharedLayout(settings);
  }
  return log;
}

class EmbeddedLog implements MessageLog {
  readonly #settings: Settings;
  readonly #open: (Partition | undefined)[] = [];
  /** Why a partition of a log that one process has is not open: it is opened again when its owner tries (I9). */
  readonly #failed = new Map<number, ConcordError>();
  /** Openings and releases of a partition, one at a time. */
  readonly #turns = new Map<number, Promise<unknown>>();

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  get partitions(): number {
    return this.#settings.partitions;
  }

  get appendBytesMax(): number {
    return this.#settings.limits.appendBytes;
  }

  /** Each for itself: one that cannot be opened leaves the others alone (I9). */
  async openAll(): Promise<void> {
    await Promise.all(Array.from({ length: this.partitions }, (_, number) => this.#openSole(number)));
    // One after the other: a publication of one may go on in the input of another.
    for (const each of this.#open) await each?.recover().catch((thrown: unknown) => this.#standsAlone(each.number, thrown));
  }

  async #openSole(number: number): Promise<void> {
    try {
      const tenure = soleTenure(partitionFolder(this.#settings.folder, number));
      this.#open[number] = await openPartition(this.#settings, number, tenure, this.#partition);
      this.#failed.delete(number);
    } catch (thrown) {
      this.#failed.set(number, this.#standsAlone(number, thrown));
    }
  }

  #standsAlone(partition: number, thrown: unknown): ConcordError {
    const error = toConcordError(thrown);
    this.#settings.log?.error("a partition of the log is not served", { partition, code: error.code, reason: error.message });
    return error;
  }

  append: MessageLog["append"] = async (partition, messages) => ({ from: await this.#partition(partition).append(messages) });

  /** Alone the data folder's lock says so: one process has it. */
  isAssigned: MessageLog["isAssigned"] = async (partition) => {
    this.#known(partition);
    return this.#settings.isAssigned?.(partition) ?? true;
  };

  open: MessageLog["open"] = async (partition, owner) => {
    this.#known(partition);
    if (this.#settings.isAssigned !== undefined) await this.#inTurn(partition, () => this.#acquire(partition));
    else if (this.#failed.has(partition)) await this.#inTurn(partition, () => this.#openSole(partition));
    const owned = this.#partition(partition);
    return await whileHeld(owned, () => owned.open(owner));
  };

  release: MessageLog["release"] = async (partition) => {
    this.#known(partition);
    if (this.#settings.isAssigned !== undefined) await this.#inTurn(partition, () => this.#close(partition));
  };

  isHeld: NonNullable<MessageLog["isHeld"]> = async (partition) => (await this.#open[partition]?.isHeld()) ?? false;

  read: MessageLog["read"] = async (topic, partition, from, limits) => {
    const owned = this.#partition(partition);
    return await whileHeld(owned, () => owned.topics[topic].read(from, limits));
  };

  bounds: MessageLog["bounds"] = async (topic, partition) => this.#partition(partition).topics[topic].bounds;

  inputEnd: NonNullable<MessageLog["inputEnd"]> = (partition) => this.#open[partition]?.topics.input.bounds.end;

  outputUse: NonNullable<MessageLog["outputUse"]> = (partition) => this.#open[partition]?.outputUse;

  whenBeyond: MessageLog["whenBeyond"] = async (topic, partition, offset, signal) =>
    await this.#partition(partition).topics[topic].whenBeyond(offset, signal);

  async close(): Promise<void> {
    for (let partition = 0; partition < this.partitions; partition += 1) await this.#inTurn(partition, () => this.#close(partition));
  }

  /** What is open goes on when its tenure lasts: only what failed is read again. Else a new tenure: fence first, read afterwards (I8). */
  async #acquire(number: number): Promise<void> {
    const { disk, folder } = this.#settings;
    if (await this.#open[number]?.isHeld()) return;
    await this.#close(number);
    const tenure = await takeOver(disk, partitionFolder(folder, number));
    let partition: Partition | undefined;
    try {
      partition = await openPartition(this.#settings, number, tenure, this.#partition);
      // One that is damaged is read; its session is refused.
      if (partition.damage === undefined) await partition.recover();
      await tenure.held();
    } catch (thrown) {
      await partition?.close();
      // NOT_OWNER: what is missing or changed is in another owner's folder by now.
      await tenure.held();
      throw thrown;
    }
    this.#open[number] = partition;
  }

  async #close(number: number): Promise<void> {
    const partition = this.#open[number];
    this.#open[number] = undefined;
    await partition?.close();
  }

  #inTurn<Answer>(partition: number, act: () => Promise<Answer>): Promise<Answer> {
    const turn = (this.#turns.get(partition) ?? Promise.resolve()).then(act);
    this.#turns.set(
      partition,
      turn.catch(() => undefined),
    );
    return turn;
  }

  readonly #partition = (number: number): Partition => {
    this.#known(number);
    const found = this.#open[number];
    if (found !== undefined) return found;
    const failure = this.#failed.get(number);
    if (failure !== undefined) {
      const text = `partition ${number} is not served: ${failure.message}`;
      throw new ConcordError(failure.code, text, { applied: "no", metadata: { partition: String(number) }, cause: failure });
    }
    throw new ConcordError("NOT_OWNER", `partition ${number} is not open in this process`, { metadata: { partition: String(number) } });
  };

  #known(number: number): void {
    if (Number.isSafeInteger(number) && number >= 0 && number < this.partitions) return;
    throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${number} of ${this.partitions}`);
  }
}

const partitionFolder = (folder: string, number: number): string => `${folder}/partition-${String(number).padStart(4, "0")}`;

/** NOT_OWNER instead of what is read in another owner's folder: the files are not where this process had them. */
async function whileHeld<Answer>(partition: Partition, act: () => Promise<Answer>): Promise<Answer> {
  try {
    return await act();
  } catch (thrown) {
    if (!(await partition.isHeld())) throw new ConcordError("NOT_OWNER", `partition ${partition.number} belongs to another process now`);
    throw thrown;
  }
}

async function openPartition(
  settings: Settings,
  number: number,
  tenure: Tenure,
  partition: (number: number) => Partition,
): Promise<Partition> {
  const { clock, limits, retention, log = silentLog, failpoint = () => undefined } = settings;
  const cut = (await settings.disk.list(tenure.folder)).find(({ name }) => name.endsWith(MENDED_SUFFIX));
  if (cut !== undefined) {
    const text = `a repair of ${tenure.folder} was cut off: stop the node and run concord repair --apply`;
    throw new ConcordError("CORRUPT_DATA", text, { applied: "no" });
  }
  const opened: TopicLog[] = [];
  const reports = new HeldReports(settings);
  const open = async (topic: LogTopic, decode: Decode, processedTo?: bigint): Promise<TopicLog> => {
    const opening = await openTopic({ ...settings, log: reports.log, metrics: reports.metrics }, tenure, topic, decode, processedTo);
    opened.push(opening);
    return opening;
  };
  try {
    const output = await open("output", decodeOutput);
    // The truth about input below what a sound output acknowledges is that output (I9).
    const processedTo = output.damage === undefined ? await output.acknowledgedInput() : undefined;
    const input = await open("input", decodeInput, processedTo);
    const topics: Record<LogTopic, TopicLog> = { input, output, "dead-letters": await open("dead-letters", decodeInput) };
    await tenure.held();
    reports.release();
    return new Partition({ number, tenure, topics, limits, retention, clock, log, failpoint, partition });
  } catch (thrown) {
    for (const topic of opened) await topic.close();
    await tenure.held().then(
      () => reports.release(),
      () => undefined,
    );
    throw thrown;
  }
}

async function openTopic(
  settings: Settings,
  { folder, isShared }: Tenure,
  topic: LogTopic,
  decode: Decode,
  processedTo: bigint | undefined,
): Promise<TopicLog> {
  const { limits } = settings;
  const options: JournalOptions = {
    ...journalOptions(settings, `${folder}/${topic}`),
    limits: topic === "input" ? inputJournalLimits(limits) : outputJournalLimits(limits),
    // Logs are long: what lies before the last segments is checked when it is read.
    verify: "last",
    takesOver: isShared,
    readsDamaged: true,
    ...(processedTo === undefined ? {} : { processedTo }),
  };
  const { journal } = await openJournal(options);
  // Input alone has one reader that follows the appends: the owner.
  return new TopicLog(options, journal, decode, topic === "input" ? new RecentRecords(settings.recent) : undefined);
}

/** The number of partitions is written down once, before there is any (DDD3). */
async function checkLayout(settings: Settings): Promise<void> {
  await refuseOther(settings.disk, settings.folder, SHARED_LAYOUT, "is shared by several workers");
  const { journal } = await openJournal(journalOptions(settings, `${settings.folder}/${SOLE_LAYOUT}`));
  try {
    if (journal.durableSequence === 0n) await requirePartitions(settings);
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

/** A layout that a repair moved away is written again: the partitions that are there say the same. */
async function requirePartitions({ disk, folder, partitions }: Settings): Promise<void> {
  const there = (await disk.list(folder)).filter(({ name }) => name.startsWith("partition-")).length;
  if (there === 0 || there === partitions) return;
  throw new ConcordError("MALFORMED_REQUEST", `the log in ${folder} has ${there} partitions, configured are ${partitions}`);
}

/**
 * As `checkLayout`, for processes that come at the same time: a folder is named after the number, and making it is one step that all may do.
 * Two that disagree about a new log both refuse.
 */
async function checkSharedLayout({ disk, folder, partitions }: Settings): Promise<void> {
  const parent = `${folder}/${SHARED_LAYOUT}`;
  const own = `partitions-${partitions}`;
  await refuseOther(disk, folder, SOLE_LAYOUT, "was made by one worker alone");
  const others = async (): Promise<readonly string[]> => (await disk.list(parent)).map(({ name }) => name).filter((name) => name !== own);
  let [other] = await others();
  if (other === undefined) {
    await disk.makeFolder(`${parent}/${own}`);
    [other] = await others();
    if (other !== undefined) await disk.remove(`${parent}/${own}`);
  }
  if (other === undefined) return;
  throw new ConcordError("MALFORMED_REQUEST", `the log in ${folder} has ${other.replace("-", " ")}, configured are ${partitions}`);
}

async function refuseOther(disk: Disk, folder: string, layout: string, how: string): Promise<void> {
  if (!(await disk.list(folder)).some(({ name }) => name === layout)) return;
  throw new ConcordError("MALFORMED_REQUEST", `the log in ${folder} ${how}: use it so, or another folder`);
}

function journalOptions(settings: Settings, folder: string): JournalOptions {
  const { disk, checksum, random, log = silentLog, metrics = silentMetrics, failpoint = () => undefined } = settings;
  return { disk, folder, checksum, random, log, metrics, failpoint, strict: true };
}
