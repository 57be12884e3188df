// The loads that run at once on Cassandra, Kafka and Ceph, and how long each stood still.
import { setTimeout as sleep } from "node:timers/promises";
import { type Constellation, type Installed, plainGrpc } from "@concord/constellation";
import { DedupSubject } from "../dedup-cycles.ts";
import { ObjectSubject } from "../object-cycles.ts";
import { BatchSubject } from "../rows/batch-subject.ts";
import { RowSubject } from "../rows/row-subject.ts";
import type { Subject } from "../subject.ts";

/** Each load does so much more before the next fault, within the time. */
const PROGRESS = 30;
const PROGRESS_WITHIN_MS = 180_000;
const PROGRESS_POLL_MS = 50;
const GAP_POLL_MS = 20;

export interface Load {
  readonly name: string;
  readonly subject: Subject;
  readonly acknowledged: () => number;
  /** Operations that failed and may have been applied: what was only under way when a process died is not among them. */
  readonly unanswered: () => number;
  /** The longest time without an acknowledgement since it was asked for last. */
  gapMs: number;
  /** The longest one before the first fault. */
  calmGapMs: number;
  changedAtMs: number;
  known: number;
}

export function loadsOf(constellation: Constellation, installed: Installed): readonly Load[] {
  const grpc = plainGrpc(installed);
  const clients = { client: installed.client, random: Math.random };
  const rows = new RowSubject("txn-coordinator", constellation, clients);
  const batches = new BatchSubject(constellation, clients);
  const objects = new ObjectSubject(constellation, grpc);
  const messages = new DedupSubject(constellation, grpc);
  const load = (name: string, subject: Subject, unanswered: () => number, acknowledged = () => subject.tally.acknowledged): Load => {
    return { name, subject, acknowledged, unanswered, gapMs: 0, calmGapMs: 0, changedAtMs: performance.now(), known: 0 };
  };
  return [
    load(
      "transactions",
      rows,
      () => rows.unanswered,
      () => rows.acknowledged,
    ),
    load("batches", batches, () => batches.unanswered),
    load("objects", objects, () => objects.tally.indeterminate),
    load("messages", messages, () => messages.tally.indeterminate),
  ];
}

/** `faults` gets a function that waits until all loads have gone on. */
export async function underLoad(loads: readonly Load[], faults: (progress: () => Promise<void>) => Promise<void>): Promise<void> {
  for (const { subject } of loads) await subject.prepare();
  const stopping = new AbortController();
  const work = Promise.all(loads.map(({ subject }) => subject.work(stopping.signal)));
  // Awaited at the end.
  work.catch(() => undefined);
  const watched = watchGaps(loads, stopping.signal);
  const progress = async (): Promise<void> => {
    const enough = loads.map(({ acknowledged }) => acknowledged() + PROGRESS);
    const endsAt = performance.now() + PROGRESS_WITHIN_MS;
    for (const [at, { name, acknowledged }] of loads.entries()) {
      while (acknowledged() < enough[at]!) {
        if (performance.now() > endsAt) throw new Error(`the load of ${name} did not go on within ${PROGRESS_WITHIN_MS / 1000} s`);
        await Promise.race([sleep(PROGRESS_POLL_MS), work]);
      }
    }
  };
  try {
    await progress();
    for (const load of loads) load.gapMs = 0;
    await progress();
    for (const load of loads) load.calmGapMs = load.gapMs;
    await faults(progress);
  } finally {
    stopping.abort();
    await Promise.all([work, watched]);
  }
}

/** Looks for acknowledgements until the signal is aborted. */
async function watchGaps(loads: readonly Load[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const nowMs = performance.now();
    for (const load of loads) {
      const acknowledged = load.acknowledged();
      load.gapMs = Math.max(load.gapMs, nowMs - load.changedAtMs);
      if (acknowledged === load.known) continue;
      load.known = acknowledged;
      load.changedAtMs = nowMs;
    }
    await sleep(GAP_POLL_MS);
  }
}

export function describeLoad({ name, subject, acknowledged, unanswered }: Load): string {
  const { indeterminate, lost, dirty, leaked, dangling, duplicated } = subject.tally;
  const wrong = `${lost} lost, ${dirty} dirty, ${leaked} leaked, ${dangling} dangling, ${duplicated} duplicated`;
  return `${name}: ${acknowledged()} acknowledged, ${indeterminate} indeterminate, ${unanswered()} without an answer, ${wrong}`;
}
