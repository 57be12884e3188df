import { assert, ConcordError, toConcordError, type Clock, type Log } from "@concord/runtime";
import type { LogSession, LogTopic, NewMessage, OutputUse, Publication, PublishOutcome } from "@concord/ports";
import { decodeMessages, decodePublication, encodeMessages, encodePublication, type PublicationRecord, type Rerouted } from "./format.ts";
import { RETENTION_EVERY_MS, type EmbeddedLogLimits, type Retention } from "./limits.ts";
import type { Tenure } from "./tenure.ts";
import type { TopicLog } from "./topic-log.ts";

export interface PartitionContext {
  readonly number: number;
  readonly tenure: Tenure;
  readonly topics: Readonly<Record<LogTopic, TopicLog>>;
  readonly limits: EmbeddedLogLimits;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly log: Log;
  readonly failpoint: (name: string) => void;
  /** Another partition's, by its number; PARTITION_UNKNOWN. */
  readonly partition: (number: number) => Partition;
}

/** Everything of one partition: appends to its input, one owner's publications, retention. */
export class Partition {
  readonly #context: PartitionContext;
  /** Grows with every `open`: sessions of earlier ones are fenced (I4). */
  #epoch = 0;
  /** Publications and opens, one at a time (I2). */
  #turn: Promise<unknown> = Promise.resolve();
  #publication = 0n;
  #acknowledged = 0n;
  /** The newest output record's offset: retention never reaches it, it holds what is acknowledged. */
  #newestOutput = 0n;
  /** Retention does not reach it: the owner's window is rebuilt from there (DDD10). No owner has said it: all of the output is kept. */
  #neededFrom = 0n;
  /** Bytes of segments wholly below `neededFrom`, when the output began at `start`. */
  #unneeded = { firstOrdinal: -1, neededFrom: -1n, bytes: 0 };
  /** The logs do not agree: nothing is appended or published until a recovery finds that they do. */
  #disagreement: ConcordError | undefined;
  #trimming: Promise<void> | undefined;
  #trimmedSegments = 0;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;

  constructor(context: PartitionContext) {
    this.#context = context;
  }

  get number(): number {
    return this.#context.number;
  }

  get topics(): Readonly<Record<LogTopic, TopicLog>> {
    return this.#context.topics;
  }

  /** Set when one of its journals is damaged where it is needed: it is only read, and starts no more by itself (I9). */
  get damage(): ConcordError | undefined {
    return Object.values(this.topics).find(({ damage }) => damage !== undefined)?.damage;
  }

  get outputUse(): OutputUse {
    const { output } = this.topics;
    const bytes = output.sizeBytes;
    const neededBytes = bytes - this.#unneededBytes(output);
    assert(neededBytes >= 0, "what the window needs is a part of the output");
    return { bytes, neededBytes, bytesMax: this.#context.retention.outputBytes };
  }

  /** Looked up again when it can have grown by whole segments: for each call that appends. */
  #unneededBytes(output: TopicLog): number {
    const { firstOrdinal } = output;
    if (this.#unneeded.firstOrdinal !== firstOrdinal || this.#unneeded.neededFrom !== this.#neededFrom) {
      const { segments } = output;
      const needed = segments.findIndex((_, at) => at === segments.length - 1 || segments[at + 1]!.firstSequence > this.#neededFrom);
      const bytes = segments.slice(0, Math.max(0, needed)).reduce((sum, segment) => sum + segment.bytes, 0);
      this.#unneeded = { firstOrdinal, neededFrom: this.#neededFrom, bytes };
    }
    return this.#unneeded.bytes;
  }

  /** What is removed need not wait for the next publication: there may be none while messages are refused. */
  #keepOutputFrom(offset: bigint): void {
    assert(offset <= this.topics.output.end, "the window is of this output");
    if (offset === this.#neededFrom) return;
    this.#neededFrom = offset;
    if (this.topics.output.sizeBytes <= this.#context.retention.outputBytes) return;
    this.#trimmedSegments = -1;
    this.#trimLater();
  }

  async append(messages: readonly NewMessage[]): Promise<bigint> {
    const { input } = this.topics;
    if (messages.length === 0) return input.end;
    this.#requireSound();
    this.#checkBacklog(input);
    return await this.#appendInput(encodeMessages(messages), messages.length);
  }

  async #appendInput(payload: Uint8Array, count: number): Promise<bigint> {
    const { input } = this.topics;
    try {
      const from = await input.append(payload, count);
      this.#context.failpoint("log:input-appended");
      return from;
    } catch (thrown) {
      // What a failed sync left is decided now: opening the journal again finds it or not.
      await input.ready().catch(() => undefined);
      throw thrown;
    } finally {
      await this.#show([input]);
    }
  }

  /** What is durable now becomes visible, unless another process may have taken over before it was written (I8). NOT_OWNER. */
  async #show(topics: readonly TopicLog[]): Promise<void> {
    const ends = topics.map(({ end }) => end);
    await this.#context.tenure.held();
    topics.forEach((topic, at) => topic.showTo(ends[at]!));
  }

