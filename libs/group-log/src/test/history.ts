import type { DecidedMark, GroupLog, RaiseOutcome } from "@concord/ports";
import { nextSeq, plusUs, seqOf, sleep, type Seq } from "@concord/runtime";
import { RingGroupLog } from "../ring-group-log.ts";
import { takeOver } from "../take-over.ts";
import { SETTLE_MS, SimulatedRing } from "./simulated-ring.ts";
import { Dice, VirtualTime } from "./virtual-time.ts";

export { VirtualTime };

const GROUP = "albums";
const TIMEOUT_MS = 60;
const OWNERS_MAX = 3;
const CATCH_UP_ATTEMPTS = 3;
/** What must hold of every history, checked the moment it is observed. */
export class Observer {
  /** By seq: the content, and the epoch under which it was first logged. */
  readonly decided = new Map<bigint, { readonly content: string; readonly epoch: bigint; readonly ceilingUs: bigint }>();
  readonly applied = new Map<bigint, string>();
  readonly #owners = new Map<bigint, string>();
  loggedCount = 0;
  appliedCount = 0;
  takeovers = 0;
  /** The first thing that a replica did wrong. */
  wrong: Error | undefined;
  /** Who took over last. */
  newest = "";

  raised(epoch: bigint, owner: string, outcome: RaiseOutcome): void {
    if (outcome.kind !== "raised") return;
    const known = this.#owners.get(epoch);
    if (known !== undefined && known !== owner) throw new Error(`epoch ${epoch} has owners ${known} and ${owner}`);
    this.#owners.set(epoch, owner);
    const tail = new Map(outcome.tail.entries.map((entry) => [entry.seq, text(entry.bytes)]));
    for (const [seq, { content, epoch: decidedEpoch, ceilingUs }] of this.decided) {
      // what a later owner logged meanwhile is none of this raise's business: it comes too late, its owner is fenced
      if (decidedEpoch >= epoch) continue;
      if (outcome.tail.timestampCeilingUs < ceilingUs) throw new Error("the ceiling went back");
      if (seq <= outcome.tail.appliedSeq) {
        if (this.applied.get(seq) !== content) throw new Error(`decided ${seq} was trimmed before it was applied`);
      } else if (tail.get(seqOf(seq)) !== content)
        throw new Error(`decided ${seq}=${content} is ${tail.get(seqOf(seq))} in the tail of epoch ${epoch}`);
    }
  }

  logged(seq: bigint, epoch: bigint, content: string, ceilingUs: bigint): void {
    const known = this.decided.get(seq);
    if (known === undefined) this.decided.set(seq, { content, epoch, ceilingUs });
    else if (known.content !== content) throw new Error(`seq ${seq} was decided as ${known.content} and as ${content}`);
    const applied = this.applied.get(seq) ?? content;
    if (applied !== content) throw new Error(`seq ${seq} was applied as ${applied} and decided as ${content}`);
    this.loggedCount += 1;
  }

  /** A replica applies: what another one applied, and no owner will learn to be decided otherwise. */
  applies(seq: bigint, content: string): void {
    const known = this.applied.get(seq) ?? this.decided.get(seq)?.content ?? content;
    // the replica that applies it is made of calls whose errors are answers: thrown here, it would look like a lost message
    if (known !== content) this.wrong ??= new Error(`applied ${seq}=${content}, decided is ${known}`);
    this.applied.set(seq, content);
    this.appliedCount += 1;
  }
}

export interface HistoryOptions {
  readonly seed: number;
  readonly nodes: 1 | 3;
  /** For finding seeded bugs: the log as the owners see it. */
  readonly wrap?: (log: GroupLog) => GroupLog;
}

