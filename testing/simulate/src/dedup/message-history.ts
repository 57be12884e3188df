// What producers sent and which results they got, what consumers saw; and the judgement on all of it.
import { readOrigin } from "@concord/dedup";
import type { IngestResult, LogMessage } from "@concord/protos-dedup";
import type { World } from "@concord/simulation";
import type { Outcomes } from "../run-seed.ts";
import { guaranteedOffsets, type DedupPlan } from "./dedup-node.ts";

interface Sent {
  readonly value: string;
  /** A producer got the result that it is in the output, or will be. */
  isAcknowledged: boolean;
}

interface Acceptance {
  /** As `keyOf` makes it. */
  readonly id: string;
  readonly partition: number;
  readonly offset: bigint;
}

/** Whose id, and which: equal ids of two sources are two messages (DDD13). UUIDs compare in any case; the ids of this workload are small letters otherwise. */
export interface SourcedId {
  readonly source: string;
  readonly id: string;
}

export const keyOf = ({ source, id }: SourcedId): string => `${source}/${id.toLowerCase()}`;

const decoder = new TextDecoder();

export class MessageHistory {
  readonly outcomes = { ok: 0, fail: 0, info: 0 } satisfies Outcomes;
  readonly #world: World;
  readonly #plan: DedupPlan;
  readonly #sent = new Map<string, Sent>();
  readonly #accepted: Acceptance[] = [];
  readonly #duplicates: string[] = [];
  /** By partition and offset: what a consumer saw there. */
  readonly #seen = new Map<string, string>();

  constructor(world: World, plan: DedupPlan) {
    this.#world = world;
    this.#plan = plan;
  }

  /** Before the call: a consumer may see the message before its producer hears of it. */
  sending(key: SourcedId, value: string): void {
    const id = keyOf(key);
    if (!this.#sent.has(id)) this.#sent.set(id, { value, isAcknowledged: false });
  }

  valueOf(key: SourcedId): string | undefined {
    return this.#sent.get(keyOf(key))?.value;
  }

  told(source: string, { verdict, partition, offset, id: given }: IngestResult): void {
    const id = keyOf({ source, id: given });
    const sent = this.#sent.get(id);
    if (sent === undefined) return this.#violation("verdict", `on ${id}, which was never sent`);
    sent.isAcknowledged = true;
    if (verdict === "VERDICT_ACCEPTED") this.#accepted.push({ id, partition, offset });
    else if (verdict === "VERDICT_DUPLICATE") this.#duplicates.push(id);
    else if (verdict !== "VERDICT_QUEUED") this.#violation("verdict", `${verdict} on ${id}`);
  }

  consumed(partition: number, messages: readonly LogMessage[]): void {
    for (const message of messages) {
      const key = `${partition}/${message.offset}`;
      const id = keyOf(message);
      const before = this.#seen.get(key);
      if (before !== undefined && before !== id) this.#violation("changed", `${key} was ${before} and is ${id}`);
      this.#seen.set(key, id);
    }
  }

  /** By the whole output, partition by partition. */
  judge(outputs: readonly (readonly LogMessage[])[]): void {
    const published = new Map<string, number>();
    for (const [partition, output] of outputs.entries()) {
      this.consumed(partition, output);
      this.#judgePartition(partition, output);
      for (const message of output) published.set(keyOf(message), (published.get(keyOf(message)) ?? 0) + 1);
    }
    for (const [id, { isAcknowledged }] of this.#sent)
      if (isAcknowledged && !published.has(id)) this.#violation("lost", `${id} was acknowledged and is not in the output`);
    for (const id of this.#duplicates)
      if (!published.has(id)) this.#violation("verdict", `${id} is called a duplicate and is not in the output`);
    this.#judgeAcceptances(outputs);
    const at = new Set(outputs.flatMap((output, partition) => output.map(({ offset }) => `${partition}/${offset}`)));
    for (const [place, id] of this.#seen) if (!at.has(place)) this.#violation("vanished", `${id} was read at ${place} and is gone`);
    this.#world.count("dedup:published", published.size);
  }

  /** Once within the window, in input order, nothing that was never sent. */
  #judgePartition(partition: number, output: readonly LogMessage[]): void {
    const last = new Map<string, bigint>();
    let [offset, input] = [-1n, -1n];
    for (const message of output) {
      const id = keyOf(message);
      const origin = readOrigin({ ...message, timestampMs: Number(message.timestampMs) });
      const where = `${partition}/${message.offset}`;
      if (message.offset !== offset + 1n) this.#violation("gap", `${where} follows ${offset}`);
      if (origin === undefined || origin.inputOffset <= input)
        this.#violation("order", `${where} is of input ${origin?.inputOffset}, after ${input}`);
      const sent = this.#sent.get(id);
      if (sent?.value !== decoder.decode(message.value))
        this.#violation("invented", `${where}: ${id} with another value than the sent one`);
      const before = last.get(id);
      if (before !== undefined && this.#isWithin(before, message.offset))
        this.#violation("twice", `${id} at ${partition}/${before} and ${message.offset}`);
      if (before !== undefined) this.#world.count("dedup:again-beyond-window");
      last.set(id, message.offset);
      offset = message.offset;
      input = origin?.inputOffset ?? input;
    }
  }

  /** A window with a time bound promises nothing by offsets; its shortest distance is judged by its runs' times alone. */
  #isWithin(before: bigint, after: bigint): boolean {
    return this.#plan.windowMaxAgeMs === 0 && after - before <= guaranteedOffsets(this.#plan);
  }

  /** Each acceptance has a place of its own, and the message is there. */
  #judgeAcceptances(outputs: readonly (readonly LogMessage[])[]): void {
    const places = new Map<string, string>();
    for (const { id, partition, offset } of this.#accepted) {
      const place = `${partition}/${offset}`;
      const there = outputs[partition]?.[Number(offset)];
      if (there === undefined || keyOf(there) !== id)
        this.#violation("verdict", `${id} is said to be at ${place}, there is ${there === undefined ? "nothing" : keyOf(there)}`);
      if (places.has(place)) this.#violation("verdict", `two messages of ${id} are said to be at ${place}`);
      places.set(place, id);
    }
  }

  #violation(kind: string, text: string): void {
    this.#world.violation(`dedup ${kind}`, text);
  }
}
