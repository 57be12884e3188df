// Members with units over one log per unit, on virtual time: they stop in order, die, are cut off and come back, while the list gives units to others.
// News of the others reaches each member late, and in another order than the others get it.
import type { ListedMembership, MembershipChange } from "@concord/failure-detection";
import { assert, ConcordError, silentLog, sleep, type Clock } from "@concord/runtime";
import {
  foundingList,
  MemberLists,
  Owners,
  place,
  Units,
  type Ended,
  type HandOverPeers,
  type RecordedList,
  type Unit,
  type UnitTimes,
  type View,
} from "../index.ts";
import { settled, VirtualTime } from "./virtual-time.ts";

export const UNITS = ["u0", "u1", "u2", "u3"];
const NAMES = ["a", "b", "c"];
/** A member is lost by the others so long after it fell silent, and its lease has ended before. */
const LOST_MS = 140;
const LEASE_MS = 120;
const CALL_EVERY_MS = 15;
const QUIET_MS = 12_000;

export interface HistoryOptions {
  readonly seed: number;
  /** `planned`: members stop and start in order, units move by lists; nothing fails. `faults`: members die and are cut off, too. */
  readonly form: "planned" | "faults";
  /** Units ask the log by themselves, as groups do, or notice at each write, as partitions do. */
  readonly confirms: boolean;
  /** Time of an opening after the raise of the epoch; not given: below 20 ms, drawn. */
  readonly openingMs?: number;
}

export interface HistorySeen {
  takeovers: number;
  fencings: number;
  /** Calls in flight that a tenure cut off. */
  broken: number;
  calls: number;
}

type List = RecordedList & { readonly placement: View["placement"] };

class LogUnit implements Unit {
  readonly name: string;
  readonly #life: Life;
  readonly #ended = Promise.withResolvers<Ended>();
  readonly ended = this.#ended.promise;
  readonly confirm?: NonNullable<Unit["confirm"]>;
  #inFlight = 0;
  #isOver = false;

  constructor(name: string, life: Life) {
    this.name = name;
    this.#life = life;
    if (life.world.options.confirms) this.confirm = () => this.#asked();
  }

  get holdsLog(): boolean {
    return this.#life.world.logs.get(this.name) === this;
  }

