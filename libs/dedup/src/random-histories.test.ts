// Random histories of one partition and its neighbour: duplicates, missing and misrouted ids, publishes of unknown outcome, deaths at
// every failpoint, power cuts and lost stores. What is acknowledged is published, each id once within the window, results are true.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog, type PublishFault } from "@concord/port-contracts";
import { type LogMessage } from "@concord/ports";
import { MemoryWindowStores } from "./test/memory-window-stores.ts";
import fc from "fast-check";
import type { InputResult } from "./api.ts";
import { partitionOfId } from "./murmur2.ts";
import { readOrigin } from "./origin.ts";
import { all, FastClock, fixture, Life, message, textOf, turn, until, utf8, type Fixture } from "./test/fixture.ts";

const PARTITIONS = 2;
const IDS_PER_SEGMENT = 16;
const SEGMENTS_MAX = 2;

type Step =
  /** Numbers of ids to send at once; below 0: no id, or one that belongs elsewhere. */
  | { readonly kind: "send"; readonly ids: readonly number[] }
  | { readonly kind: "fault"; readonly fault: PublishFault }
  | { readonly kind: "turns"; readonly turns: number }
  | { readonly kind: "die"; readonly hits: number; readonly cut: "power" | "process" }
  | { readonly kind: "lose" };

const STEP: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("send" as const),
      ids: fc.array(fc.integer({ min: -2, max: 240 }), { minLength: 1, maxLength: 30 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fault" as const),
      fault: fc.constantFrom<PublishFault>("unknown-applied", "unknown-not-applied", "unknown-applied-later", "fenced"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("turns" as const), turns: fc.integer({ min: 1, max: 30 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("die" as const),
      hits: fc.integer({ min: 1, max: 25 }),
      cut: fc.constantFrom("power" as const, "process" as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "lose" as const }) },
);

/** Ids that belong to partition 0, the even ones UUIDs whose case changes from copy to copy. */
const IDS = idsOf(0, 241);
const MISROUTED = idsOf(1, 1)[0]!;

function idsOf(partition: number, count: number): string[] {
  const ids: string[] = [];
  for (let number = 0; ids.length < count; number += 1) {
    const id = number % 2 === 0 ? `0a0b0c0d-0000-4000-8000-${String(number).padStart(12, "0")}` : `id ${number}`;
    if (partitionOfId(utf8(id), PARTITIONS) === partition) ids.push(id);
  }
  return ids;
}

class History {
  log = new MemoryMessageLog(PARTITIONS);
  stores = new MemoryWindowStores();
  readonly clock = new FastClock();
  readonly results = new Map<bigint, InputResult>();
  readonly passed = new Set<string>();
  #sent = 0;
  #now!: Fixture;

  live(hits = Infinity): void {
    const { log, stores, clock } = this;
    const window = { layout: "segmented", idsPerSegment: IDS_PER_SEGMENT, segmentsMax: SEGMENTS_MAX, windowMs: 0 } as const;
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
    if (out !== undefined) assert.equal(textOf(out.value), textOf(each.value), `content of ${each.offset}`);
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

const passed = new Set<string>();

test("[DD10, DD15] random histories: deaths, power cuts, unknown publishes: each id once within the window, nothing lost", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { minLength: 1, maxLength: 40, size: "max" }), async (steps) => {
      const history = new History();
      history.live();
      for (const step of steps) await history.run(step);
      await history.finish();
      for (const name of history.passed) passed.add(name);
    }),
    { numRuns: Number(process.env["DEDUP_RUNS"] ?? 150), seed: Number(process.env["DEDUP_SEED"] ?? 20261121) },
  );
});

test("random histories: every failpoint is passed", () => {
  const points = ["fenced", "rebuilt", "looked-up", "published", "journaled", "applied", "sealing", "run-written", "sealed", "run-dropped"];
  assert.deepEqual(
    points.filter((name) => !passed.has(`dedup:${name}`)),
    [],
  );
});
