import {
  messageBytes,
  type LogBounds,
  type LogSession,
  type LogTopic,
  type NewMessage,
  type Publication,
  type PublishOutcome,
} from "@concord/ports";
import { assert, ConcordError, sleep } from "@concord/runtime";
import { repeated, type KafkaContext } from "./context.ts";
import { unavailable } from "./failures.ts";
import { epochOf, fenceRecord, metadataOf, ownerOf, wasSingle } from "./fence.ts";
import { decideHidden } from "./hidden.ts";
import { failureType, KafkaFailure, type CommittedOffset, type Producer } from "./kafka-wire.ts";
import {
  BATCH_BYTES_MAX,
  COMMIT_EVERY_MS,
  CONCURRENT_ATTEMPTS_MAX,
  PUBLISH_TIMEOUT_MS,
  SINGLE_OWNER_MS_MAX,
  VISIBLE_PAUSE_MS,
} from "./limits.ts";
import { checkRecord, writeRecord, type PipelineRecord } from "./pipeline-record.ts";
import { encodeBatch } from "./record-batch.ts";
import { deadLettersFrom, newestInputOffset } from "./tail.ts";

/** What a session learns about others, and tells them. */
export interface SessionEvents {
  /** Messages are visible in a topic. */
  written(topic: LogTopic, partition: number): void;
  /** The broker refused this owner: who is it now? */
  fenced(owner: string): void;
}

const FENCED = new Set(["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"]);
/** Sequence numbers follow this one with 0. */
const SEQUENCE_MODULUS = 2 ** 31;

/**
 * Fences every earlier owner, then reads where it stopped (DDD4): committed offset, newest input offset in the output, the output's bounds.
 * PARTITION_STOPPED when they contradict each other or the topics have grown; REPLICAS_UNAVAILABLE.
 */
export async function openSession(context: KafkaContext, partition: number, owner: string, events: SessionEvents): Promise<LogSession> {
  const { wire, topics, pipeline } = context;
  try {
    const record = await checkPartitions(context);
    await checkRecord(context, partition, record);
    const producer = await repeated(context, () => wire.initProducer(`${pipeline}/${partition}`));
    const committed = await repeated(context, () => wire.committed(pipeline, { topic: topics.input, partition }));
    await decideHidden(context, partition, producer, committed?.offset);
    // An owner without transactions is fenced by records alone, in each topic it writes to.
    const fences = context.mode === "single-owner" || wasSingle(committed?.metadata ?? "");
    if (fences) await writeFences(context, partition, owner, producer);
    const output = await wire.bounds(topics.output, partition);
    const newestInput = await newestInputOffset(context, partition, output);
    if (committed === undefined && newestInput !== undefined) throw offsetLost(context, partition, newestInput);
    const after = newestInput === undefined ? 0n : newestInput + 1n;
    const begun = committed?.offset ?? (await wire.bounds(topics.input, partition)).start;
    const acknowledgedInput = begun > after ? begun : after;
    await compareEpoch(context, partition, committed, acknowledgedInput);
    const known = await deadLettersFrom(context, partition, acknowledgedInput);
    const opened = { partition, owner, record, producer, output, acknowledgedInput, newestInput, known, sequence: fences ? 1 : 0 };
    const session = new Session(context, opened, events);
    // The name of the owner is on the brokers before anything is published: who is fenced can tell whether another worker came.
    await session.announce();
    await writeRecord(context, partition, record);
    return session;
  } catch (error) {
    throw unavailable(error);
  }
}

/**
 * Compares the leader epoch that was committed with the input as it is (I12). Without transactions processing may go on behind the committed offset,
 * and the epoch is that of the newest published input all the same.
 */
