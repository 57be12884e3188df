// Producers of a dedup worker that is killed again and again, and what its output must be afterwards.
import { setTimeout as sleep } from "node:timers/promises";
import { IngestService } from "@concord/protos-dedup";
import { type Constellation, isIndeterminate, type PlainGrpc } from "@concord/constellation";
import { earlyHit, failpointsIn } from "./failpoints.ts";
import { OutputReader } from "./objects/output-reader.ts";
import { OutputConsumers } from "./readers/output-consumers.ts";
import { newTally, type Subject } from "./subject.ts";

const HOUR_MS = 3_600_000;
/** Beyond the age of the window, too. */
const CLOCK_STEPS_MS = [40 * 24 * HOUR_MS, -6 * HOUR_MS, 3 * HOUR_MS, -240 * HOUR_MS];
const PRODUCERS = 4;
const PER_CALL = 40;
/** Of the messages of a call so many are ones that were sent before. */
const OLD_PER_CALL = 8;
const VALUE = Buffer.from("a message");
/** Null in a tenth of the messages: which follows from the id, so each copy of a message is the same. */
const isTombstone = (id: string): boolean => /^crash-\d*3$/.test(id);
/** Small, so that segments are written and dropped under the kills; what is sent again is younger than that. */
export const WORKER_CONFIG = { logLevel: "warn", windowIdsMax: 8_000, missingId: "dead-letter" };

export class DedupSubject implements Subject {
  readonly service = "dedup-worker";
  readonly nodes = ["dedup-worker-1"];
  readonly beside = [];
  readonly points = failpointsIn(["libs/dedup", "libs/adapter-embedded-log", "libs/journal", "apps/dedup-worker"]);
  readonly reachMs = 1_200;
  readonly reachOperations = 400;
  readonly worksThroughRestarts = false;
  readonly clockStepsMs = CLOCK_STEPS_MS;
  readonly tally = newTally();
  readonly notes: string[] = [];
  readonly slowReaders: OutputConsumers | undefined;
  readonly #address: string;
  readonly #grpc: PlainGrpc;
  /** Ids that were answered with accepted or duplicate. */
  readonly #acknowledged = new Set<string>();
  readonly #sent: string[] = [];
  readonly #seen = new Set<string>();
  readonly #output: OutputReader;
  /** Values of messages without an id that were answered: they must be in the dead letters, at least once. */
  readonly #refused = new Set<string>();
  readonly #deadLetters = new Set<string>();
  #calls = 0;

  constructor(constellation: Constellation, grpc: PlainGrpc, consumers: "slow" | "none" = "none") {
    const { tally, notes } = this;
    this.#address = constellation.dedupWorkers[0]!;
    this.slowReaders = consumers === "none" ? undefined : new OutputConsumers({ constellation, grpc, tally, notes });
    this.#grpc = grpc;
    this.#output = new OutputReader(this.#address, grpc);
  }

  hitOf(_point: string, cycle: number): number {
    return earlyHit(this.points, cycle);
  }

  died(): void {}

  async prepare(): Promise<void> {
    for (const id of (await this.slowReaders?.prepare()) ?? []) this.#acknowledged.add(id);
  }

  async work(signal: AbortSignal): Promise<void> {
    await Promise.all([...Array.from({ length: PRODUCERS }, () => this.#produce(signal)), this.slowReaders?.work(signal)]);
  }

  /** Reads on where it stopped: an id that comes again, at whatever offset, was delivered twice. */
  async judge(): Promise<void> {
    // Added afterwards: what is read adds to it, too.
    const lost = await this.#output.read({
      TOPIC_OUTPUT: ({ id, nullValue }) => {
        if (isTombstone(id) !== nullValue) {
          this.tally.lost += 1;
          this.notes.push(`${id} has ${nullValue ? "no value, it was sent with one" : "a value, it was sent with none"}`);
        }
        if (this.#seen.has(id)) this.tally.duplicated += 1;
        this.#seen.add(id);
      },
      TOPIC_DEAD_LETTERS: ({ value }) => void this.#deadLetters.add(Buffer.from(value).toString()),
    });
    this.tally.lost += lost;
    this.tally.lost += [...this.#acknowledged].filter((id) => !this.#seen.has(id)).length;
    this.tally.lost += [...this.#refused].filter((value) => !this.#deadLetters.has(value)).length;
    await this.slowReaders?.judge(this.#seen);
  }

  close(): void {}

  async #produce(signal: AbortSignal): Promise<void> {
    const ingest = this.#grpc(this.#address, IngestService);
    while (!signal.aborted) {
      const ids = this.#ids();
      this.#calls += 1;
      const nameless = `nameless ${this.#calls}`;
      const named = ids.map((id) => ({ id, ...(isTombstone(id) ? { nullValue: true } : { value: VALUE }) }));
      const messages = [...named, { value: Buffer.from(nameless) }];
      try {
        const { results } = await ingest.call("Ingest", { messages });
        this.tally.acknowledged += results.length;
        for (const id of ids) this.#acknowledged.add(id);
        if (results.at(-1)!.verdict === "VERDICT_DEAD_LETTERED") this.#refused.add(nameless);
        else this.tally.lost += 1;
      } catch (error) {
        if (isIndeterminate(error)) this.tally.indeterminate += ids.length;
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
}
