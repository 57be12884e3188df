import type { TopicFault } from "@concord/ports";
import { every, Task } from "@concord/runtime";
import type { KafkaContext } from "./context.ts";
import type { TopicSize } from "./kafka-wire.ts";
import { RECORD_EVERY_MS, TOPICS_EVERY_MS } from "./limits.ts";
import { writeRecord } from "./pipeline-record.ts";

type Sizes = Readonly<Record<"input" | "output", TopicSize>>;

/** Looks at the topics for as long as the log is open: others add partitions to them, or make them anew. */
export class TopicWatch {
  readonly #context: KafkaContext;
  readonly #task: Task;
  readonly #open = new Set<number>();
  #first: Sizes | undefined;
  #recordedMs: number;
  #fault: TopicFault | undefined;

  constructor(context: KafkaContext, closed: AbortSignal) {
    this.#context = context;
    this.#recordedMs = context.clock.monotonicMs();
    this.#task = new Task({
      ...context,
      name: "messages: topics",
      firstAfterMs: TOPICS_EVERY_MS,
      ...every(TOPICS_EVERY_MS, () => this.#look()),
      failed: ({ message }) => context.log.debug("the topics cannot be looked at", { reason: message }),
    });
    closed.addEventListener("abort", () => void this.#task.stop(), { once: true });
    this.#task.start();
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

  /** Rejects when brokers cannot be reached, which is no fault of the topics. */
  async #look(): Promise<void> {
    const { wire, topics, clock } = this.#context;
    const sizes = { input: await wire.partitions(topics.input), output: await wire.partitions(topics.output) };
    this.#first ??= sizes;
    this.#compare(sizes, this.#first);
    if (this.#fault === undefined && clock.monotonicMs() - this.#recordedMs >= RECORD_EVERY_MS) await this.#record(sizes);
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
