import {
  ID_HEADER,
  ORIGIN_HEADER,
  REASON_HEADER,
  type PartitionStatistics,
  type PartitionWorker,
  type InputResult,
  type WorkerState,
} from "@concord/dedup";
import { ByteWriter } from "@concord/codec";
import type { LogMessage, MessageHeader, MessageLog, NewMessage } from "@concord/ports";
import { ConcordError } from "@concord/runtime";

interface Waiter {
  readonly resolve: (result: InputResult) => void;
  readonly reject: (error: ConcordError) => void;
}

/** A partition's worker whose failures the test orders: it deduplicates with a set and keeps nothing. */
export class ScriptedWorker implements PartitionWorker {
  readonly partition: number;
  state: WorkerState = { kind: "rebuilding" };
  /** Messages wait in the input while it is set. */
  isHeld = false;
  /** What `start` fails with. */
  failsToStart: ConcordError | undefined;
  starts = 0;
  stops = 0;
  forgets = 0;
  flushes = 0;
  readonly #log: MessageLog;
  readonly #seen = new Set<string>();
  readonly #waiters = new Map<bigint, Waiter[]>();
  readonly #results = new Map<bigint, InputResult>();
  readonly #stopping = new AbortController();
  #tell: (reason: ConcordError) => void = () => undefined;
  readonly #stopped = new Promise<ConcordError>((resolve) => (this.#tell = resolve));
  #release: () => void = () => undefined;

  constructor(partition: number, log: MessageLog) {
    this.partition = partition;
    this.#log = log;
  }

  async start(): Promise<void> {
    this.starts += 1;
    if (this.failsToStart !== undefined) {
      this.fail(this.failsToStart);
      throw (this.state as Extract<WorkerState, { kind: "stopped" }>).reason;
    }
    this.state = { kind: "running" };
    void this.#run();
  }

  async stop(): Promise<void> {
    this.stops += 1;
    this.#stopping.abort();
    this.release();
    this.#reject(new ConcordError("DRAINING", "the worker is stopped"));
  }

  whenStopped(): Promise<ConcordError> {
    return this.#stopped;
  }

  whenProcessed(offset: bigint): Promise<InputResult> {
    const known = this.#results.get(offset);
    if (known !== undefined) return Promise.resolve(known);
    if (this.state.kind === "stopped") return Promise.reject(new ConcordError("PARTITION_STOPPED", "stopped"));
    return new Promise((resolve, reject) => this.#waiters.set(offset, [...(this.#waiters.get(offset) ?? []), { resolve, reject }]));
  }

  async seen(ids: readonly Uint8Array[]): Promise<readonly boolean[]> {
    return ids.map((id) => this.#seen.has(textOf(id)));
  }

  async forget(): Promise<void> {
    this.forgets += 1;
  }

  async flush(): Promise<void> {
    this.flushes += 1;
  }

  async statistics(): Promise<PartitionStatistics> {
    const window = {
      ids: this.#seen.size,
      segments: 1,
      windowMs: 5,
      diskBytes: 16,
      memoryBytes: 2,
      appliedOutput: 1n,
      droppedBySize: 0,
      droppedByTime: 0,
      quarantined: [],
    };
    const counts = { accepted: this.#seen.size, duplicates: 0, deadLettered: 0, rerouted: 0 };
    return { partition: this.partition, state: this.state, lag: BigInt(this.#waiters.size), window, ...counts };
  }

  /** It stops by itself. */
  fail({ code, message }: ConcordError): void {
    const reason = new ConcordError("PARTITION_STOPPED", message, { metadata: { code } });
    this.state = { kind: "stopped", reason };
    this.#stopping.abort();
    this.release();
    this.#reject(reason);
    this.#tell(reason);
  }

  release(): void {
    this.isHeld = false;
    this.#release();
  }

  async #run(): Promise<void> {
    const session = await this.#log.open(this.partition, "scripted");
    for (let next = session.acknowledgedInput; !this.#stopping.signal.aborted;) {
      await this.#log.whenBeyond("input", this.partition, next, this.#stopping.signal);
      if (this.isHeld) await new Promise<void>((resolve) => (this.#release = resolve));
      if (this.#stopping.signal.aborted) return;
      const page = await this.#log.read("input", this.partition, next, { messages: 100, bytes: 1 << 20 });
      const output: NewMessage[] = [];
      const deadLetters: NewMessage[] = [];
      const places = page.messages.map((message) => this.#place(message, output, deadLetters));
      const published = await session.publish({ output, deadLetters, rerouted: [], acknowledgedInput: page.next });
      if (published.kind !== "published") return;
      places.forEach((place, at) => this.#decide(page.messages[at]!.offset, place, published.outputFrom, published.deadLettersFrom));
      next = page.next;
    }
  }

  #place(
    message: LogMessage,
    output: NewMessage[],
    deadLetters: NewMessage[],
  ): { readonly kind: "accepted" | "dead-lettered" | "duplicate"; readonly at: bigint } {
    const id = message.headers.find(({ name }) => name === ID_HEADER)?.value ?? undefined;
    if (id === undefined) {
      deadLetters.push(published(message, "none", { name: REASON_HEADER, value: Buffer.from("no id") }));
      return { kind: "dead-lettered", at: BigInt(deadLetters.length - 1) };
    }
    if (this.#seen.has(textOf(id))) return { kind: "duplicate", at: 0n };
    this.#seen.add(textOf(id));
    output.push(published(message, "given"));
    return { kind: "accepted", at: BigInt(output.length - 1) };
  }

  #decide(
    offset: bigint,
    { kind, at }: { readonly kind: InputResult["kind"]; readonly at: bigint },
    outputFrom: bigint,
    deadLettersFrom: bigint,
  ): void {
    const result: InputResult =
      kind === "accepted"
        ? { kind, offset: outputFrom + at }
        : kind === "dead-lettered"
          ? { kind, offset: deadLettersFrom + at }
          : { kind: "duplicate" };
    this.#results.set(offset, result);
    for (const { resolve } of this.#waiters.get(offset) ?? []) resolve(result);
    this.#waiters.delete(offset);
  }

  #reject(error: ConcordError): void {
    for (const waiters of this.#waiters.values()) for (const { reject } of waiters) reject(error);
    this.#waiters.clear();
  }
}

/** As the pipeline publishes it. */
function published(message: LogMessage, kind: "none" | "given", ...more: MessageHeader[]): NewMessage {
  const origin = new ByteWriter(18)
    .u8(1)
    .u8(kind === "none" ? 0 : 1)
    .u64(message.offset)
    .u64(0n)
    .finish();
  return { ...message, headers: [...message.headers, { name: ORIGIN_HEADER, value: origin }, ...more] };
}

function textOf(id: Uint8Array): string {
  return Buffer.from(id).toString("hex");
}
