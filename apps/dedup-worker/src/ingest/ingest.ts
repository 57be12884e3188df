import { ID_HEADER, SOURCE_HEADER, type InputResult, type PartitionWorker } from "@concord/dedup";
import { messageBytes, type MessageHeader, type MessageLog, type NewMessage } from "@concord/ports";
import type { Message } from "@concord/protos-dedup";
import { ConcordError, sleep, spanOver, toConcordError, unreachable, type Environment, type ErrorCode, type Span } from "@concord/runtime";
import { INGEST_IN_FLIGHT_BYTES_MAX, INGEST_IN_FLIGHT_MESSAGES_MAX, ROUTE_AGAIN_MS, ROUTE_WAIT_MS } from "../limits.ts";
import { outputRefusal } from "../partitions/output-limit.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { CallBudget } from "../partitions/peers.ts";
import type { CheckedMessage } from "./check-message.ts";
import { contentToWire, headerToWire } from "../rpc/wire.ts";
import { inTime } from "./in-time.ts";
import type { Placed } from "./message-ids.ts";

/** What became of one message. */
export interface IngestResult {
  readonly status: "accepted" | "duplicate" | "dead-lettered" | "queued";
  readonly partition: number;
  /** In the output, the dead letters or the input; undefined: in none of them, or in a partition that will say. */
  readonly offset: bigint | undefined;
  readonly id: string;
}

/** A call's share that another worker owns. */
export type Forward = (
  address: string,
  messages: readonly Message[],
  acknowledge: "input" | "output",
  source: string | undefined,
  budget: CallBudget,
) => Promise<readonly IngestResult[]>;

export interface IngestCall extends CallBudget {
  /** From another worker, which takes this one for the owner: not passed on again. */
  readonly isForwarded: boolean;
  /** Whose ids these are; undefined: of no source. */
  readonly source: string | undefined;
}

export interface IngestOptions {
  readonly log: MessageLog;
  readonly partitions: Pick<Partitions, "working" | "otherOwner" | "isShared" | "moving" | "enter">;
  readonly forward: Forward;
  readonly place: (message: CheckedMessage) => Promise<Placed>;
  readonly environment: Pick<Environment, "clock" | "metrics" | "failpoint">;
  /** Rejects with STORAGE_FULL while there is no room for new messages. */
  readonly admit: () => Promise<void>;
}

/** Messages of one call that go to one partition in one append, with their places in the call. */
interface Share {
  readonly partition: number;
  readonly placed: readonly Placed[];
  readonly messages: readonly NewMessage[];
  readonly at: readonly number[];
}

/** A call while partitions may move. */
interface Routing {
  readonly acknowledge: "input" | "output";
  readonly signal: AbortSignal;
  readonly isForwarded: boolean;
  readonly source: string | undefined;
  readonly deadlineMs: number;
  /** Until then it waits for partitions that are on their way. */
  readonly waitsUntilMs: number;
  readonly span: Span | undefined;
}

/** A share whose messages are durable in the input. */
interface Appended extends Share {
  readonly from: bigint;
}

/** A share on its way. */
interface Sent {
  /** Durable in an input. */
  readonly taken: Promise<unknown>;
  readonly results: Promise<readonly IngestResult[]>;
}

/** Appends to the input, then answers with the result of the processing loop; never writes the output itself (DDD12). */
export class Ingest {
  readonly #options: IngestOptions;
  #messagesInFlight = 0;
  #bytesInFlight = 0;

  constructor(options: IngestOptions) {
    this.#options = options;
  }

