// Reads what a dedup-worker published, on from where it stopped.
import { OutputService, type LogMessage, type Topic } from "@concord/protos-dedup";
import type { PlainGrpc, PlainService } from "@concord/constellation";

const PAGE = 10_000;

export class OutputReader {
  readonly #address: string;
  readonly #grpc: PlainGrpc;
  readonly #next = new Map<string, bigint>();

  constructor(address: string, grpc: PlainGrpc) {
    this.#address = address;
    this.#grpc = grpc;
  }

  /** All partitions of the topics. How many messages are lost: an end that moved back has lost what was read before. */
  async read(topics: Partial<Record<Topic, (message: LogMessage) => void>>): Promise<number> {
    const output = this.#grpc(this.#address, OutputService);
    try {
      const { partitions } = await output.call("GetBounds", {});
      let lost = 0;
      for (let partition = 0; partition < partitions; partition += 1)
        for (const [topic, take] of Object.entries(topics)) lost += await this.#readPartition(output, topic as Topic, partition, take);
      return lost;
    } finally {
      output.close();
    }
  }

  async #readPartition(
    output: PlainService<OutputService>,
    topic: Topic,
    partition: number,
    take: (message: LogMessage) => void,
  ): Promise<number> {
    const bounds = await output.call("GetBounds", { topic, partition });
    const place = `${topic} ${partition}`;
    let from = this.#next.get(place) ?? bounds.startOffset;
    const lost = from > bounds.endOffset ? Number(from - bounds.endOffset) : 0;
    // The end may move on while this reads: the input's backlog is worked off.
    while (from < bounds.endOffset) {
      const page = await output.call("Read", { topic, partition, fromOffset: from, maxMessages: PAGE });
      page.messages.forEach(take);
      from = page.nextOffset;
    }
    this.#next.set(place, from);
    return lost;
  }
}