async function compareEpoch(
  { reader, topics, log }: KafkaContext,
  partition: number,
  committed: CommittedOffset | undefined,
  goesOn: bigint,
): Promise<void> {
  const isOfThisPosition = committed !== undefined && (committed.offset === goesOn || wasSingle(committed.metadata));
  const epoch = isOfThisPosition ? epochOf(committed.metadata) : undefined;
  reader.epochs.begin(partition, goesOn, epoch);
  if (epoch === undefined && goesOn > 0n && reader.epochs.isFirstUnknown())
    log.info("a committed offset has no leader epoch: a loss of input before it cannot be seen; publications commit one from now on", {
      topic: topics.input,
      partition,
      offset: goesOn,
    });
  await reader.compareInput(partition, goesOn);
}

interface Opened {
  readonly partition: number;
  readonly owner: string;
  readonly record: PipelineRecord;
  readonly producer: Producer;
  readonly output: LogBounds;
  readonly acknowledgedInput: bigint;
  readonly newestInput: bigint | undefined;
  /** Offsets of dead letters, by input offset, of what is processed again. */
  readonly known: ReadonlyMap<bigint, bigint>;
  /** What the next batch of each topic begins with. */
  readonly sequence: number;
}

/** One producer for one session: after any failure nothing is sent by it any more (K1, K2). */
class Session implements LogSession {
  readonly acknowledgedInput: bigint;
  readonly output: LogBounds;
  readonly #context: KafkaContext;
  readonly #opened: Opened;
  readonly #events: SessionEvents;
  readonly #sequences = new Map<string, number>();
  readonly #ends = new Map<string, bigint>();
  #newestInput: bigint | undefined;
  #acknowledged: bigint;
  #turn: Promise<unknown> = Promise.resolve();
  #given: PublishOutcome | undefined;
  #committedMs: number;
  #committedEpoch: number | undefined;
  readonly #openedMs: number;

  constructor(context: KafkaContext, opened: Opened, events: SessionEvents) {
    this.#context = context;
    this.#opened = opened;
    this.#events = events;
    this.acknowledgedInput = opened.acknowledgedInput;
    this.#acknowledged = opened.acknowledgedInput;
    this.output = opened.output;
    this.#newestInput = opened.newestInput;
    this.#openedMs = context.clock.monotonicMs();
    this.#committedMs = this.#openedMs;
  }

