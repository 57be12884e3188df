// What producers sent and which results they got, what consumers saw; and the judgement on all of it.
import { readOrigin } from "@concord/dedup";
import type { IngestResult, LogMessage, MessageInit } from "@concord/protos-dedup";
import type { World } from "@concord/simulation";
import type { Outcomes } from "../outcomes.ts";
import { guaranteedOffsets, type DedupPlan } from "./dedup-node.ts";
import { isTombstone, missingIn, textOf } from "./message-forms.ts";

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

const keyOf = ({ source, id }: SourcedId): string => `${source}/${id.toLowerCase()}`;

/** As it is sent; without an id it is known by its value, which no other one has. */
export interface SentMessage extends SourcedId {
  readonly value: string;
  readonly message: MessageInit;
}

const NAMELESS = "#";
const namelessKey = (source: string, value: string): string => `${source}/${NAMELESS}${value}`;
const keyOfSent = (sent: SentMessage): string => (sent.id === "" ? namelessKey(sent.source, sent.value) : keyOf(sent));
const isNamelessKey = (key: string): boolean => key.split("/", 2)[1]!.startsWith(NAMELESS);

const WITH_ID: readonly IngestResult["verdict"][] = ["VERDICT_ACCEPTED", "VERDICT_DUPLICATE", "VERDICT_QUEUED"];
const VERDICTS: Readonly<Record<DedupPlan["ids"]["missingId"], readonly IngestResult["verdict"][]>> = {
  make: ["VERDICT_ACCEPTED", "VERDICT_QUEUED"],
  pass: ["VERDICT_ACCEPTED", "VERDICT_QUEUED"],
  hash: WITH_ID,
  "dead-letter": ["VERDICT_DEAD_LETTERED", "VERDICT_QUEUED"],
};

export class MessageHistory {
  readonly outcomes = { ok: 0, fail: 0, info: 0 } satisfies Outcomes;
  readonly #world: World;
  readonly #plan: DedupPlan;
  readonly #sent = new Map<string, Sent>();
  readonly #accepted: Acceptance[] = [];
  readonly #deadLettered: Acceptance[] = [];
  readonly #duplicates: string[] = [];
  /** By partition and offset: what a consumer saw there. */
  readonly #seen = new Map<string, string>();

  constructor(world: World, plan: DedupPlan) {
    this.#world = world;
    this.#plan = plan;
  }