  /**
   * One result per message, in order. OVERLOADED, STORAGE_FULL (of the disk, or of a partition's output), NOT_OWNER and PARTITION_STOPPED before anything is appended say applied no; every
   * failure after that says unknown (I2): the messages may be in the input, and are then processed.
   */
  async ingest(messages: readonly CheckedMessage[], acknowledge: "input" | "output", call: IngestCall): Promise<readonly IngestResult[]> {
    const bytes = messages.reduce((sum, message) => sum + message.bytes, 0);
    this.#admit(messages.length, bytes);
    try {
      await this.#options.admit();
      const placed = await Promise.all(messages.map(this.#options.place));
      const shares = sharesOf(placed, sourceHeaders(call.source), this.#options.log.appendBytesMax);
      const nowMs = this.#options.environment.clock.monotonicMs();
      const deadlineMs = nowMs + call.timeoutMs;
      const { signal, isForwarded, source, span } = call;
      const waitsUntilMs = Math.min(deadlineMs, nowMs + ROUTE_WAIT_MS);
      const routing = { acknowledge, signal, isForwarded, source, deadlineMs, waitsUntilMs, span };
      const answered = await this.#send(shares, routing);
      return this.#inOrder(messages.length, shares, answered);
    } finally {
      this.#messagesInFlight -= messages.length;
      this.#bytesInFlight -= bytes;
    }
  }

  #admit(messages: number, bytes: number): void {
    const inFlight = this.#messagesInFlight + messages;
    const limit = inFlight > INGEST_IN_FLIGHT_MESSAGES_MAX ? "INGEST_IN_FLIGHT_MESSAGES_MAX" : "INGEST_IN_FLIGHT_BYTES_MAX";
    if (inFlight > INGEST_IN_FLIGHT_MESSAGES_MAX || this.#bytesInFlight + bytes > INGEST_IN_FLIGHT_BYTES_MAX) {
      throw new ConcordError("OVERLOADED", `${this.#messagesInFlight} messages wait for their results`, { metadata: { limit } });
    }
    this.#messagesInFlight = inFlight;
    this.#bytesInFlight += bytes;
  }

  /** Waits for partitions that are on their way to their next owner: nothing is appended or sent before the place of all shares is known (I7). */
  async #send(shares: readonly Share[], routing: Routing): Promise<readonly (readonly IngestResult[])[]> {
    for (;;) {
      let sends: readonly (() => Sent)[];
      try {
        sends = shares.map((share) => this.#decide(share, routing));
      } catch (thrown) {
        if (!this.#mayWait(toConcordError(thrown), routing)) throw thrown;
        await this.#pause(shares, routing);
        continue;
      }
      return await this.#allOf(sends);
    }
  }

  /** Where it belongs: here, or at the worker that owns its partition. Refused with applied no before anything is sent or appended. */
  #decide(share: Share, routing: Routing): () => Sent {
    const { partitions } = this.#options;
    const { partition } = share;
    if (partitions.moving(partition) !== undefined) throw new ConcordError("STARTING", `partition ${partition} is on its way`);
    const owner = routing.isForwarded ? undefined : partitions.otherOwner(partition);
    if (owner === undefined) {
      const worker = partitions.working(partition);
      const refusal = outputRefusal(this.#options.log, partition);
      if (refusal !== undefined) throw refusal;
      return () => this.#here(share, worker, routing);
    }
    return () => {
      const results = this.#pass(share, owner.address, routing);
      return { taken: results, results };
    };
  }

  /** To the owner; and where that knows of another one, or leaves, to the next. */
  async #pass(share: Share, address: string, routing: Routing): Promise<readonly IngestResult[]> {
    const { environment, forward } = this.#options;
    const { acknowledge, signal, source, deadlineMs, span } = routing;
    const timeoutMs = Math.max(1, deadlineMs - environment.clock.monotonicMs());
    try {
      return await forward(address, share.placed.map(forwarded), acknowledge, source, { signal, timeoutMs, span });
    } catch (thrown) {
      if (!this.#mayWait(toConcordError(thrown), routing)) throw thrown;
    }
    await this.#pause([share], routing);
    const [results] = await this.#send([share], routing);
    return results!;
  }

  /** The partition is on its way, so far as this or the other worker knows, and there is time. What is passed on here is refused where another worker owns it (I6). */
  #mayWait({ code, applied }: ConcordError, { signal, isForwarded, waitsUntilMs }: Routing): boolean {
    const { environment, partitions } = this.#options;
    if (!partitions.isShared || applied !== "no" || !MOVING.has(code) || (isForwarded && code !== "STARTING")) return false;
    return !signal.aborted && environment.clock.monotonicMs() < waitsUntilMs;
  }

  async #pause(shares: readonly Share[], { signal }: Routing): Promise<void> {
    const { environment, partitions } = this.#options;
    const moving = shares.flatMap(({ partition }) => partitions.moving(partition) ?? []);
    const over = new AbortController();
    const end = (): void => over.abort();
    signal.addEventListener("abort", end, { once: true });
    if (moving.length > 0) void Promise.all(moving).then(end);
    await sleep(environment.clock, ROUTE_AGAIN_MS, over.signal);
    signal.removeEventListener("abort", end);
  }

  /** One record per message (DD14), then what became of each. */
  #here(share: Share, worker: PartitionWorker, { acknowledge, signal, span }: Routing): Sent {
    const end = this.#options.partitions.enter(share.partition);
    const append = traced(span, "input append", share, this.#options.log.append(share.partition, share.messages));
    const taken = append.then(({ from }) => ({ ...share, from }));
    const results = async (): Promise<readonly IngestResult[]> => {
      const appended = await taken;
      this.#options.environment.failpoint("ingest:appended");
      if (acknowledge === "input") return queued(appended);
      try {
        const processed = Promise.all(share.placed.map((_, at) => worker.whenProcessed(appended.from + BigInt(at))));
        return (await traced(span, "publish", share, inTime(processed, signal))).map((result, at) => decided(share.placed[at]!, result));
      } catch (thrown) {
        throw perhapsApplied(toConcordError(thrown));
      }
    };
    return { taken, results: results().finally(end) };
  }

  /** All at once: some may be taken although another one fails. The results of those are not waited for then. */
  async #allOf(shares: readonly (() => Sent)[]): Promise<readonly (readonly IngestResult[])[]> {
    const sent = shares.map((share) => share());
    for (const { results } of sent) results.catch(() => undefined);
    const outcomes = await Promise.allSettled(sent.map(({ taken }) => taken));
    const failures = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [toConcordError(outcome.reason)] : []));
    const isUntouched = failures.length === shares.length && failures.every(({ applied }) => applied === "no");
    if (failures.length > 0) throw isUntouched ? failures[0]! : perhapsApplied(failures[0]!);
    return await Promise.all(sent.map(({ results }) => results));
  }

  #inOrder(count: number, shares: readonly Share[], results: readonly (readonly IngestResult[])[]): readonly IngestResult[] {
    const ordered: IngestResult[] = [];
    ordered.length = count;
    shares.forEach(({ at }, share) => at.forEach((place, index) => (ordered[place] = results[share]![index]!)));
    for (const { status } of ordered) this.#options.environment.metrics.count("dedup_ingest_results_total", 1, LABELS[status]);
    return ordered;
  }
}