  async announce(): Promise<void> {
    if (this.#context.mode === "single-owner") return this.#commitOffset(this.acknowledgedInput);
    await this.#addOffset(this.acknowledgedInput);
    await this.#context.wire.endTransaction(this.#opened.producer, "commit");
  }

  publish(publication: Publication): Promise<PublishOutcome> {
    const outcome = this.#turn.then(async () => {
      if (this.#given !== undefined) return this.#given;
      for (const { partition } of publication.rerouted) checkPartition(this.#context, partition);
      const given = await this.#inTime(this.#publish(publication));
      if (given.kind !== "published") this.#given = given;
      return given;
    });
    this.#turn = outcome.catch(() => undefined);
    return outcome;
  }

  async close(): Promise<void> {
    await this.#turn;
    this.#given ??= { kind: "fenced" };
  }

  /** What is not decided in time is decided by the next fence. */
  async #inTime(outcome: Promise<PublishOutcome>): Promise<PublishOutcome> {
    const over = new AbortController();
    const late = sleep(this.#context.clock, PUBLISH_TIMEOUT_MS, over.signal).then((): PublishOutcome => ({
      kind: "unknown",
      cause: new KafkaFailure(`no answer within ${PUBLISH_TIMEOUT_MS} ms`, undefined),
    }));
    try {
      return await Promise.race([outcome, late]);
    } finally {
      over.abort();
    }
  }

  async #publish(publication: Publication): Promise<PublishOutcome> {
    const { output, deadLetters, acknowledgedInput } = publication;
    assert(acknowledgedInput >= this.#acknowledged, "the acknowledged input never goes back");
    const newestInput = this.#checkOrder(output);
    try {
      await this.#reroute(publication);
      const isSingle = this.#context.mode === "single-owner";
      const published = await (isSingle ? this.#writeInOrder(publication, newestInput) : this.#writeAtOnce(publication));
      this.#acknowledged = acknowledgedInput;
      this.#newestInput = newestInput;
      if (output.length > 0) await this.#untilVisible("output");
      if (deadLetters.length > 0) await this.#untilVisible("dead-letters");
      return published;
    } catch (error) {
      return await this.#failed(error);
    }
  }

  async #writeAtOnce({ output, deadLetters, acknowledgedInput }: Publication): Promise<Published> {
    const letters = this.#lettersOf(deadLetters);
    await this.#addPartitions(output, letters.fresh);
    const outputFrom = await this.#send("output", output);
    const freshFrom = await this.#send("dead-letters", letters.fresh);
    await this.#addOffset(acknowledgedInput);
    await this.#context.wire.endTransaction(this.#opened.producer, "commit");
    return { kind: "published", outputFrom, ...letters.offsets(freshFrom) };
  }

  /**
   * Dead letters, output, offset: whatever stops it between two of them, the next owner goes on behind the newest message of the output, and
   * dead letters that are there already are not written again (I8).
   */
  async #writeInOrder({ output, deadLetters, acknowledgedInput }: Publication, newestInput: bigint | undefined): Promise<Published> {
    const { clock } = this.#context;
    if (clock.monotonicMs() - this.#openedMs > SINGLE_OWNER_MS_MAX)
      throw new KafkaFailure("the session is too old to be fenced", undefined);
    const epoch = this.#epochBefore(acknowledgedInput);
    // An output without its offset's commit must not be of a later epoch than the one committed: the next owner compares that one (I12).
    if (epoch !== this.#committedEpoch) await this.#commitOffset(this.#acknowledged, epoch);
    const letters = this.#lettersOf(deadLetters);
    const freshFrom = await this.#send("dead-letters", letters.fresh);
    const outputFrom = await this.#send("output", output);
    if (newestInput === undefined || newestInput < this.#acknowledged || clock.monotonicMs() - this.#committedMs >= COMMIT_EVERY_MS)
      await this.#commitOffset(acknowledgedInput);
    return { kind: "published", outputFrom, ...letters.offsets(freshFrom) };
  }

  /** Those that are not there already, and the offsets of all once these are sent. */
  #lettersOf(deadLetters: readonly NewMessage[]): Letters {
    const { known } = this.#opened;
    const offsets = deadLetters.map((message) => {
      const input = this.#context.inputOffsetOf(message);
      return input === undefined ? undefined : known.get(input);
    });
    const fresh = deadLetters.filter((_, at) => offsets[at] === undefined);
    return {
      fresh,
      offsets: (freshFrom) => {
        if (fresh.length === deadLetters.length) return { deadLettersFrom: freshFrom };
        let next = freshFrom;
        const deadLetterOffsets = offsets.map((offset) => offset ?? next++);
        return { deadLettersFrom: deadLetterOffsets[0]!, deadLetterOffsets };
      },
    };
  }

  /**
   * A commit is answered once it is decided; the markers that make it visible follow. What they do not show in time may yet be aborted by the
   * next owner (I9): it is unknown.
   */
  async #untilVisible(topic: "output" | "dead-letters"): Promise<void> {
    const { wire, topics, clock } = this.#context;
    const { partition } = this.#opened;
    const end = this.#endOf(topic);
    for (let attempt = 0; attempt < CONCURRENT_ATTEMPTS_MAX; attempt += 1) {
      if ((await wire.end(topics[topic], partition)) >= end) return this.#events.written(topic, partition);
      await sleep(clock, VISIBLE_PAUSE_MS);
    }
    throw new KafkaFailure(`${topics[topic]}/${partition} does not show what was committed up to ${end}`, undefined);
  }

  async #failed(error: unknown): Promise<PublishOutcome> {
    const type = failureType(error);
    if (error instanceof ConcordError) throw error;
    if (type === "MESSAGE_TOO_LARGE") {
      this.#given = { kind: "unknown", cause: error };
      throw new ConcordError("LIMIT_EXCEEDED", `a message is larger than max.message.bytes of its topic: raise it (${String(error)})`, {
        cause: error,
      });
    }
    if (!FENCED.has(type ?? "")) return { kind: "unknown", cause: error };
    const { wire, topics, pipeline } = this.#context;
    const committed = await wire.committed(pipeline, { topic: topics.input, partition: this.#opened.partition }).catch(() => undefined);
    if (committed !== undefined) this.#events.fenced(ownerOf(committed.metadata));
    return { kind: "fenced" };
  }

  /** Before everything else and outside the transaction, which would hold back all readers of the other partition (DDD3). */
  async #reroute({ rerouted }: Publication): Promise<void> {
    const { wire, topics, clock, batchBytesMax } = this.#context;
    const inputBytesMax = batchBytesMax.input;
    for (const target of new Set(rerouted.map(({ partition }) => partition))) {
      const messages = rerouted.filter(({ partition }) => partition === target).map(({ message }) => message);
      for (const cut of cuts(messages, inputBytesMax))
        await wire.produce(topics.input, target, encodeBatch(cut, undefined, clock.nowMs(), inputBytesMax), undefined);
      this.#events.written("input", target);
    }
  }

  async #addPartitions(output: readonly NewMessage[], deadLetters: readonly NewMessage[]): Promise<void> {
    const { topics, wire } = this.#context;
    const { partition, producer } = this.#opened;
    const used = [...(output.length > 0 ? [topics.output] : []), ...(deadLetters.length > 0 ? [topics["dead-letters"]] : [])];
    if (used.length === 0) return;
    const partitions = used.map((topic) => ({ topic, partition }));
    await repeated(this.#context, () => wire.addPartitions(producer, partitions));
  }

  async #addOffset(offset: bigint): Promise<void> {
    const { wire, topics, pipeline } = this.#context;
    const { partition, producer, owner, record } = this.#opened;
    const committed = { offset, metadata: metadataOf(owner, false, record, this.#epochBefore(offset)) };
    await repeated(this.#context, () => wire.addOffset(producer, pipeline, { topic: topics.input, partition }, committed));
  }

  /** Not fenced, and need not be: an owner before this one commits no more than it had written. */
  async #commitOffset(offset: bigint, epoch = this.#epochBefore(offset)): Promise<void> {
    const { wire, topics, pipeline, clock } = this.#context;
    const { partition, owner, record } = this.#opened;
    const committed = { offset, metadata: metadataOf(owner, true, record, epoch) };
    await repeated(this.#context, () => wire.commitOffset(pipeline, { topic: topics.input, partition }, committed));
    this.#committedMs = clock.monotonicMs();
    this.#committedEpoch = epoch;
  }

  /** Leader epoch of the last record before an input offset. */
  #epochBefore(offset: bigint): number | undefined {
    return this.#context.reader.epochs.before(this.#opened.partition, offset);
  }

  /** The first offset of the messages, which follow each other although they may go in several batches: this session is the only writer. */
  async #send(topic: "output" | "dead-letters", messages: readonly NewMessage[]): Promise<bigint> {
    const { topics, wire, clock, batchBytesMax, mode } = this.#context;
    const { partition, producer } = this.#opened;
    const isTransactional = mode === "transactional";
    let first: bigint | undefined;
    for (const cut of cuts(messages, batchBytesMax[topic])) {
      const sequence = this.#sequences.get(topic) ?? this.#opened.sequence;
      const batch = encodeBatch(cut, { ...producer, sequence, isTransactional }, clock.nowMs(), batchBytesMax[topic]);
      const id = isTransactional ? producer.transactionalId : undefined;
      const { from, hasAppendTime } = await wire.produce(topics[topic], partition, batch, id);
      // An answer with a time is that to a repetition: these messages are not in the log (G2).
      if (hasAppendTime || from < this.#endOf(topic))
        throw new KafkaFailure(`the broker took a batch at ${from} for one that it has`, undefined);
      const expected = this.#ends.get(topic);
      if (first !== undefined && from !== expected) throw foreignWriter(topics[topic], partition, from);
      first ??= from;
      this.#sequences.set(topic, (sequence + cut.length) % SEQUENCE_MODULUS);
      this.#ends.set(topic, from + BigInt(cut.length));
    }
    return first ?? this.#endOf(topic);
  }

  #endOf(topic: "output" | "dead-letters"): bigint {
    return this.#ends.get(topic) ?? (topic === "output" ? this.output.end : 0n);
  }

  /** Input offsets rise in the output: the alarm for messages that were lost or written twice (G14). */
  #checkOrder(output: readonly NewMessage[]): bigint | undefined {
    let newest = this.#newestInput;
    for (const message of output) {
      const input = this.#context.inputOffsetOf(message);
      if (input === undefined) continue;
      assert(newest === undefined || input > newest, "input offsets rise in the output");
      newest = input;
    }
    return newest;
  }
}

