import type { TopicFault } from "@concord/ports";
import type { Timer } from "@concord/runtime";
import type { KafkaContext } from "./context.ts";
import type { TopicSize } from "./kafka-wire.ts";
import { RECORD_EVERY_MS, TOPICS_EVERY_MS } from "./limits.ts";
import { writeRecord } from "./pipeline-record.ts";

type Sizes = Readonly<Record<"input" | "output", TopicSize>>;

/** Looks at the topics for as long as the log is open: others add partitions to them, or make them anew. */
export class TopicWatch {
  readonly #context: KafkaContext;
  readonly #closed: AbortSignal;
  readonly #open = new Set<number>();
  #first: Sizes | undefined;
  #recordedMs: number;
  #fault: TopicFault | undefined;
  #timer: Timer | undefined;

  constructor(context: KafkaContext, closed: AbortSignal) {
    this.#context = context;
    this.#closed = closed;
    this.#recordedMs = context.clock.monotonicMs();
    closed.addEventListener("abort", () => this.#timer?.cancel(), { once: true });
    this.#later();
  }

  get fault(): TopicFault | undefined {
    return this.#fault;
  }

  /** This process writes the partition's record from now on. */
  opened(partition: number): void {
    this.#open.add(partition);
  }

  released(partition: number): void {
    this.#open.delete(partition);
  }

  #later(): void {
    this.#timer = this.#context.clock.setTimer(TOPICS_EVERY_MS, () => void this.#look());
  }

  /** Brokers that cannot be reached are no fault of the topics. */
  async #look(): Promise<void> {
    const { wire, topics, log, clock } = this.#context;
    try {
      const sizes = { input: await wire.partitions(topics.input), output: await wire.partitions(topics.output) };
      this.#first ??= sizes;
      this.#compare(sizes, this.#first);
      if (this.#fault === undefined && clock.monotonicMs() - this.#recordedMs >= RECORD_EVERY_MS) await this.#record(sizes);
    } catch (thrown) {
      log.debug("the topics cannot be looked at", { reason: String(thrown) });
    }
    if (!this.#closed.aborted) this.#later();
  }

  #compare(sizes: Sizes, first: Sizes): void {
    const { topics, partitions, log } = this.#context;
    const before = this.#fault;
    this.#fault = undefined;
    for (const topic of ["output", "input"] as const) {
      const size = sizes[topic];
      const unreadPartitions = topic === "input" ? Math.max(0, size.partitions - partitions) : 0;
      const grown = `${topics[topic]} has ${size.partitions} partitions by now and had ${partitions}`;
      const unread = unreadPartitions === 0 ? "" : `; no worker reads those from ${partitions} on`;
      if (size.partitions !== partitions)
        this.#fault = { reason: `${grown}${unread}: begin a new pipeline (docs/operations.md)`, unreadPartitions };
      else if (size.id !== first[topic].id)
        this.#fault = { reason: `${topics[topic]} was deleted and made anew: begin a new pipeline (docs/operations.md)`, unreadPartitions };
    }
    if (this.#fault !== undefined && this.#fault.reason !== before?.reason)
      log.error(this.#fault.reason, { pipeline: this.#context.pipeline });
  }

  async #record({ input, output }: Sizes): Promise<void> {
    for (const partition of this.#open)
      await writeRecord(this.#context, partition, { partitions: this.#context.partitions, inputId: input.id, outputId: output.id });
    this.#recordedMs = this.#context.clock.monotonicMs();
  }
}