  async open(): Promise<void> {
    const { world, clock } = this.#life;
    await sleep(clock, 5 + world.draw(30));
    if (this.#isOver) throw new ConcordError("DRAINING", "stopped");
    if (this.#life.isCut) return this.#end("fenced");
    const before = world.logs.get(this.name);
    if (before !== undefined && !before.#isOver) world.seen.fencings += 1;
    world.logs.set(this.name, this);
    world.seen.takeovers += 1;
    await sleep(clock, world.options.openingMs ?? world.draw(20));
    if (this.#isOver) throw new ConcordError("DRAINING", "stopped");
  }

  /** A call of a client: it ends with a write to the log. */
  async call(): Promise<void> {
    const { world, clock } = this.#life;
    this.#inFlight += 1;
    await sleep(clock, 1 + world.draw(20));
    this.#inFlight -= 1;
    world.seen.calls += 1;
    if (this.#isOver || this.#life.isCut) world.seen.broken += 1;
    else if (!this.holdsLog) {
      world.seen.broken += 1;
      this.#end("fenced");
    }
  }

  async drain(graceMs: number): Promise<void> {
    for (const endMs = this.#life.clock.monotonicMs() + graceMs; this.#inFlight > 0 && this.#life.clock.monotonicMs() < endMs;)
      await sleep(this.#life.clock, 1);
    this.#isOver = true;
  }

  async stop(): Promise<void> {
    this.#isOver = true;
  }

  async #asked(): Promise<boolean> {
    await sleep(this.#life.clock, this.#life.world.draw(10));
    if (this.#life.isCut || this.#isOver) return false;
    if (!this.holdsLog) this.#end("fenced");
    return this.holdsLog;
  }

  #end(how: Ended): void {
    this.#isOver = true;
    this.#ended.resolve(how);
  }
}

/** One process of a member. */
class Life {
  readonly world: World;
  readonly name: string;
  readonly clock: Clock;
  readonly owners: Owners;
  readonly units: Units<LogUnit>;
  isDead = false;
  isCut = false;
  /** A planned stop has begun. */
  isStopping = false;
  #cutSinceMs = 0;
  #tell: (change: MembershipChange) => void = () => undefined;

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
    const { time } = world;
    this.clock = {
      nowMs: () => time.nowMs(),
      nowUs: () => time.nowUs(),
      monotonicMs: () => time.monotonicMs(),
      setTimer: (delayMs, action) => time.setTimer(delayMs, () => this.isDead || action()),
      defer: (action) => time.defer(() => this.isDead || action()),
    };
    const membership: ListedMembership = {
      start: async (onChange) => void (this.#tell = onChange),
      leaseEndMs: () => (this.isCut ? this.#cutSinceMs + LEASE_MS : Number.POSITIVE_INFINITY),
      listRead: () => undefined,
      stop: async () => {
        this.isDead = true;
        world.fellSilent(this);
      },
    };
    const lists = new MemberLists<List>({
      configured: world.lists[0]!,
      nodeName: name,
      read: async () => {
        if (this.isCut) throw new ConcordError("REPLICAS_UNAVAILABLE", "cut off");
        return world.lists.at(-1)!;
      },
      clock: this.clock,
      log: silentLog,
      membership,
      noun: "workers",
      addCommand: "add",
      onFailed: (cause) => void Promise.reject(cause),
    });
    const view = (): View => {
      const { version, members, placement } = lists.current;
      return { version: BigInt(version), members, placement };
    };
    this.owners = new Owners({ membership, lists, view, nodeName: name, clock: this.clock, log: silentLog });
    const tenure = (unit: string): LogUnit => new LogUnit(unit, this);
    const { clock, owners } = this;
    this.units = new Units({ owners, peers: this.#peers(), tenure, times: world.times, noun: "unit", clock, log: silentLog });
  }

  async start(): Promise<void> {
    await this.owners.listed(new AbortController().signal);
    await this.units.start();
    for (const name of UNITS) void this.units.add(name).catch(() => undefined);
  }

  /** Serves calls of the unit now, as far as it can see. */
  serving(name: string): LogUnit | undefined {
    const tenure = this.units.tenure(name);
    const isOpen = tenure.kind === "serving" && this.owners.works && (!this.world.options.confirms || this.units.isConfirmed(name));
    return isOpen ? tenure.unit : undefined;
  }

  cut(): void {
    [this.isCut, this.#cutSinceMs] = [true, this.world.time.monotonicMs()];
    this.hears({ kind: "self", verdict: "lost" }, LOST_MS - 10);
    this.world.fellSilent(this);
  }

  heal(): void {
    this.isCut = false;
    this.world.isBack(this);
  }

  /** It loses its lease for so long, before any other member has noticed. */
  async blink(ms: number): Promise<void> {
    this.#tell({ kind: "self", verdict: "lost" });
    await this.world.run(ms);
    this.#tell({ kind: "self", verdict: "works" });
  }

  /** The others receive nothing of it for so long, while it receives what they send. */
  async fade(ms: number): Promise<void> {
    const { world } = this;
    const others = [...world.lives.values()].filter((other) => other !== this);
    const told = (verdict: "gone" | "works"): void => {
      for (const other of others) other.#tell({ kind: "verdict", member: NAMES.indexOf(this.name), verdict });
    };
    told("gone");
    await world.run(ms);
    told("works");
  }

  /** Drops what is no longer so when it would be heard. */
  hears(change: MembershipChange, afterMs: number): void {
    const { world } = this;
    const isSoStill = (): boolean => {
      if (change.kind === "self") return this.isCut === (change.verdict === "lost");
      const other = world.lives.get(NAMES[change.member]!)!;
      return (change.verdict === "works") === (!other.isDead && !other.isCut);
    };
    world.time.setTimer(afterMs, () => {
      if (!this.isDead && isSoStill()) this.#tell(change);
    });
  }

  #peers(): HandOverPeers {
    const call = async <Answer>(address: string, what: (other: Life) => Promise<Answer>): Promise<Answer> => {
      const { world } = this;
      await sleep(this.clock, 1 + world.draw(5));
      const other = world.lives.get(address)!;
      if (this.isCut || other.isCut || other.isDead) throw new ConcordError("CONNECTION_LOST", `${address} does not answer`);
      const answer = await what(other);
      await sleep(this.clock, 1 + world.draw(5));
      return answer;
    };
    const timely = <Answer>(work: Promise<Answer>, ms: number): Promise<Answer> =>
      Promise.race([work, sleep(this.clock, ms).then(() => Promise.reject(new ConcordError("DEADLINE_EXCEEDED", "too late")))]);
    return {
      leave: (address, ms) =>
        timely(
          call(address, (other) => other.units.left(this.name)),
          ms,
        ),
      release: (address, { unit, listVersion }, ms) =>
        timely(
          call(address, (other) => other.units.release(unit, this.name, listVersion)),
          ms,
        ),
    };
  }
}

export class World {
  readonly time = new VirtualTime();
  readonly options: HistoryOptions;
  readonly logs = new Map<string, LogUnit>();
  readonly lives = new Map<string, Life>();
  readonly seen: HistorySeen = { takeovers: 0, fencings: 0, broken: 0, calls: 0 };
  readonly lists: List[] = [];
  readonly times: UnitTimes;
  #random: number;

  constructor(options: HistoryOptions) {
    this.options = options;
    this.#random = options.seed;
    const members = foundingList(NAMES.map((name) => ({ name, datacenter: name, address: name })));
    this.lists.push({ ...members, placement: place(UNITS, members.members, { ranks: 3 }) });
    const { confirms } = options;
    this.times = {
      releaseMs: confirms ? Number.POSITIVE_INFINITY : 2_000,
      lostOpeningMs: confirms ? 40 : 1_000,
      lostServingMs: 1_000,
      drainMs: 200,
      releaseTimeoutMs: 1_000,
      holdMs: confirms ? 250 : 5_000,
      againMs: 200,
      takeOverPauseMs: confirms ? 0 : 200,
      leaveMs: 2_000,
    };
  }

  draw(below: number): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return (this.#random >>> 8) % below;
  }

  async start(name: string): Promise<void> {
    const life = new Life(this, name);
    this.lives.set(name, life);
    await life.start();
    this.isBack(life);
  }

  isBack(life: Life): void {
    const about = NAMES.indexOf(life.name);
    life.hears({ kind: "self", verdict: "works" }, 10 + this.draw(60));
    for (const other of this.lives.values()) {
      if (other === life) continue;
      other.hears({ kind: "verdict", member: about, verdict: "works" }, 10 + this.draw(80));
      const isThere = !other.isDead && !other.isCut;
      life.hears({ kind: "verdict", member: NAMES.indexOf(other.name), verdict: isThere ? "works" : "gone" }, 10 + this.draw(60));
    }
  }

  fellSilent(life: Life): void {
    const about = NAMES.indexOf(life.name);
    for (const other of this.lives.values())
      if (other !== life) other.hears({ kind: "verdict", member: about, verdict: "gone" }, LOST_MS + this.draw(80));
  }

  /** Another list, by which other members may own the units. */
  relist(): void {
    const before = this.lists.at(-1)!;
    const rotated = UNITS.map((unit): [string, readonly string[]] => {
      const ranks = before.placement.get(unit)!;
      return [unit, this.draw(2) === 0 ? ranks : [...ranks.slice(1), ranks[0]!]];
    });
    this.lists.push({ ...before, version: before.version + 1, placement: new Map(rotated) });
  }

  /** Clients call the members that serve each unit, for so long. At most one member may serve it. */
  async run(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += CALL_EVERY_MS) {
      await this.time.advance(CALL_EVERY_MS);
      for (const unit of UNITS) {
        const serving = [...this.lives.values()].flatMap((life) => (life.isDead ? [] : (life.serving(unit) ?? [])));
        const isOne = serving.length <= 1;
        assert(isOne || this.options.form === "faults", `${unit} is served by ${serving.length} members though nothing fails`);
        for (const one of serving) void one.call();
      }
    }
  }
}

/** Three members that have begun to work. */
export async function startWorld(options: HistoryOptions): Promise<World> {
  const world = new World(options);
  for (const name of NAMES) await world.start(name);
  return world;
}

/** Throws when a unit is not served by its owner alone once all is quiet; in a planned history also when one is fenced, or a call is cut off. */
export async function runHistory(options: HistoryOptions): Promise<HistorySeen> {
  const world = await startWorld(options);
  await world.run(1_000);
  for (let step = 0; step < 6; step += 1) {
    const life = world.lives.get(NAMES[world.draw(NAMES.length)]!)!;
    const kind = world.draw(options.form === "planned" ? 2 : 5);
    if (kind === 0) world.relist();
    else if (life.isDead) await world.start(life.name);
    else if (kind === 1) stopInOrder(life);
    else if (life.isStopping) continue;
    else if (kind === 2) {
      life.isDead = true;
      world.fellSilent(life);
    } else if (life.isCut) life.heal();
    else life.cut();
    // A next list comes when all have read the one before; what comes amid a hand-over is the point of all else.
    await world.run(kind === 0 || options.form === "planned" ? 2_500 : world.draw(1_500));
  }
  for (const life of world.lives.values()) {
    if (life.isCut) life.heal();
    else if (life.isDead) await world.start(life.name);
  }
  await world.run(QUIET_MS);
  judge(world);
  for (const life of world.lives.values()) await Promise.race([life.units.stop(100), world.run(400)]);
  await settled();
  return world.seen;
}

function stopInOrder(life: Life): void {
  if (life.isStopping || life.isCut) return;
  life.isStopping = true;
  void life.units.handOver(2_000).then(() => life.units.stop(100));
}

function judge({ lives, lists, logs, options, seen }: World): void {
  const isServing = (life: Life, unit: string): boolean => !life.isDead && life.serving(unit) !== undefined;
  for (const unit of UNITS) {
    const serving = [...lives.values()].filter((life) => isServing(life, unit)).map(({ name }) => name);
    const owner = lists
      .at(-1)!
      .placement.get(unit)!
      .find((name) => !lives.get(name)!.isDead)!;
    assert(serving.join() === owner, `${unit} is served by ${serving.join(" and ") || "none"}, and ${owner} owns it`);
    const unitThere = lives.get(owner)!.serving(unit)!;
    assert(logs.get(unit) === unitThere, `${unit}: the log is another tenure's`);
  }
  if (options.form === "planned") assert(seen.fencings === 0 && seen.broken === 0, `${seen.fencings} fenced, ${seen.broken} calls cut off`);
}
