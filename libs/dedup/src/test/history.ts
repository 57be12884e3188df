// Histories of one partition and its neighbour: duplicates, missing and misrouted ids, publishes of unknown outcome, deaths at every failpoint,
// power cuts and lost stores. What is acknowledged is published, each id once within the window, results are true.
import assert from "node:assert/strict";
import { dice, MemoryMessageLog, type PublishFault } from "@concord/port-contracts";
import { type LogMessage } from "@concord/ports";
import { MemoryWindowStores } from "./memory-window-stores.ts";
import type { InputResult } from "../api.ts";
import { partitionOfId } from "../murmur2.ts";
import { readOrigin } from "../origin.ts";
import { all, FastClock, fixture, Life, message, textOf, turn, until, utf8, type Fixture } from "./fixture.ts";

const PARTITIONS = 2;
const IDS_PER_SEGMENT = 16;
const SEGMENTS_MAX = 2;
const STEPS_MAX = 30;
/** Ids of partition 0. */
export const IDS_COUNT = 241;

export type Step =
  /** Numbers of ids to send at once; below 0: no id, or one that belongs elsewhere. */
  | { readonly kind: "send"; readonly ids: readonly number[] }
  | { readonly kind: "fault"; readonly fault: PublishFault }
  | { readonly kind: "turns"; readonly turns: number }
  | { readonly kind: "die"; readonly hits: number; readonly cut: "power" | "process" }
  | { readonly kind: "lose" };

/** Ids that belong to partition 0, the even ones UUIDs whose case changes from copy to copy. */
const IDS = idsOf(0, IDS_COUNT);
const MISROUTED = idsOf(1, 1)[0]!;

function idsOf(partition: number, count: number): string[] {
  const ids: string[] = [];
  for (let number = 0; ids.length < count; number += 1) {
    const id = number % 2 === 0 ? `0a0b0c0d-0000-4000-8000-${String(number).padStart(12, "0")}` : `id ${number}`;
    if (partitionOfId(utf8(id), PARTITIONS) === partition) ids.push(id);
  }
  return ids;
}

export class History {
  log = new MemoryMessageLog(PARTITIONS);
  stores = new MemoryWindowStores();
  readonly clock = new FastClock();
  readonly results = new Map<bigint, InputResult>();
  readonly passed = new Set<string>();
  #sent = 0;
  #now!: Fixture;

  live(hits = Infinity): void {
    const { log, stores, clock } = this;
    const window = { idsPerSegment: IDS_PER_SEGMENT, segmentsMax: SEGMENTS_MAX, windowMs: 0 };
    this.#now = fixture({ log, stores, clock, life: new Life(hits), worker: { window } });
    this.#now.worker.start().catch(() => undefined);
  }

  async run(step: Step): Promise<void> {
    if (step.kind === "send") await this.#send(step.ids);
    else if (step.kind === "fault") this.log.failNext(0, step.fault);
    else if (step.kind === "turns") for (let turns = 0; turns < step.turns; turns += 1) await turn();
    else if (step.kind === "die") await this.#die(step.hits, step.cut);
    else this.#restart("process", new MemoryWindowStores());
  }

  async #send(numbers: readonly number[]): Promise<void> {
    const messages = numbers.map((number) => {
      const id = number === -1 ? undefined : number === -2 ? MISROUTED : IDS[number]!;
      this.#sent += 1;
      return message(id !== undefined && this.#sent % 3 === 0 && id.startsWith("0a") ? id.toUpperCase() : id, String(this.#sent));
    });
    const { from } = await this.log.append(0, messages);
    for (const [index] of messages.entries()) {
      const offset = from + BigInt(index);
      const { worker } = this.#now;
      worker
        .whenProcessed(offset)
        .then((result) => this.results.set(offset, result))
        .catch(() => undefined);
    }
  }

  /** The next life dies after so many failpoints, or when it has nothing to do any more. */
  async #die(hits: number, cut: "power" | "process"): Promise<void> {
    this.#restart(cut, this.stores, hits);
    const { life, worker } = this.#now;
    await until(async () => life.isDead || (worker.state.kind === "running" && (await worker.statistics()).lag === 0n), "death or peace");
    this.#restart(cut, this.stores);
  }

  #restart(cut: "power" | "process", stores: MemoryWindowStores, hits = Infinity): void {
    this.#now.life.kill();
    for (const name of this.#now.life.passed) this.passed.add(name);
    this.log = this.log.restart();
    this.stores = stores.restart(cut);
    this.live(hits);
  }

  async finish(): Promise<void> {
    const { worker } = this.#now;
    await until(async () => worker.state.kind === "running" && (await worker.statistics()).lag === 0n, "all processed");
    for (const name of this.#now.life.passed) this.passed.add(name);
    await worker.stop();
    await this.#check();
  }

  async #check(): Promise<void> {
    const [input, output, dead] = await Promise.all((["input", "output", "dead-letters"] as const).map((topic) => all(this.log, topic)));
    const rerouted = await all(this.log, "input", 1);
    checkOnce(output!);
    checkNothingLost(input!, output!, dead!, rerouted);
    for (const [offset, result] of this.results) checkResult(input!, output!, dead!, offset, result);
  }
}

