import { ID_HEADER, type InputResult } from "@concord/dedup";
import { messageBytes, type MessageLog, type NewMessage } from "@concord/ports";
import { ConcordError, toConcordError, unreachable, type Environment } from "@concord/runtime";
import { INGEST_IN_FLIGHT_BYTES_MAX, INGEST_IN_FLIGHT_MESSAGES_MAX } from "../limits.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { CheckedMessage } from "./check-message.ts";
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

export interface IngestOptions {
  readonly log: MessageLog;
  readonly partitions: Partitions;
  readonly place: (message: CheckedMessage) => Promise<Placed>;
  readonly environment: Pick<Environment, "metrics" | "failpoint">;
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

/** A share whose messages are durable in the input. */
interface Appended extends Share {
  readonly from: bigint;
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
   * One result per message, in order. OVERLOADED, STORAGE_FULL and PARTITION_STOPPED before anything is appended say applied no; every failure after
   * that says unknown (I2): the messages may be in the input, and are then processed.
   */
  async ingest(
    messages: readonly CheckedMessage[],
    acknowledge: "input" | "output",
    signal: AbortSignal,
  ): Promise<readonly IngestResult[]> {
    const bytes = messages.reduce((sum, message) => sum + message.bytes, 0);
    this.#admit(messages.length, bytes);
    try {
      await this.#options.admit();
      const placed = await Promise.all(messages.map(this.#options.place));
      const shares = sharesOf(placed, this.#options.log.appendBytesMax);
      for (const { partition } of shares) this.#options.partitions.working(partition);
      const appended = await this.#append(shares);
      this.#options.environment.failpoint("ingest:appended");
      const results = acknowledge === "input" ? appended.map(queued) : await this.#results(appended, signal);
      return this.#inOrder(messages.length, appended, results);
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

  /** One record per message (DD14). All partitions at once: some may take theirs although another one fails. */
  async #append(shares: readonly Share[]): Promise<readonly Appended[]> {
    const { log } = this.#options;
    const outcomes = await Promise.allSettled(
      shares.map(async (share) => ({ ...share, ...(await log.append(share.partition, share.messages)) })),
    );
    const failures = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [toConcordError(outcome.reason)] : []));
    if (failures.length === 0) return outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    const isUntouched = failures.length === shares.length && failures.every(({ applied }) => applied === "no");
    throw isUntouched ? failures[0]! : perhapsApplied(failures[0]!);
  }

  async #results(appended: readonly Appended[], signal: AbortSignal): Promise<readonly (readonly IngestResult[])[]> {
    const answers = appended.map(async (share) => {
      const worker = this.#options.partitions.worker(share.partition);
      const results = await Promise.all(share.placed.map((_, at) => worker.whenProcessed(share.from + BigInt(at))));
      return share.placed.map((placed, at) => decided(placed, results[at]!));
    });
    try {
      return await inTime(Promise.all(answers), signal);
    } catch (thrown) {
      throw perhapsApplied(toConcordError(thrown));
    }
  }

  #inOrder(count: number, shares: readonly Share[], results: readonly (readonly IngestResult[])[]): readonly IngestResult[] {
    const ordered: IngestResult[] = [];
    ordered.length = count;
    shares.forEach(({ at }, share) => at.forEach((place, index) => (ordered[place] = results[share]![index]!)));
    for (const { status } of ordered) this.#options.environment.metrics.count("dedup_ingest_results_total", 1, LABELS[status]);
    return ordered;
  }
}

const LABELS = {
  accepted: { verdict: "accepted" },
  duplicate: { verdict: "duplicate" },
  "dead-lettered": { verdict: "dead-lettered" },
  queued: { verdict: "queued" },
} as const;

/** One share per partition, or more where the log takes less at once. */
function sharesOf(placed: readonly Placed[], bytesMax: number): readonly Share[] {
  const shares: Share[] = [];
  const open = new Map<number, { readonly placed: Placed[]; readonly messages: NewMessage[]; readonly at: number[]; bytes: number }>();
  placed.forEach((one, at) => {
    const message = inputMessage(one);
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
function inputMessage({ message, id }: Placed): NewMessage {
  const { key, value, timestampMs } = message;
  const headers = message.headers.map((header) => ({ name: header.name, value: header.value }));
  return { key, value, timestampMs, headers: id === undefined ? headers : [...headers, { name: ID_HEADER, value: id }] };
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

function idText(id: Uint8Array | undefined): string {
  return id === undefined ? "" : new TextDecoder().decode(id);
}

/** Messages may be in the input although the call failed: "no" would be wrong \(I2\). */
function perhapsApplied(error: ConcordError): ConcordError {
  if (error.applied !== "no") return error;
  const { code, message, metadata } = error;
  return new ConcordError(code, message, { applied: "unknown", metadata, cause: error });
}