/** One random history: owners compete while replicas crash and messages are lost; at the end everything heals and one more takes over. */
export async function runHistory(options: HistoryOptions): Promise<Observer> {
  const time = new VirtualTime();
  const dice = new Dice(options.seed);
  const faults = { loss: dice.chance(0.3) ? 0 : dice.float() * 0.3, delayMs: 1 + dice.below(20), syncMs: dice.below(6) };
  const observer = new Observer();
  const ring = new SimulatedRing(options.nodes, time, dice, faults, ({ seq, bytes }) => observer.applies(seq, text(bytes)));
  const world = { time, dice, ring, observer, options };
  const story = async (): Promise<void> => {
    for (let node = 0; node < options.nodes; node += 1) await ring.start(node);
    const owners = Array.from({ length: 1 + dice.below(OWNERS_MAX) }, (_, index) => live(world, `owner-${index}`));
    await Promise.all([...owners, disturb(world)]);
    ring.heal();
    faults.loss = 0;
    for (let node = 0; node < options.nodes; node += 1) await ring.start(node);
    await sleep(time, SETTLE_MS);
    for (let node = 0; node < options.nodes; node += 1) await ring.start(node);
    const last = await finish(world);
    for (const seq of observer.decided.keys()) if (seq > last) throw new Error(`decided ${seq} was lost, the log ends at ${last}`);
    await catchUp(world, seqOf(last));
    await checkRows(world);
  };
  await time.run(story(), 600_000).finally(() => {
    const wrong = observer.wrong ?? ring.failed;
    if (wrong !== undefined) throw wrong;
  });
  return observer;
}

interface World {
  readonly time: VirtualTime;
  readonly dice: Dice;
  readonly ring: SimulatedRing;
  readonly observer: Observer;
  readonly options: HistoryOptions;
}

/** The log with every outcome told to the observer. */
function observed(world: World, client: string): GroupLog {
  const ringLog = new RingGroupLog({ replicas: world.ring.links(client), clock: world.time });
  world.ring.onRestart.push((node) => ringLog.restarted(node));
  const log = world.options.wrap === undefined ? ringLog : world.options.wrap(ringLog);
  return {
    exchangesMax: log.exchangesMax,
    status: (group, timeoutMs) => log.status(group, timeoutMs),
    async raise(owner, timeoutMs) {
      const outcome = await log.raise(owner, timeoutMs);
      world.observer.raised(owner.epoch, owner.owner, outcome);
      return outcome;
    },
    async append(request, timeoutMs) {
      const outcome = await log.append(request, timeoutMs);
      if (outcome.kind === "logged") world.observer.logged(request.seq, request.epoch, text(request.bytes), request.timestampCeilingUs);
      return outcome;
    },
    verify: (owner, timeoutMs) => log.verify(owner, timeoutMs),
    advance: (request, timeoutMs) => log.advance(request, timeoutMs),
  };
}

async function live(world: World, name: string): Promise<void> {
  const { dice, time } = world;
  for (let incarnation = 0; incarnation < 4; incarnation += 1) {
    await sleep(time, dice.below(120));
    await serve(world, name, `${name}.${incarnation}`, 1 + dice.below(20));
  }
}

async function serve(world: World, client: string, owner: string, appends: number): Promise<void> {
  const { dice, time, observer } = world;
  const log = observed(world, client);
  const stop = new AbortController();
  // an owner may die anywhere in its takeover
  time.setTimer(dice.chance(0.3) ? dice.below(150) : 2000, () => stop.abort());
  const apply = (): Promise<void> => sleep(time, dice.below(20));
  const taken = await takeOver(log, { group: GROUP, owner, timeoutMs: TIMEOUT_MS, clock: time, apply, signal: stop.signal });
  if (taken.kind !== "taken") return;
  observer.takeovers += 1;
  observer.newest = client;
  let { lastSeq, lastEpoch } = taken;
  let decided: DecidedMark = { seq: lastSeq, epoch: lastEpoch };
  for (let count = 0; count < appends; count += 1) {
    const seq = nextSeq(lastSeq);
    const content = `${owner}/${seq}/${count}`;
    const request = {
      group: GROUP,
      epoch: taken.epoch,
      owner,
      seq,
      previousEpoch: lastEpoch,
      timestampCeilingUs: plusUs(taken.timestampFloorUs, seq),
      bytes: bytesOf(content),
      rows: bytesOf(content),
      decided,
    };
    let outcome = await log.append(request, TIMEOUT_MS);
    for (let again = dice.below(4); outcome.kind === "unknown" && again > 0; again -= 1) outcome = await log.append(request, TIMEOUT_MS);
    if (outcome.kind !== "logged") return;
    [lastSeq, lastEpoch] = [seq, taken.epoch];
    decided = { seq, epoch: taken.epoch };
    const advance = { group: GROUP, epoch: taken.epoch, owner, decided };
    if (dice.chance(0.4)) await log.advance(advance, TIMEOUT_MS).catch(() => undefined);
    if (dice.chance(0.3)) await readAt(world, seq);
  }
}