const idOf = (each: LogMessage): string =>
  textOf(each.headers.find((header) => header.name === "concord-id")?.value ?? utf8("")).toLowerCase();

function checkOnce(output: readonly LogMessage[]): void {
  const last = new Map<string, bigint>();
  let input = -1n;
  for (const each of output) {
    const before = last.get(idOf(each));
    const guaranteed = BigInt(IDS_PER_SEGMENT * SEGMENTS_MAX);
    assert.ok(before === undefined || each.offset - before > guaranteed, `${idOf(each)} at ${before} and again at ${each.offset}`);
    last.set(idOf(each), each.offset);
    const { inputOffset } = readOrigin(each)!;
    assert.ok(inputOffset > input, `input offset ${inputOffset} follows ${input}`);
    input = inputOffset;
  }
}

function checkNothingLost(
  input: readonly LogMessage[],
  output: readonly LogMessage[],
  dead: readonly LogMessage[],
  rerouted: readonly LogMessage[],
): void {
  const published = new Map(output.map((each) => [readOrigin(each)!.inputOffset, each]));
  const deadLetters = new Map(dead.map((each) => [readOrigin(each)!.inputOffset, each]));
  assert.equal(published.size + deadLetters.size, output.length + dead.length, "no input offset twice");
  const ids = new Set<string>();
  let elsewhere = 0;
  for (const each of input) {
    const out = published.get(each.offset) ?? deadLetters.get(each.offset);
    if (out !== undefined) assert.deepEqual(out.value, each.value, `content of ${each.offset}`);
    if (published.has(each.offset)) ids.add(idOf(each));
    else if (idOf(each) === "") assert.ok(deadLetters.has(each.offset), `${each.offset} has no id: a dead letter`);
    else if (idOf(each) === MISROUTED.toLowerCase()) elsewhere += 1;
    else assert.ok(ids.has(idOf(each)), `${each.offset} is lost: ${idOf(each)} was not published before`);
  }
  assert.ok(rerouted.length >= elsewhere, "rerouted at least once each: what was refused may be there too");
}

function checkResult(
  input: readonly LogMessage[],
  output: readonly LogMessage[],
  dead: readonly LogMessage[],
  offset: bigint,
  result: InputResult,
): void {
  const sent = input.find((each) => each.offset === offset)!;
  const what = `result on ${offset}: ${result.kind}`;
  if (result.kind === "accepted")
    assert.equal(readOrigin(output.find((each) => each.offset === result.offset)!)!.inputOffset, offset, what);
  else if (result.kind === "dead-lettered")
    assert.equal(readOrigin(dead.find((each) => each.offset === result.offset)!)!.inputOffset, offset, what);
  else if (result.kind === "rerouted") assert.equal(result.partition, 1, what);
  else
    assert.ok(
      output.some((each) => idOf(each) === idOf(sent) && readOrigin(each)!.inputOffset < offset),
      what,
    );
}

/** One of a seed. Throws at the first wrong state. */
export async function runDedupHistory(seed: number): Promise<{ readonly sent: number }> {
  const below = dice(seed);
  const steps = Array.from({ length: 1 + below(STEPS_MAX) }, () => drawStep(below));
  const history = new History();
  history.live();
  for (const step of steps) await history.run(step);
  await history.finish();
  return { sent: steps.reduce((sum, step) => sum + (step.kind === "send" ? step.ids.length : 0), 0) };
}

function drawStep(below: (limit: number) => number): Step {
  const pick = <Choice>(...choices: readonly Choice[]): Choice => choices[below(choices.length)]!;
  const weight = below(16);
  if (weight < 8) return { kind: "send", ids: Array.from({ length: 1 + below(30) }, () => below(IDS_COUNT + 2) - 2) };
  if (weight < 10)
    return { kind: "fault", fault: pick<PublishFault>("unknown-applied", "unknown-not-applied", "unknown-applied-later", "fenced") };
  if (weight < 12) return { kind: "turns", turns: 1 + below(30) };
  return weight < 15 ? { kind: "die", hits: 1 + below(25), cut: pick("power", "process") } : { kind: "lose" };
}