  /** Before the call: a consumer may see the message before its producer hears of it. */
  sending(message: SentMessage): void {
    const key = keyOfSent(message);
    if (!this.#sent.has(key)) this.#sent.set(key, { value: message.value, isAcknowledged: false });
  }

  valueOf(key: SourcedId): string | undefined {
    return this.#sent.get(keyOf(key))?.value;
  }

  told(message: SentMessage, { verdict, partition, offset, id: given }: IngestResult): void {
    const key = keyOfSent(message);
    this.#sent.get(key)!.isAcknowledged = true;
    const expected = message.id === "" ? this.#verdicts : WITH_ID;
    const isMade = message.id === "" && missingIn(this.#plan.ids) === "make";
    if (isMade ? given === "" : given.toLowerCase() !== message.id.toLowerCase()) this.#violation("verdict", `on ${given} for ${key}`);
    if (!expected.includes(verdict)) this.#violation("verdict", `${verdict} on ${key}`);
    else if (verdict === "VERDICT_ACCEPTED") this.#accepted.push({ id: key, partition, offset });
    else if (verdict === "VERDICT_DEAD_LETTERED") this.#deadLettered.push({ id: key, partition, offset });
    else if (verdict === "VERDICT_DUPLICATE") this.#duplicates.push(key);
  }

  /** Of a message without an id: what may become of it. */
  get #verdicts(): readonly IngestResult["verdict"][] {
    return VERDICTS[missingIn(this.#plan.ids)];
  }

  consumed(partition: number, messages: readonly LogMessage[]): void {
    for (const message of messages) {
      const key = `${partition}/${message.offset}`;
      const id = this.#keyOf(message);
      const before = this.#seen.get(key);
      if (before !== undefined && before !== id) this.#violation("changed", `${key} was ${before} and is ${id}`);
      this.#seen.set(key, id);
    }
  }

  /** A message of a log: without an id of its own by its value. */
  #keyOf(message: LogMessage): string {
    const nameless = namelessKey(message.source, textOf(message));
    return this.#sent.has(nameless) ? nameless : keyOf(message);
  }

  /** By the whole output and the dead letters, partition by partition. */
  judge(outputs: readonly (readonly LogMessage[])[], deadLetters: readonly (readonly LogMessage[])[]): void {
    const published = new Set<string>();
    for (const [partition, output] of outputs.entries()) {
      this.consumed(partition, output);
      this.#judgePartition(partition, output);
      for (const message of output) published.add(this.#keyOf(message));
    }
    const dead = this.#judgeDeadLetters(deadLetters);
    const isDead = (key: string): boolean => isNamelessKey(key) && missingIn(this.#plan.ids) === "dead-letter";
    for (const id of published) if (isDead(id)) this.#violation("without an id", `${id} is in the output`);
    for (const [id, { isAcknowledged }] of this.#sent)
      if (isAcknowledged && !(isDead(id) ? dead : published).has(id))
        this.#violation("lost", `${id} was acknowledged and is not in ${isDead(id) ? "the dead letters" : "the output"}`);
    for (const id of this.#duplicates)
      if (!published.has(id)) this.#violation("verdict", `${id} is called a duplicate and is not in the output`);
    this.#judgePlaces(this.#accepted, outputs);
    this.#judgePlaces(this.#deadLettered, deadLetters);
    const at = new Set(outputs.flatMap((output, partition) => output.map(({ offset }) => `${partition}/${offset}`)));
    for (const [place, id] of this.#seen) if (!at.has(place)) this.#violation("vanished", `${id} was read at ${place} and is gone`);
    this.#world.count("dedup:published", published.size);
  }

  /** Once within the window, in input order, nothing that was never sent. */
  #judgePartition(partition: number, output: readonly LogMessage[]): void {
    const last = new Map<string, bigint>();
    let [offset, input] = [-1n, -1n];
    for (const message of output) {
      const id = this.#keyOf(message);
      const origin = readOrigin({ ...message, timestampMs: Number(message.timestampMs) });
      const where = `${partition}/${message.offset}`;
      if (message.offset !== offset + 1n) this.#violation("gap", `${where} follows ${offset}`);
      if (origin === undefined || origin.inputOffset <= input)
        this.#violation("order", `${where} is of input ${origin?.inputOffset}, after ${input}`);
      const sent = this.#sent.get(id);
      if (sent?.value !== textOf(message)) this.#violation("invented", `${where}: ${id} with another value than the sent one`);
      if (sent !== undefined && isTombstone(sent.value)) this.#world.count("dedup:tombstones");
      const before = last.get(id);
      if (before !== undefined && this.#isCompared(id) && this.#isWithin(before, message.offset))
        this.#violation("twice", `${id} at ${partition}/${before} and ${message.offset}`);
      if (before !== undefined && this.#isCompared(id)) this.#world.count("dedup:again-beyond-window");
      last.set(id, message.offset);
      offset = message.offset;
      input = origin?.inputOffset ?? input;
    }
  }

  /** A window with a time bound promises nothing by offsets; its shortest distance is judged by its runs' times alone. */
  #isWithin(before: bigint, after: bigint): boolean {
    return this.#plan.windowMaxAgeMs === 0 && after - before <= guaranteedOffsets(this.#plan);
  }

  /** Without an id: by its content, or not at all. */
  #isCompared(key: string): boolean {
    return !isNamelessKey(key) || missingIn(this.#plan.ids) === "hash";
  }

  /** The keys of messages without an id; no other one is there. */
  #judgeDeadLetters(deadLetters: readonly (readonly LogMessage[])[]): ReadonlySet<string> {
    const dead = new Set<string>();
    for (const [partition, letters] of deadLetters.entries()) {
      for (const letter of letters) {
        const key = this.#keyOf(letter);
        const where = `${partition}/${letter.offset}`;
        if (!isNamelessKey(key) || missingIn(this.#plan.ids) !== "dead-letter")
          this.#violation("dead letter", `${key} is at ${where} of the dead letters`);
        if (readOrigin({ ...letter, timestampMs: Number(letter.timestampMs) })?.reason === undefined)
          this.#violation("dead letter", `${where} has no reason`);
        dead.add(key);
      }
    }
    this.#world.count("dedup:dead-letters", dead.size);
    return dead;
  }

  /** Each result has a place of its own, and the message is there. */
  #judgePlaces(told: readonly Acceptance[], logs: readonly (readonly LogMessage[])[]): void {
    const places = new Map<string, string>();
    for (const { id, partition, offset } of told) {
      const place = `${partition}/${offset}`;
      const there = logs[partition]?.[Number(offset)];
      if (there === undefined || this.#keyOf(there) !== id)
        this.#violation("verdict", `${id} is said to be at ${place}, there is ${there === undefined ? "nothing" : this.#keyOf(there)}`);
      if (places.has(place)) this.#violation("verdict", `two messages of ${id} are said to be at ${place}`);
      places.set(place, id);
    }
  }

  #violation(kind: string, text: string): void {
    this.#world.violation(`dedup ${kind}`, text);
  }
}