type Published = Extract<PublishOutcome, { readonly kind: "published" }>;

interface Letters {
  readonly fresh: readonly NewMessage[];
  readonly offsets: (freshFrom: bigint) => Pick<Published, "deadLettersFrom" | "deadLetterOffsets">;
}

/** From each record on the broker refuses the producers before this one, in transactions or not. */
async function writeFences(
  { wire, topics, clock, mode }: KafkaContext,
  partition: number,
  owner: string,
  producer: Producer,
): Promise<void> {
  const record = [fenceRecord(owner, clock.nowMs())];
  const isTransactional = mode === "transactional";
  const written = [topics.output, topics["dead-letters"]];
  if (isTransactional)
    await wire.addPartitions(
      producer,
      written.map((topic) => ({ topic, partition })),
    );
  const batch = encodeBatch(record, { ...producer, sequence: 0, isTransactional }, clock.nowMs());
  for (const topic of written) await wire.produce(topic, partition, batch, isTransactional ? producer.transactionalId : undefined);
}

/** Stretches of the messages that each fit into a record batch. */
export function* cuts(messages: readonly NewMessage[], bytesMax: number): Generator<readonly NewMessage[]> {
  const most = Math.min(bytesMax, BATCH_BYTES_MAX);
  let begin = 0;
  let bytes = 0;
  for (const [index, message] of messages.entries()) {
    const size = messageBytes(message);
    if (index > begin && bytes + size > most) {
      yield messages.slice(begin, index);
      begin = index;
      bytes = 0;
    }
    bytes += size;
  }
  if (begin < messages.length) yield messages.slice(begin);
}

