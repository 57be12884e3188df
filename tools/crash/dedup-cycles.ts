// Producers of a dedup worker that is killed again and again, and what its output must be afterwards.
import { setTimeout as sleep } from "node:timers/promises";
import type { Constellation } from "../constellation/constellation.ts";
import { isInDoubt } from "../demo/in-doubt.ts";
import type { PlainGrpc, PlainService } from "../demo/plain-grpc.ts";
import type { Subject, Tally } from "./subject.ts";

export const WORKER = "dedup-worker-1";
const PRODUCERS = 4;
const PER_CALL = 40;
/** Of the messages of a call so many are ones that were sent before. */
const OLD_PER_CALL = 8;
const PAGE = 10_000;
const VALUE = Buffer.from("a message");

interface Result {
  readonly verdict: string;
}

export class DedupSubject implements Subject {
  readonly node = WORKER;
  readonly projects = ["libs/dedup", "libs/adapter-embedded-log", "libs/journal", "apps/dedup-worker"];
  readonly tally: Tally = { acknowledged: 0, inDoubt: 0, lost: 0, leaked: 0, dangling: 0, duplicated: 0 };
  readonly #address: string;
  readonly #grpc: PlainGrpc;
  /** Ids that were answered with accepted or duplicate. */
  readonly #acknowledged = new Set<string>();
  readonly #sent: string[] = [];
  readonly #seen = new Set<string>();
  readonly #next = new Map<number, bigint>();

  constructor(constellation: Constellation, grpc: PlainGrpc) {
    this.#address = constellation.dedupWorkers[0]!;
    this.#grpc = grpc;
  }

  async prepare(): Promise<void> {}

  async work(signal: AbortSignal): Promise<void> {
    await Promise.all(Array.from({ length: PRODUCERS }, () => this.#produce(signal)));
  }

  /** Reads on where it stopped: an id that comes again, at whatever offset, was delivered twice. */
  async judge(): Promise<void> {
    const output = this.#grpc(this.#address, "concord.dedup.v1.OutputService");
    const { partitions } = await output.call<{ partitions: number }>("GetBounds", {});
    for (let partition = 0; partition < partitions; partition += 1) await this.#read(output, partition);
    output.close();
    this.tally.lost = [...this.#acknowledged].filter((id) => !this.#seen.has(id)).length;
  }

  close(): void {}

  async #produce(signal: AbortSignal): Promise<void> {
    const ingest = this.#grpc(this.#address, "concord.dedup.v1.IngestService");
    while (!signal.aborted) {
      const ids = this.#ids();
      try {
        const { results } = await ingest.call<{ results: Result[] }>("Ingest", { messages: ids.map((id) => ({ id, value: VALUE })) });
        this.tally.acknowledged += results.length;
        for (const id of ids) this.#acknowledged.add(id);
      } catch (error) {
        if (isInDoubt(error)) this.tally.inDoubt += ids.length;
        await sleep(10);
      }
    }
    ingest.close();
  }

  #ids(): string[] {
    const fresh = Array.from({ length: PER_CALL - OLD_PER_CALL }, (_, n) => `crash-${this.#sent.length + n}`);
    this.#sent.push(...fresh);
    const recent = Array.from({ length: OLD_PER_CALL }, (_, n) => this.#sent[Math.max(0, this.#sent.length - 1 - n * n * 37)]!);
    return [...fresh, ...recent];
  }

  async #read(output: PlainService, partition: number): Promise<void> {
    const { startOffset, endOffset } = await output.call<{ startOffset: bigint; endOffset: bigint }>("GetBounds", { partition });
    let from = this.#next.get(partition) ?? startOffset;
    while (from < endOffset) {
      const page = await output.call<{ messages: { id: string }[]; nextOffset: bigint }>("Read", {
        partition,
        fromOffset: from,
        maxMessages: PAGE,
      });
      for (const { id } of page.messages) {
        if (this.#seen.has(id)) this.tally.duplicated += 1;
        this.#seen.add(id);
      }
      from = page.nextOffset;
    }
    // An end that moved back has lost what was read before.
    if (from > endOffset) this.tally.lost += Number(from - endOffset);
    this.#next.set(partition, from);
  }
}
