import { ID_HEADER, type InputResult, type PartitionWorker } from "@concord/dedup";
import { messageBytes, type MessageLog, type NewMessage } from "@concord/ports";
import type { Message } from "@concord/protos-dedup";
import { ConcordError, toConcordError, unreachable, type Environment } from "@concord/runtime";
import { INGEST_IN_FLIGHT_BYTES_MAX, INGEST_IN_FLIGHT_MESSAGES_MAX } from "../limits.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { CallBudget } from "../partitions/peers.ts";
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

/** A call's share that another worker owns. */
export type Forward = (
  address: string,
  messages: readonly Message[],
  acknowledge: "input" | "output",
  budget: CallBudget,
) => Promise<readonly IngestResult[]>;

export interface IngestCall extends CallBudget {
  /** From another worker, which takes this one for the owner: not passed on again. */
  readonly isForwarded: boolean;
}

export interface IngestOptions {
  readonly log: MessageLog;
  readonly partitions: Pick<Partitions, "working" | "otherOwner">;
  readonly forward: Forward;
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
   * One result per message, in order. OVERLOADED, STORAGE_FULL, NOT_OWNER and PARTITION_STOPPED before anything is appended say applied no; every
   * failure after that says unknown (I2): the messages may be in the input, and are then processed.
   */
  async ingest(messages: readonly CheckedMessage[], acknowledge: "input" | "output", call: IngestCall): Promise<readonly IngestResult[]> {
    const bytes = messages.reduce((sum, message) => sum + message.bytes, 0);
    this.#admit(messages.length, bytes);
    try {
      await this.#options.admit();
      const placed = await Promise.all(messages.map(this.#options.place));
      const shares = sharesOf(placed, this.#options.log.appendBytesMax);
      const answered = await this.#allOf(shares.map((share) => this.#decide(share, acknowledge, call)));
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

  /** Where it belongs: here, or at the worker that owns its partition. Refused with applied no before anything is sent or appended. */
  #decide(share: Share, acknowledge: "input" | "output", call: IngestCall): () => Sent {
    const { partitions, forward } = this.#options;
    const owner = call.isForwarded ? undefined : partitions.otherOwner(share.partition);
    if (owner === undefined) {
      const worker = partitions.working(share.partition);
      return () => this.#here(share, worker, acknowledge, call.signal);
    }
    const messages = share.placed.map(forwarded);
    return () => {
      const results = forward(owner.address, messages, acknowledge, call);
      return { taken: results, results };
    };
  }

  /** One record per message (DD14), then what became of each. */
  #here(share: Share, worker: PartitionWorker, acknowledge: "input" | "output", signal: AbortSignal): Sent {
    const taken = this.#options.log.append(share.partition, share.messages).then(({ from }) => ({ ...share, from }));
    const results = async (): Promise<readonly IngestResult[]> => {
      const appended = await taken;
      this.#options.environment.failpoint("ingest:appended");
      if (acknowledge === "input") return queued(appended);
      try {
        const processed = Promise.all(share.placed.map((_, at) => worker.whenProcessed(appended.from + BigInt(at))));
        return (await inTime(processed, signal)).map((result, at) => decided(share.placed[at]!, result));
      } catch (thrown) {
        throw perhapsApplied(toConcordError(thrown));
      }
    };
    return { taken, results: results() };
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

/** As a producer that found its id itself would send it; without an id that is no text, which the owner finds in the message as this one did. */
function forwarded({ message, id }: Placed): Message {
  const { key, value, headers, timestampMs } = message;
  const text = idText(id);
  return {
    id: text.includes("\uFFFD") ? "" : text,
    key,
    value,
    headers: headers.map((header) => ({ ...header })),
    timestampMs: BigInt(timestampMs),
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

/** A byte order mark is a part of the id: without it the id would be another one. */
function idText(id: Uint8Array | undefined): string {
  return id === undefined ? "" : new TextDecoder("utf-8", { ignoreBOM: true }).decode(id);
}

/** Messages may be in the input although the call failed: "no" would be wrong \(I2\). */
function perhapsApplied(error: ConcordError): ConcordError {
  if (error.applied !== "no") return error;
  const { code, message, metadata } = error;
  return new ConcordError(code, message, { applied: "unknown", metadata, cause: error });
}