/** A reader that has seen an entry's rows somewhere has a replica catch up with it. */
async function readAt({ ring, dice }: World, seq: Seq): Promise<void> {
  const links = ring.links("reader");
  await links[dice.below(links.length)]!.logCatchUp(GROUP, seq, TIMEOUT_MS).catch(() => undefined);
}

/** At the end: also by a replica that is copied anew first. */
async function catchUp({ ring, time, options }: World, last: Seq): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await ring.links("reader")[0]!.logCatchUp(GROUP, last, 10_000);
      return;
    } catch (thrown) {
      if (attempt === CATCH_UP_ATTEMPTS) throw thrown;
      await sleep(time, SETTLE_MS);
      for (let node = 0; node < options.nodes; node += 1) await ring.start(node);
    }
  }
}

/** Every replica that is up has the rows of every entry up to its watermark, whatever it lost in crashes (I9). */
async function checkRows({ ring, observer }: World): Promise<void> {
  for (const [node] of ring.stores.entries()) {
    for (const [at, rows] of (await ring.applied(node, GROUP)).entries()) {
      const expected = observer.applied.get(BigInt(at + 1));
      if (rows === undefined || text(rows) !== expected)
        throw new Error(`node ${node} applied ${at + 1} and has ${rows && text(rows)}, not ${expected}`);
    }
  }
}

async function disturb(world: World): Promise<void> {
  const { dice, ring, time } = world;
  const nodes = ring.stores.length;
  for (let round = dice.below(20); round > 0; round -= 1) {
    await sleep(time, dice.below(80));
    const node = dice.below(nodes);
    switch (dice.below(nodes === 3 ? 9 : 4)) {
      case 0:
        await ring.crash(node);
        break;
      case 1:
        for (let each = 0; each < nodes; each += 1) await ring.start(each);
        await checkRows(world);
        break;
      case 2:
        ring.cut(`owner-${dice.below(OWNERS_MAX)}`, node);
        break;
      case 4:
        await ring.lose(node, GROUP);
        break;
      case 5:
        ring.rot(node, GROUP);
        break;
      case 6:
      case 7:
      case 8:
        isolate(world, node);
        if (dice.chance(0.3)) break;
        // what was accepted alone meets what was decided without it
        await sleep(time, 20 + dice.below(100));
        ring.heal();
        break;
      default:
        ring.heal();
    }
    if (dice.chance(0.5)) await ring.start(dice.below(nodes));
  }
}

/** One owner reaches one replica only, the others all but that one: what it accepts is not decided, and another owner decides otherwise. */
function isolate({ dice, ring, observer }: World, node: number): void {
  const drawn = dice.below(OWNERS_MAX);
  const serving = Number(observer.newest.at(-1));
  const alone = observer.newest !== "" && dice.chance(0.7) ? serving : drawn;
  for (let owner = 0; owner < OWNERS_MAX; owner += 1) {
    for (const [other] of ring.stores.entries()) if ((owner === alone) !== (other === node)) ring.cut(`owner-${owner}`, other);
  }
}

async function finish(world: World): Promise<bigint> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const apply = (): Promise<void> => Promise.resolve();
    const log = observed(world, "last");
    const taken = await takeOver(log, { group: GROUP, owner: `last.${attempt}`, timeoutMs: TIMEOUT_MS, clock: world.time, apply });
    if (taken.kind === "taken") return taken.lastSeq;
  }
  throw new Error("no takeover after everything healed");
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function bytesOf(content: string): Uint8Array {
  return encoder.encode(content);
}

export function text(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