async function checkPartitions({ wire, topics, partitions }: KafkaContext): Promise<PipelineRecord> {
  const ids = new Map<string, string>();
  for (const topic of Object.values(topics)) {
    const size = await wire.partitions(topic);
    ids.set(topic, size.id);
    if (size.partitions === partitions) continue;
    throw new ConcordError(
      "PARTITION_STOPPED",
      `${topic} has ${size.partitions} partitions by now and had ${partitions}: an id's partition follows from their number (DDD3); ` +
        "begin a new pipeline, with a new kafkaPipeline and new topics (docs/operations.md)",
    );
  }
  return { partitions, inputId: ids.get(topics.input)!, outputId: ids.get(topics.output)! };
}

export function checkPartition({ partitions }: Pick<KafkaContext, "partitions">, partition: number): void {
  if (Number.isInteger(partition) && partition >= 0 && partition < partitions) return;
  throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${partitions}`);
}

function offsetLost({ pipeline, topics }: KafkaContext, partition: number, newest: bigint): ConcordError {
  return new ConcordError(
    "PARTITION_STOPPED",
    `the committed offset of ${topics.input}/${partition} in the group ${pipeline} is gone (offsets.retention.minutes), and the output has messages up ` +
      `to input offset ${newest}. If the topic was deleted and made anew, its offsets begin again: begin a new pipeline, with a new kafkaPipeline and new ` +
      `output and dead-letter topics. Only if it is still the same topic, commit ${newest + 1n} to the group (docs/operations.md)`,
  );
}

function foreignWriter(topic: string, partition: number, offset: bigint): ConcordError {
  return new ConcordError(
    "PARTITION_STOPPED",
    `another producer writes to ${topic}/${partition} (offset ${offset}): let nothing but this pipeline write there`,
  );
}
