// Producers that send again what was not answered, and some of it twice for no reason; the worker dies meanwhile. Each id comes out once.
import { setTimeout as sleep } from "node:timers/promises";
import { type Constellation, isIndeterminate, Latencies, type PlainGrpc, type PlainService } from "@concord/constellation";
import { IngestService, OutputService } from "@concord/protos-dedup";
import type { ScenarioResult } from "./figures.ts";

const WORKER = "dedup-worker-1";
/** The worker dies when so many batches are published and none of their ids is in the window yet. */
export const DEDUP_FAILPOINT = "dedup:published:60";
const MESSAGES = 200_000;
const DUPLICATES = 1_200;
const PRODUCERS = 4;
const PER_CALL = 500;
const CALLS_IN_FLIGHT = 2;
const KILL_WITHIN_MS = 90_000;
const RETRY_MS = 100;
const TRIES_MAX = 200;
const PAGE = 10_000;
const VALUE = Buffer.from("a message of about the usual size, ".repeat(5));

interface Message {
  readonly id: string;
  readonly value: Buffer;
}

interface Run {
  readonly latencies: Latencies;
  /** Messages whose answer the worker's death took away. */
  indeterminate: number;
  repeated: number;
  readonly verdicts: Map<string, number>;
}

export async function dedupScenario(constellation: Constellation, grpc: PlainGrpc): Promise<ScenarioResult> {
  await constellation.process(WORKER).stop();
  await constellation.restart(WORKER, { CONCORD_KILL_POINT: DEDUP_FAILPOINT });
  const address = constellation.dedupWorkers[0]!;
  const run: Run = { latencies: new Latencies(), indeterminate: 0, repeated: 0, verdicts: new Map() };
  const messages = allMessages();
  const output = grpc(address, OutputService);
  const from = await endsOf(output);
  const startedAt = performance.now();
  const producing = Promise.all(
    Array.from({ length: PRODUCERS }, (_, at) =>
      produce(
        run,
        grpc(address, IngestService),
        messages.filter((_, n) => n % PRODUCERS === at),
      ),
    ),
  );
  const died = constellation
    .process(WORKER)
    .exited()
    .then(() => true);
  const isDead = await Promise.race([died, sleep(KILL_WITHIN_MS, false, { ref: false })]);
  const restarted = isDead ? constellation.restart(WORKER) : undefined;
  await Promise.all([producing, restarted]);
  const seconds = (performance.now() - startedAt) / 1000;
  if (!isDead) return { held: false, line: `dedup: the failpoint ${DEDUP_FAILPOINT} was not reached` };
  const problem = await judge(output, new Set(messages.map(({ id }) => id)), from);
  output.close();
  const verdicts = [...run.verdicts].map(([verdict, count]) => `${count} ${verdict.replace("VERDICT_", "").toLowerCase()}`).sort();
  const figures =
    `${messages.length} messages, ${DUPLICATES} of them duplicates, from ${PRODUCERS} producers in ${seconds.toFixed(1)} s, ` +
    `${Math.round(messages.length / seconds)} messages/s, per call of ${PER_CALL} ${run.latencies.text()}, ` +
    `${run.indeterminate} indeterminate when the worker was killed at ${DEDUP_FAILPOINT}, ${run.repeated} repeated; answers: ${verdicts.join(", ")}`;
  if (run.indeterminate === 0)
    return { held: false, line: `dedup: ${figures}; nothing was indeterminate at the kill: the run does not count` };
  return { held: problem === undefined, line: `dedup: ${figures}; ${problem ?? "the output has each id exactly once"}` };
}

/** In the order of sending; a duplicate of an earlier id after every 166th or so. */
function allMessages(): readonly Message[] {
  const unique = MESSAGES - DUPLICATES;
  const duplicatesBefore = (n: number): number => Math.floor((n * DUPLICATES) / unique);
  return Array.from({ length: unique }, (_, n) => {
    const message = { id: idOf(n), value: VALUE };
    return duplicatesBefore(n + 1) > duplicatesBefore(n) ? [message, { id: idOf(Math.floor((n * 7) / 8)), value: VALUE }] : [message];
  }).flat();
}

/** A UUIDv4 whose digits follow from `n`. */
function idOf(n: number): string {
  const digits = (BigInt(n + 1) * 0x9e3779b97f4a7c15n).toString(16).padStart(32, "0").slice(-32);
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${n.toString(16).padStart(12, "0")}`;
}

async function produce(run: Run, ingest: PlainService<IngestService>, messages: readonly Message[]): Promise<void> {
  const calls: Message[][] = [];
  for (let at = 0; at < messages.length; at += PER_CALL) calls.push(messages.slice(at, at + PER_CALL));
  calls.reverse();
  const worker = async (): Promise<void> => {
    for (let call = calls.pop(); call !== undefined; call = calls.pop()) await send(run, ingest, call);
  };
  await Promise.all(Array.from({ length: CALLS_IN_FLIGHT }, worker));
  ingest.close();
}

/** Again until it is answered: what was published before the answer was lost is a duplicate then. */
async function send(run: Run, ingest: PlainService<IngestService>, messages: readonly Message[]): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const startedAt = performance.now();
    try {
      const { results } = await ingest.call("Ingest", { messages });
      run.latencies.add(performance.now() - startedAt);
      for (const { verdict } of results) run.verdicts.set(verdict, (run.verdicts.get(verdict) ?? 0) + 1);
      return;
    } catch (error) {
      if (attempt === TRIES_MAX) throw error;
      run.repeated += messages.length;
      if (isIndeterminate(error)) run.indeterminate += messages.length;
    }
    await sleep(RETRY_MS);
  }
}

/** The end of each partition's output. */
async function endsOf(output: PlainService<OutputService>): Promise<readonly bigint[]> {
  const { partitions } = await output.call("GetBounds", { partition: 0 });
  const all = Array.from({ length: partitions }, (_, partition) => output.call("GetBounds", { partition }));
  return (await Promise.all(all)).map(({ endOffset }) => endOffset);
}

/** Reads what came since the offsets of `from`. */
async function judge(
  output: PlainService<OutputService>,
  expected: ReadonlySet<string>,
  from: readonly bigint[],
): Promise<string | undefined> {
  const seen = new Set<string>();
  let twice = 0;
  for (const [partition, end] of (await endsOf(output)).entries()) {
    for (let next = from[partition]!; next < end;) {
      const request = { partition, fromOffset: next, maxMessages: PAGE };
      const page = await output.call("Read", request);
      for (const { id } of page.messages) {
        if (seen.has(id)) twice += 1;
        seen.add(id);
      }
      next = page.nextOffset;
    }
  }
  const lost = [...expected].filter((id) => !seen.has(id)).length;
  const strange = [...seen].filter((id) => !expected.has(id)).length;
  return lost + twice + strange === 0 ? undefined : `${lost} ids lost, ${twice} delivered twice, ${strange} never sent`;
}