/** With applied no: the worker asked has the partition not yet, or not any more. */
const MOVING: ReadonlySet<ErrorCode> = new Set(["STARTING", "NOT_OWNER", "DRAINING", "CONNECTION_LOST"]);

const LABELS = {
  accepted: { verdict: "accepted" },
  duplicate: { verdict: "duplicate" },
  "dead-lettered": { verdict: "dead-lettered" },
  queued: { verdict: "queued" },
} as const;

/** Without a span: nothing more than the promise. */
function traced<Result>(parent: Span | undefined, name: string, { partition, messages }: Share, work: Promise<Result>): Promise<Result> {
  if (parent === undefined) return work;
  const span = parent.child(name);
  span.set("partition", partition);
  span.set("messages", messages.length);
  return spanOver(span, work);
}

/** One share per partition, or more where the log takes less at once. */
function sharesOf(placed: readonly Placed[], ofSource: readonly MessageHeader[], bytesMax: number): readonly Share[] {
  const shares: Share[] = [];
  const open = new Map<number, { readonly placed: Placed[]; readonly messages: NewMessage[]; readonly at: number[]; bytes: number }>();
  placed.forEach((one, at) => {
    const message = inputMessage(one, ofSource);
    const bytes = messageBytes(message);
    let share = open.get(one.partition);
    if (share === undefined || share.bytes + bytes > bytesMax) {
      share = { placed: [], messages: [], at: [], bytes: 0 };
      open.set(one.partition, share);
      shares.push({ partition: one.partition, ...share });
    }
    share.placed.push(one);
    share.messages.push(message);
    share.at.push(at);
    share.bytes += bytes;
  });
  return shares;
}

/** The id goes with the message, so that the output can be read by id and the processing loop need not know where it was found. */
function inputMessage({ message, id }: Placed, ofSource: readonly MessageHeader[]): NewMessage {
  const { key, value, timestampMs } = message;
  const headers: MessageHeader[] = message.headers.map((header) => ({ name: header.name, value: header.value }));
  headers.push(...ofSource);
  if (id !== undefined) headers.push({ name: ID_HEADER, value: id });
  return { key, value, timestampMs, headers };
}

/** The processing loop compares the ids of a source among themselves (DDD13). */
function sourceHeaders(source: string | undefined): readonly MessageHeader[] {
  return source === undefined ? [] : [{ name: SOURCE_HEADER, value: new TextEncoder().encode(source) }];
}

/** As a producer that found its id itself would send it; without an id that is no text, which the owner finds in the message as this one did. */
function forwarded({ message, id }: Placed): Message {
  const { key, value, headers, timestampMs } = message;
  const text = idText(id);
  return {
    id: text.includes("\uFFFD") ? "" : text,
    ...contentToWire(key, value),
    headers: headers.map(headerToWire),
    timestampMs: BigInt(timestampMs),
    fallbackId: "",
  };
}

function queued({ partition, placed, from }: Appended): readonly IngestResult[] {
  return placed.map(({ id }, at) => ({ status: "queued", partition, offset: from + BigInt(at), id: idText(id) }));
}

function decided({ partition, id }: Placed, result: InputResult): IngestResult {
  switch (result.kind) {
    case "accepted":
    case "dead-lettered":
      return { status: result.kind, partition, offset: result.offset, id: idText(id) };
    case "duplicate":
      return { status: "duplicate", partition, offset: undefined, id: idText(id) };
    case "rerouted":
      return { status: "queued", partition: result.partition, offset: undefined, id: idText(id) };
    default:
      return unreachable(result);
  }
}

/** A byte order mark is a part of the id: without it the id would be another one. Made once: making one costs half as much as its use. */
const idDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

function idText(id: Uint8Array | undefined): string {
  return id === undefined ? "" : idDecoder.decode(id);
}

/** Messages may be in the input although the call failed: "no" would be wrong \(I2\). */
function perhapsApplied(error: ConcordError): ConcordError {
  if (error.applied !== "no") return error;
  const { code, message, metadata } = error;
  return new ConcordError(code, message, { applied: "unknown", metadata, cause: error });
}
