/**
 * Ended spans on their way to a collector. One export at a time; what waits is bounded in bytes, and what is more is dropped and counted, so a
 * collector that is away or hangs costs nothing but its traces.
 */
import { assert, backoff, sleep, type Clock, type Log, type Metrics, type Timer } from "@concord/runtime";
import {
  EXPORT_BACKOFF,
  EXPORT_BYTES_TARGET,
  EXPORT_CLOSE_MS,
  EXPORT_EVERY_MS,
  EXPORT_TRIES_MAX,
  TRACE_BUFFER_BYTES_MAX,
} from "./limits.ts";
import { exportText } from "./span-text.ts";

/** retry: not taken for now. refused: never will be. */
export type ExportOutcome =
  | { readonly kind: "taken"; readonly rejected: number }
  | { readonly kind: "retry"; readonly reason: string; readonly afterMs: number }
  | { readonly kind: "refused"; readonly reason: string };

export interface SpanExporterOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Attributes of the process. */
  readonly resource: Readonly<Record<string, string>>;
  /** Sends one body; never rejects, and ends within a time of its own or when aborted. */
  readonly send: (body: string, signal: AbortSignal) => Promise<ExportOutcome>;
  readonly bufferBytesMax?: number;
}

/** open: spans are taken. closing: what is there leaves. closed: nothing is taken or sent. */
type Phase = "open" | "closing" | "closed";

export class SpanExporter {
  readonly #options: SpanExporterOptions;
  readonly #bufferBytesMax: number;
  readonly #aborted = new AbortController();
  #waiting: string[] = [];
  #waitingBytes = 0;
  /** Of the export on its way. */
  #sendingBytes = 0;
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  #phase: Phase = "open";
  /** The collector's state was said; again when it changes. */
  #isAway = false;

  constructor(options: SpanExporterOptions) {
    this.#options = options;
    this.#bufferBytesMax = options.bufferBytesMax ?? TRACE_BUFFER_BYTES_MAX;
  }

  /** Bytes that are kept for the collector. */
  get bytes(): number {
    return this.#waitingBytes + this.#sendingBytes;
  }

  add(span: string): void {
    if (this.#phase !== "open" || this.bytes + span.length > this.#bufferBytesMax) return this.#dropped(1, FULL);
    this.#waiting.push(span);
    this.#waitingBytes += span.length;
    assert(this.bytes <= this.#bufferBytesMax, "what waits for the collector is bounded");
    if (this.#waitingBytes >= EXPORT_BYTES_TARGET) this.#export();
    else this.#timer ??= this.#options.clock.setTimer(EXPORT_EVERY_MS, () => this.#export());
  }

  /** Sends what waits, within EXPORT_CLOSE_MS; the rest is dropped. */
  async close(): Promise<void> {
    if (this.#phase !== "open") return;
    this.#phase = "closing";
    const done = new AbortController();
    const all = async (): Promise<void> => {
      while (this.#sending !== undefined || this.#waiting.length > 0) {
        this.#export();
        await this.#sending;
      }
      done.abort();
    };
    void all();
    await sleep(this.#options.clock, EXPORT_CLOSE_MS, done.signal);
    this.#phase = "closed";
    this.#timer?.cancel();
    this.#aborted.abort();
    this.#dropped(this.#waiting.length, FULL);
    this.#waiting = [];
    this.#waitingBytes = 0;
  }

  #export(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#sending !== undefined || this.#waiting.length === 0) return;
    const spans = this.#take();
    this.#sending = this.#sendAll(spans).then(() => {
      this.#sending = undefined;
      this.#sendingBytes = 0;
      if (this.#phase !== "closed" && this.#waiting.length > 0) this.#timer ??= this.#options.clock.setTimer(0, () => this.#export());
    });
  }

  #take(): readonly string[] {
    let count = 0;
    let bytes = 0;
    while (count < this.#waiting.length && bytes < EXPORT_BYTES_TARGET) {
      bytes += this.#waiting[count]!.length;
      count += 1;
    }
    this.#waitingBytes -= bytes;
    this.#sendingBytes = bytes;
    return this.#waiting.splice(0, count);
  }

  /** Until it is taken, refused, or was tried often enough. */
  async #sendAll(spans: readonly string[]): Promise<void> {
    const { clock, metrics, resource, send } = this.#options;
    const { signal } = this.#aborted;
    const body = exportText(resource, spans);
    const retry = backoff(clock, EXPORT_BACKOFF, signal);
    for (let tried = 1; ; tried += 1) {
      const outcome = await send(body, signal);
      if (outcome.kind === "taken") {
        this.#collectorIs("there", "");
        metrics.count("trace_spans_exported_total", spans.length - Math.min(outcome.rejected, spans.length));
        return this.#dropped(outcome.rejected, REFUSED);
      }
      this.#collectorIs("away", outcome.reason);
      if (outcome.kind === "refused") return this.#dropped(spans.length, REFUSED);
      const isLast = tried >= EXPORT_TRIES_MAX || this.#phase !== "open";
      if (isLast || !(await retry.pause({ atLeastMs: outcome.afterMs }))) return this.#dropped(spans.length, AWAY);
    }
  }

  #collectorIs(state: "there" | "away", reason: string): void {
    const isAway = state === "away";
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    const { log } = this.#options;
    if (isAway) log.warn("the collector takes no traces; they are dropped when the buffer is full", { reason });
    else log.info("the collector takes traces again");
  }

  #dropped(spans: number, labels: Readonly<Record<string, string>>): void {
    if (spans > 0) this.#options.metrics.count("trace_spans_dropped_total", spans, labels);
  }
}

const FULL = Object.freeze({ reason: "buffer" });
const AWAY = Object.freeze({ reason: "collector" });
const REFUSED = Object.freeze({ reason: "refused" });