  /** Whether this process still owns the partition. */
  isHeld(): Promise<boolean> {
    return this.#context.tenure.held().then(
      () => true,
      (thrown: unknown) => {
        if (toConcordError(thrown).code === "NOT_OWNER") return false;
        throw thrown;
      },
    );
  }

  #checkBacklog(input: TopicLog): void {
    const { inputBytes } = this.#context.limits;
    if (input.sizeBytes < inputBytes) return;
    this.#trimmedSegments = -1;
    this.#trimLater();
    throw new ConcordError("OVERLOADED", `partition ${this.#context.number}'s input is at its limit of ${inputBytes} bytes`);
  }

  /** What the disk says, after the process began or after an unknown outcome; finishes what a crash cut off. */
  async recover(): Promise<void> {
    const { input, output } = this.topics;
    for (const topic of Object.values(this.topics)) await topic.ready();
    this.#disagreement = undefined;
    this.#requireSound();
    let hasOutput = false;
    this.#acknowledged = input.bounds.start;
    for await (const { payload, sequence } of output.recordsBackward()) {
      const newest = decodePublication(payload, sequence);
      hasOutput = true;
      this.#requireInput(newest.acknowledgedInput);
      this.#newest(newest, sequence);
      // Those before it are settled: a publication begins only after the one before it, or after recovery (I2).
      await this.#settle(newest);
      break;
    }
    if (!hasOutput) this.#requireInput(0n);
    await this.#show(Object.values(this.topics));
  }

  /** Input is trimmed only below what the newest publication acknowledges, which comes after the input it acknowledges (I7). */
  #requireInput(acknowledged: bigint): void {
    const { bounds, end } = this.topics.input;
    const { start } = bounds;
    if (start <= acknowledged && acknowledged <= end) return;
    const what = acknowledged > end ? "the newest input is missing" : "the newest output is missing";
    const text = `${what}: input ${start} to ${end} is there, output acknowledges ${acknowledged}`;
    this.#disagreement = new ConcordError("CORRUPT_DATA", text, { applied: "no" });
    this.#requireSound();
  }

  #requireSound(): void {
    const damage = this.damage ?? this.#disagreement;
    if (damage === undefined) return;
    const text = `partition ${this.number} is damaged and stands alone: ${damage.message}; stop the node and run concord repair`;
    throw new ConcordError("CORRUPT_DATA", text, { applied: "no", cause: damage });
  }

  open(owner: string): Promise<LogSession> {
    if (owner === "") return Promise.reject(new ConcordError("MALFORMED_REQUEST", "an owner has a name"));
    // Fences at once: publications that wait for their turn are refused (DDD4).
    this.#epoch += 1;
    const epoch = this.#epoch;
    return this.#inTurn(async () => {
      this.#neededFrom = 0n;
      await this.recover();
      return this.#session(epoch);
    });
  }

  async close(): Promise<void> {
    this.#epoch += 1;
    await this.#turn;
    await this.#trimming;
    for (const topic of Object.values(this.topics)) await topic.close();
  }

  #session(epoch: number): LogSession {
    let given: PublishOutcome | undefined;
    return {
      acknowledgedInput: this.#acknowledged,
      output: this.topics.output.bounds,
      publish: (publication) =>
        this.#inTurn(async () => {
          if (given !== undefined) return given;
          const isOwner = this.#epoch === epoch && (await this.isHeld());
          const outcome = isOwner ? await this.#publish(publication) : ({ kind: "fenced" } as const);
          if (outcome.kind !== "published") given = outcome;
          return outcome;
        }),
      keepOutputFrom: (offset) => {
        if (given === undefined && this.#epoch === epoch) this.#keepOutputFrom(offset);
      },
      close: () =>
        this.#inTurn(async () => {
          given ??= { kind: "fenced" };
        }),
    };
  }

  #inTurn<Answer>(act: () => Promise<Answer>): Promise<Answer> {
    const answer = this.#turn.then(act);
    this.#turn = answer.catch(() => undefined);
    return answer;
  }

  /** One record holds it all (I1); what belongs to other journals is copied there before the publication is visible (I3). */
  async #publish(publication: Publication): Promise<PublishOutcome> {
    const { output, "dead-letters": deadLetters } = this.topics;
    const rerouted = this.#targets(publication);
    const { acknowledgedInput } = publication;
    assert(acknowledgedInput >= this.#acknowledged, "the acknowledged input never goes back");
    assert(acknowledgedInput <= this.topics.input.end, "what is acknowledged was read");
    const deadLettersFrom = deadLetters.end;
    const isEmpty = publication.output.length + publication.deadLetters.length + rerouted.length === 0;
    if (isEmpty && acknowledgedInput === this.#acknowledged) return { kind: "published", outputFrom: output.end, deadLettersFrom };
    const record: PublicationRecord = {
      publication: this.#publication + 1n,
      acknowledgedInput,
      writtenAtMs: this.#context.clock.nowMs(),
      output: publication.output,
      deadLetters: publication.deadLetters,
      rerouted,
    };
    const payload = encodePublication(record);
    this.#checkSize(payload);
    try {
      const outputFrom = await output.append(payload, publication.output.length);
      this.#context.failpoint("log:output-written");
      this.#newest(record, outputFrom);
      await this.#settle(record);
      await this.#show([output, deadLetters]);
      this.#context.failpoint("log:published");
      this.#trimLater();
      return { kind: "published", outputFrom, deadLettersFrom };
    } catch (cause) {
      this.#context.log.warn("publication unknown", { partition: this.#context.number, cause: String(cause) });
      return { kind: "unknown", cause };
    }
  }

  #checkSize(payload: Uint8Array): void {
    const { publicationBytes } = this.#context.limits;
    if (payload.length <= publicationBytes) return;
    throw new ConcordError("LIMIT_EXCEEDED", `a publication of ${payload.length} bytes is over the limit of ${publicationBytes}`);
  }

  #newest(record: PublicationRecord, offset: bigint): void {
    this.#publication = record.publication;
    this.#acknowledged = record.acknowledgedInput;
    this.#newestOutput = offset;
  }

  /** Rerouted messages by target, with the place from which a repetition looks for them. */
  #targets({ rerouted }: Publication): Rerouted[] {
    const { number, tenure } = this.#context;
    if (tenure.isShared && rerouted.length > 0) {
      // Workers append by the id's partition, so there are none but by a mistake; another process may own their partition.
      throw new ConcordError("PARTITION_STOPPED", `the input of partition ${number} has a message of partition ${rerouted[0]!.partition}`);
    }
    const byTarget = new Map<number, NewMessage[]>();
    for (const { partition, message } of rerouted) byTarget.set(partition, [...(byTarget.get(partition) ?? []), message]);
    return [...byTarget].map(([partition, messages]) => {
      const inputEnd = this.#context.partition(partition).topics.input.end;
      return { partition, inputEnd, messages };
    });
  }

  /** Dead letters and rerouted messages to their journals, unless an earlier try brought them there. */
  async #settle(record: PublicationRecord): Promise<void> {
    const origin = { partition: this.#context.number, publication: record.publication };
    const { "dead-letters": deadLetters } = this.topics;
    if (record.deadLetters.length > 0 && (await newestOrigin(deadLetters)) < record.publication) {
      await deadLetters.append(encodeMessages(record.deadLetters, origin), record.deadLetters.length);
      this.#context.failpoint("log:dead-letters-written");
    }
    for (const { partition, inputEnd, messages } of record.rerouted) {
      await this.#context.partition(partition).#receive(
        encodeMessages(messages, origin),
        messages.length,
        origin.partition,
        record,
        inputEnd,
      );
      this.#context.failpoint("log:rerouted-written");
    }
  }

  async #receive(payload: Uint8Array, count: number, from: number, { publication }: PublicationRecord, inputEnd: bigint): Promise<void> {
    const { input } = this.topics;
    this.#requireSound();
    await input.ready();
    const { start } = input.bounds;
    for await (const record of input.records(inputEnd < start ? start : inputEnd)) {
      const { origin } = decodeMessages(record.payload, record.sequence);
      if (origin?.partition === from && origin.publication === publication) return;
    }
    await this.#appendInput(payload, count);
  }

  /** In the background and one at a time; a failure is tried again with the next publication. */
  #trimLater(): void {
    const { clock, log, number } = this.#context;
    const segments = Object.values(this.topics).reduce((sum, topic) => sum + topic.segments.length, 0);
    const nowMs = clock.monotonicMs();
    if (this.#trimming !== undefined) return;
    if (segments === this.#trimmedSegments && nowMs - this.#trimmedAtMs < RETENTION_EVERY_MS) return;
    this.#trimmedAtMs = nowMs;
    this.#trimming = this.#trim()
      .catch((thrown: unknown) => log.warn("log not trimmed", { partition: number, cause: String(thrown) }))
      .finally(() => {
        this.#trimming = undefined;
        this.#trimmedSegments = Object.values(this.topics).reduce((sum, topic) => sum + topic.segments.length, 0);
      });
  }

  async #trim(): Promise<void> {
    const { input, output, "dead-letters": deadLetters } = this.topics;
    const { inputBytes, outputBytes, outputMs, deadLetterBytes } = this.#context.retention;
    await input.trim(lesser(beyondBytes(input, inputBytes), this.#acknowledged));
    const [bySize, byAge] = [beyondBytes(output, outputBytes), await this.#beyondAge(output, outputMs)];
    // What the window needs stays, whatever its size and age (DDD10).
    const needed = lesser(this.#neededFrom, this.#newestOutput);
    await output.trim(lesser(bySize > byAge ? bySize : byAge, needed));
    await deadLetters.trim(beyondBytes(deadLetters, deadLetterBytes));
  }

  /** The first offset that was not written too long ago, by whole segments. */
  async #beyondAge(output: TopicLog, ageMs: number): Promise<bigint> {
    let offset = output.bounds.start;
    if (ageMs === Number.POSITIVE_INFINITY) return offset;
    const oldestMs = this.#context.clock.nowMs() - ageMs;
    for (const { firstSequence } of output.segments.slice(1)) {
      if ((await writtenAtMs(output, firstSequence)) >= oldestMs) return offset;
      offset = firstSequence;
    }
    return offset;
  }
}

async function writtenAtMs(output: TopicLog, offset: bigint): Promise<number> {
  for await (const { payload, sequence } of output.records(offset)) return decodePublication(payload, sequence).writtenAtMs;
  return Number.POSITIVE_INFINITY;
}

/** The newest publication of which a journal has messages; 0 when it has none. */
async function newestOrigin(topic: TopicLog): Promise<bigint> {
  await topic.ready();
  for await (const { payload, sequence } of topic.recordsBackward()) return decodeMessages(payload, sequence).origin?.publication ?? 0n;
  return 0n;
}

/** The first offset of the newest segments that together hold at most `bytes`. */
function beyondBytes(topic: TopicLog, bytes: number): bigint {
  let left = bytes;
  let offset = topic.end;
  for (const segment of topic.segments.toReversed()) {
    left -= segment.bytes;
    if (left < 0) return offset;
    offset = segment.firstSequence;
  }
  return offset;
}

function lesser(left: bigint, right: bigint): bigint {
  return left < right ? left : right;
}
