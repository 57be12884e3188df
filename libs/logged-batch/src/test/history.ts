// Random batches while nodes crash at random steps and answers are lost: what was acknowledged or seen is complete. In some histories entries grow
// older than gc_grace, or a byte of one is damaged: an operator finds them among the dead letters and has them executed.
import assert from "node:assert/strict";
import { dice } from "@concord/port-contracts";
import { ConcordError, toConcordError, type TimeId } from "@concord/runtime";
import { DECISION_DELAY_MS, REMOVAL_DELAY_MS } from "../limits.ts";
import { inserts, MemoryRing, valueIn, WRITE_TIMEOUT_MS, type Link, type MemoryNode } from "./memory-ring.ts";

const SHORT_GRACE_MS = 20_000;
const LETTERS_MAX = 100;
/** Of a redrive. */
const REFUSALS: readonly string[] = ["BATCH_TIMEOUT", "NOT_FOUND"];
const LINKS: readonly Link[] = ["up", "up", "mute", "stuck", "down"];

interface Sent {
  readonly id: TimeId;
  readonly sentAtMs: number;
  readonly name: string;
  readonly partitions: readonly string[];
  acknowledged: boolean;
  /** A read at two replicas has shown it. */
  seen: boolean;
  /** From the dead letters, by force, and answered as done: it is owed again, however old. */
  redriven: boolean;
}

export interface BatchHistory {
  readonly sent: number;
  readonly acknowledged: number;
  /** Were in part there before the replay. */
  readonly torn: number;
  /** Reads that showed a batch. */
  readonly shown: number;
  /** Dead letters that were executed. */
  readonly redriven: number;
}

type Below = (limit: number) => number;

async function disturbedRing(below: Below): Promise<MemoryRing> {
  const ring = new MemoryRing(3);
  if (below(2) === 0) ring.gcGraceMs = SHORT_GRACE_MS;
  for (const node of ring.nodes) await ring.start(node);
  let countdown = 1 + below(30);
  ring.onStep = () => {
    countdown -= 1;
    if (countdown > 0) return;
    countdown = 1 + below(30);
    ring.crash(ring.node(below(3)));
  };
  ring.onFailpoint = (node) => {
    if (below(20) === 0) ring.crash(ring.nodes.find((candidate) => candidate.name === node)!);
  };
  return ring;
}

/** Throws at the first wrong state. */
export async function runBatchHistory(seed: number): Promise<BatchHistory> {
  const below = dice(seed);
  const ring = await disturbedRing(below);
  const sent: Sent[] = [];
  let shown = 0;
  // One entry, at one holder.
  let damaged = below(3) > 0 ? "none" : undefined;
  for (let round = 0; round < 8; round += 1) {
    const node = ring.node(below(3));
    if (below(3) === 0) ring.links.set(`node-${below(3)}>node-${below(3)}`, LINKS[below(LINKS.length)]!);
    if (node.process !== undefined) sent.push(send(ring, node.process, `b${round}`));
    if (below(2) === 0) await ring.clock.advance(below(2 * WRITE_TIMEOUT_MS));
    if (ring.gcGraceMs === SHORT_GRACE_MS && below(3) === 0) await ring.clock.advance(below(2 * SHORT_GRACE_MS));
    const stopped = ring.nodes.find(({ process }) => process === undefined);
    if (damaged === undefined && stopped !== undefined) damaged = await ring.damageEntry(stopped);
    if (below(2) === 0) await ring.start(ring.node(below(3)));
    if (below(4) === 0) void ring.nodes[below(3)]!.process?.replay.replayNow();
    if (below(3) === 0) void operate(ring, ring.node(below(3)), sent);
    const read = sent.length === 0 ? undefined : sent[below(sent.length)];
    // Until replay has completed it, a damaged copy is one copy less.
    if (read !== undefined && read.id !== damaged && (await readAtTwo(ring, read, below(3)))) shown += 1;
  }
  await ring.clock.advance(3 * WRITE_TIMEOUT_MS);
  const torn = sent.filter((batch) => isTorn(ring, batch)).length;
  await heal(ring, sent);
  check(ring, sent);
  const count = (is: (batch: Sent) => boolean): number => sent.filter(is).length;
  return { sent: sent.length, acknowledged: count((one) => one.acknowledged), torn, shown, redriven: count((one) => one.redriven) };
}

