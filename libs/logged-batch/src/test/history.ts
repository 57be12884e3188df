// Random batches while nodes crash at random steps and answers are lost: what was acknowledged or seen is complete.
import assert from "node:assert/strict";
import { dice } from "@concord/port-contracts";
import { DECISION_DELAY_MS, REMOVAL_DELAY_MS } from "../limits.ts";
import { inserts, MemoryRing, valueIn, WRITE_TIMEOUT_MS, type Link } from "./memory-ring.ts";

const LINKS: readonly Link[] = ["up", "up", "mute", "stuck", "down"];

interface Sent {
  readonly name: string;
  readonly partitions: readonly string[];
  acknowledged: boolean;
  /** A read at two replicas has shown it. */
  seen: boolean;
}

export interface BatchHistory {
  readonly sent: number;
  readonly acknowledged: number;
  /** Were in part there before the replay. */
  readonly torn: number;
  /** Reads that showed a batch. */
  readonly shown: number;
}

async function disturbedRing(below: (limit: number) => number): Promise<MemoryRing> {
  const ring = await MemoryRing.open(3);
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
  for (let round = 0; round < 8; round += 1) {
    const node = ring.node(below(3));
    if (below(3) === 0) ring.links.set(`node-${below(3)}>node-${below(3)}`, LINKS[below(LINKS.length)]!);
    if (node.process !== undefined) {
      const batch: Sent = {
        name: `b${round}`,
        partitions: ["x", "y", "z"].map((part) => `${part}${round}`),
        acknowledged: false,
        seen: false,
      };
      sent.push(batch);
      const request = {
        id: ring.newId(),
        timestampUs: undefined,
        mutationsAt: inserts([...batch.partitions, "shared"], batch.name),
        unlogged: false,
      };
      void node.process.executor.execute(request).then(
        () => (batch.acknowledged = true),
        () => undefined,
      );
    }
    if (below(2) === 0) await ring.clock.advance(below(2 * WRITE_TIMEOUT_MS));
    if (below(2) === 0) await ring.start(ring.node(below(3)));
    if (below(4) === 0) void ring.nodes[below(3)]!.process?.replay.replayNow();
    if (sent.length > 0 && (await readAtTwo(ring, sent[below(sent.length)]!, below(3)))) shown += 1;
  }
  await ring.clock.advance(3 * WRITE_TIMEOUT_MS);
  const torn = sent.filter((batch) => isTorn(ring, batch)).length;
  await heal(ring);
  check(ring, sent);
  return { sent: sent.length, acknowledged: sent.filter((batch) => batch.acknowledged).length, torn, shown };
}

/** What is acknowledged, or was seen before, is seen by every read that two replicas answer (I5). Whether this one showed it. */
async function readAtTwo(ring: MemoryRing, batch: Sent, absent: number): Promise<boolean> {
  const nodes = [0, 1, 2].filter((at) => at !== absent && ring.node(at).process !== undefined);
  if (nodes.length < 2) return false;
  const isPromised = batch.acknowledged || batch.seen;
  const answers = await Promise.all(nodes.map((at) => ring.read(at, batch.partitions[at]!)));
  if (answers.some((answer) => answer !== batch.name && answer !== "none")) return false;
  batch.seen ||= answers.includes(batch.name);
  assert.ok(batch.seen || !isPromised, `${batch.name} was promised and is not seen`);
  return batch.seen;
}

function isTorn(ring: MemoryRing, batch: Sent): boolean {
  const written = valuesOf(ring, batch);
  return written.includes(batch.name) && written.includes(undefined);
}

async function heal(ring: MemoryRing): Promise<void> {
  ring.onStep = () => undefined;
  ring.onFailpoint = () => undefined;
  ring.links.clear();
  for (const node of ring.nodes) await ring.start(node);
  for (const node of ring.nodes) await node.process!.replay.replayNow();
  // a decision of the last batches may still wait for its call
  await ring.clock.advance(DECISION_DELAY_MS + REMOVAL_DELAY_MS);
  for (const node of ring.nodes) await node.process!.replay.replayNow();
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
}
