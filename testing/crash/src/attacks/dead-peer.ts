// A node of three that stays dead for longer than hints for it find space: all others are served, and it gets all that it lacks once it is back.
import { rmSync } from "node:fs";
import { EVERYTHING } from "@concord/constellation";
import type { Attack, Target } from "./attack.ts";
import { BATCH_BYTES, compare, type Compared, PromisedRows } from "./promised-rows.ts";
import { connectEach, healed, hints, Replica, type Ring, ringOf, settle, waitingFor } from "./replicas.ts";

const HINT_BYTES = 64 * 1024;
/** A tenth of it is for what others have on their way: more than the writers send until removals of a tenth of a second have arrived. */
const LOG_ENTRIES = 300;
/** Batches through each survivor while the peer is dead: as fill its hints, and then, if they stayed there, the batchlog of each node three times. */
const BATCHES = Math.ceil(HINT_BYTES / BATCH_BYTES) + (3 * LOG_ENTRIES) / 2;

/** Writes until hints were dropped long ago; each survivor must have dropped some, with a comparison due. */
async function overflow(target: Target, { victim, survivors }: Ring, rows: PromisedRows): Promise<void> {
  const left = async (): Promise<string | undefined> =>
    rows.fewestBatches < BATCHES ? `${rows.fewestBatches} of ${BATCHES} batches of each node` : undefined;
  await settle(target, "logged batches beside a dead node", left);
  await target.serves(`while ${victim.name} is dead and hints for it are dropped`);
  for (const survivor of survivors) {
    const mutations = await hints("dropped", survivor, victim.name);
    const { isComparisonDue, batches } = await waitingFor(victim.name, survivor);
    target.note(`${survivor.name}: hints of ${mutations} mutations dropped for the mark of a comparison, ${batches} batches in its log`);
    if (mutations === 0) target.fail(`${survivor.name} dropped no hint: the attack reached nothing`);
    if (!isComparisonDue) target.fail(`${survivor.name} dropped hints and no comparison with ${victim.name} is due`);
  }
}

const isWhole = ({ missing, other, undead }: Compared): boolean => missing + other + undead === 0;
const textOf = (name: string, { rows, missing, other, undead }: Compared): string =>
  `${name} alone: ${rows} rows compared, ${missing} missing, ${other} with another body, ${undead} that were deleted or refused`;

/** Once nothing is left for it the victim has each plain row of while it was dead; then every replica gets everything. */
async function judge(target: Target, ring: Ring, rows: PromisedRows, whileDead: ReturnType<PromisedRows["facts"]>): Promise<void> {
  const nodes = [ring.victim, ...ring.survivors];
  const [victim, ...others] = nodes.map((node) => new Replica(node, target.constellation.tokens.peer));
  try {
    const atOnce = await compare(victim!, whileDead);
    target.note(`when nothing was left for it, ${textOf(victim!.name, atOnce)}`);
    if (!isWhole(atOnce)) target.fail(`the mark of a comparison was gone before its rows were there: ${textOf(victim!.name, atOnce)}`);
    for (const replica of [victim!, ...others]) {
      let last: Compared | undefined;
      await settle(target, `what ${replica.name} has`, async () => {
        last = await compare(replica, rows.facts());
        return isWhole(last) ? undefined : textOf(replica.name, last);
      });
      target.note(textOf(replica.name, last!));
    }
  } finally {
    for (const replica of [victim!, ...others]) replica.close();
  }
}

async function attack(target: Target, isDiskLost: boolean): Promise<void> {
  const ring = ringOf(target);
  const { victim, survivors } = ring;
  const clients = await connectEach(target, survivors);
  const rows = new PromisedRows(clients);
  try {
    await rows.prepare();
    await target.kill(victim.name);
    rows.start();
    await overflow(target, ring, rows);
    const whileDead = rows.plainFacts();
    await rows.stopTransactions();
    if (isDiskLost) rmSync(target.dataFolder(victim.name), { recursive: true });
    await target.start({}, victim.name);
    await target.serves(`after ${victim.name} came back`);
    await rows.stop();
    target.note(rows.text);
    await healed(target, ring);
    for (const text of rows.wrong) target.fail(text);
    await judge(target, ring, rows, whileDead);
  } finally {
    await rows.stop();
    for (const db of clients) db.close();
  }
}

const common = {
  symptom:
    "eight minutes after a node died no logged batch of the other two was taken, as BATCH_LOG_TIMEOUT, until it was back: hints for it were full",
  members: { concord: 3 },
  config: { hintBytesMax: HINT_BYTES, batchLogEntriesMax: LOG_ENTRIES },
  // A survivor takes over the dead node's groups, partitions and objects, and is copied from.
  growthMiBMax: 320,
};

export const deadPeer: Attack = { name: "dead-peer", isShort: true, run: (target) => attack(target, false), ...common };

/** The replicas are storage-proxies in processes of their own; the coordinators live. */
export const deadPeerSeparate: Attack = {
  name: "dead-peer-separate",
  isShort: false,
  run: (target) => attack(target, false),
  ...common,
  members: EVERYTHING,
};

export const deadPeerDisk: Attack = { name: "dead-peer-disk", isShort: false, run: (target) => attack(target, true), ...common };