function send(ring: MemoryRing, { executor }: NonNullable<MemoryNode["process"]>, name: string): Sent {
  const partitions = ["x", "y", "z"].map((part) => `${part}${name.slice(1)}`);
  const state = { acknowledged: false, seen: false, redriven: false };
  const batch: Sent = { id: ring.newId(), sentAtMs: ring.clock.nowMs(), name, partitions, ...state };
  const request = { id: batch.id, timestampUs: undefined, mutationsAt: inserts([...partitions, "shared"], name), unlogged: false };
  void executor.execute(request).then(
    () => (batch.acknowledged = true),
    () => undefined,
  );
  return batch;
}

/** An operator looks through a node's dead letters: none that expired is executed unless by force (LBD6). */
async function operate(ring: MemoryRing, { process }: MemoryNode, sent: readonly Sent[]): Promise<void> {
  if (process === undefined) return;
  const { replay } = process;
  for (const { id, reason } of await replay.deadLetters(LETTERS_MAX)) {
    const batch = sent.find((one) => one.id === id);
    assert.ok(batch !== undefined, `the dead letter ${id} is a batch that was sent`);
    if (reason === "EXPIRED") {
      assert.ok(isExpired(ring, batch), `${batch.name} is no older than gc_grace and a dead letter`);
      await assert.rejects(replay.redrive(id, false), ({ code }: ConcordError) => code === "BATCH_INVALID" || code === "NOT_FOUND");
    }
    await replay.redrive(id, true).then(
      () => (batch.redriven = true),
      (thrown: unknown) => {
        const { code } = toConcordError(thrown);
        assert.ok(REFUSALS.includes(code) || (reason === "UNDECODABLE" && code === "CORRUPT_DATA"), `${batch.name}: ${String(thrown)}`);
      },
    );
  }
}

function isExpired(ring: MemoryRing, { sentAtMs }: Sent): boolean {
  return ring.clock.nowMs() - sentAtMs > ring.gcGraceMs;
}

/**
 * What is acknowledged, or was seen before, is seen by every read that two replicas answer (I5), but for what may be a dead letter. Whether this one
 * showed it.
 */
async function readAtTwo(ring: MemoryRing, batch: Sent, absent: number): Promise<boolean> {
  const nodes = [0, 1, 2].filter((at) => at !== absent && ring.node(at).process !== undefined);
  if (nodes.length < 2) return false;
  const isPromised = ((batch.acknowledged || batch.seen) && !isExpired(ring, batch)) || batch.redriven;
  const answers = await Promise.all(nodes.map((at) => ring.read(at, batch.partitions[at]!)));
  if (answers.some((answer) => answer !== batch.name && answer !== "none")) return false;
  const isShown = answers.includes(batch.name);
  assert.ok(isShown || !isPromised, `${batch.name} was promised and is not seen`);
  batch.seen ||= isShown;
  return isShown;
}

function isTorn(ring: MemoryRing, batch: Sent): boolean {
  const written = valuesOf(ring, batch);
  return written.includes(batch.name) && written.includes(undefined);
}

async function heal(ring: MemoryRing, sent: readonly Sent[]): Promise<void> {
  ring.onStep = () => undefined;
  ring.onFailpoint = () => undefined;
  ring.links.clear();
  for (const node of ring.nodes) await ring.start(node);
  for (const node of ring.nodes) await node.process!.replay.replayNow();
  // a decision of the last batches may still wait for its call
  await ring.clock.advance(DECISION_DELAY_MS + REMOVAL_DELAY_MS);
  for (const node of ring.nodes) await node.process!.replay.replayNow();
  for (const node of ring.nodes) await operate(ring, node, sent);
  await ring.deliverHints();
}

function valuesOf(ring: MemoryRing, batch: Sent): (string | undefined)[] {
  return ring.nodes.flatMap((node) => {
    const { rows } = node;
    return batch.partitions.map((partition) => valueIn(rows, partition));
  });
}

function check(ring: MemoryRing, sent: readonly Sent[]): void {
  for (const batch of sent) {
    const values = valuesOf(ring, batch);
    const everywhere = values.every((value) => value === batch.name);
    const nowhere = values.every((value) => value === undefined);
    assert.ok(everywhere || nowhere, `${batch.name} is torn: ${values.join()}`);
    assert.ok(everywhere || !batch.acknowledged, `${batch.name} was acknowledged and is not there`);
  }
  for (const node of ring.nodes) assert.equal(node.contents(), ring.node(0).contents(), "replicas agree");
  assert.deepEqual(
    ring.nodes.map((node) => node.process!.batchLog.size),
    [0, 0, 0],
    "nothing is left in the logs",
  );
  const letters = ring.nodes.flatMap((node) => node.process!.batchLog.letters());
  assert.ok(letters.length <= 1, `one entry was damaged, ${letters.length} dead letters are left`);
}
