import { changeList, WORKER_LIST } from "@concord/member-lists";
import type { LogMessage } from "@concord/protos-dedup";
import { sleep, toConcordError, type Environment } from "@concord/runtime";
import { drawFaultPlan, FAULT_KINDS, type Fault, type FaultKind, type SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import { addressOf, drawDedupPlan, startDedupNodes, workerOf, WORKERS, WORKER_TOKEN, type DedupPlan } from "../dedup/dedup-node.ts";
import { drawIdPlan } from "../dedup/message-forms.ts";
import { MessageHistory } from "../dedup/message-history.ts";
import { Consumer, IdPool, Producer } from "../dedup/producer.ts";
import type { Outcomes } from "../outcomes.ts";

const FAULTS_FROM_MS = 200;
const WORK_MS = 4_000;
const UP_MS = 60_000;
const RECOVERY_MS = 60_000;
const ASK_AGAIN_MS = 200;
/** A worker that is added comes when the others have their partitions. */
const ADDED_AFTER_MS = 900;
/** How long a worker stays away: returned before it is called gone, or after. */
const DOWN_MS: readonly number[] = [20, 300, 900];
/** With a majority of workers that work an addition or removal is done in this time: each of its steps waits for the one before. */
const CHANGED_MS = 60_000;
const CHANGES_MAX = 2;
const CHANGE_AGAIN_MS = 200;
/** The longest pause of a planned hand-over: a new owner without a window rebuilds it from all of the output. */
const CALM_TIMEOUT_MS = 8_000;
/** A change of the list takes long: producers pause, or windows with segments this small would take long to rebuild. */
const CHANGING_PAUSE_MS = 30;
/** Sources of ids where one worker has all partitions (DDD13). */
const SOURCES: readonly string[] = ["", "billing", "", "orders"];
/** Of the output's newest: surely in the window. */
const SEEN_IDS = 20;

export const DEDUP_POINTS: readonly string[] = [
  "dedup:fenced",
  "dedup:rebuilt",
  "dedup:looked-up",
  "dedup:published",
  "dedup:journaled",
  "dedup:applied",
  "dedup:sealing",
  "dedup:run-written",
  "dedup:sealed",
  "dedup:run-dropped",
  "dedup:snapshot-uploaded",
  "dedup:snapshot-taken",
  "dedup:snapshot-written",
  "dedup:snapshot-restored",
  "ingest:appended",
  "log:input-appended",
  "log:output-written",
  "log:published",
  "journal:group-writing",
  "journal:group-synced",
];

/** Where an owner stands still while another one takes over; each is followed by a wait for a disk. */
const PAUSE_POINTS: readonly string[] = [
  "dedup:fenced",
  "dedup:rebuilt",
  "dedup:looked-up",
  "log:output-written",
  "log:input-appended",
  "journal:group-writing",
  "journal:group-synced",
  "journal:segment-written",
  "journal:segment-made",
];

/** Before a write of an owner to the log that all share, and behind it: where it does most harm when another one has taken over meanwhile. */
const WRITE_POINTS: readonly string[] = ["dedup:looked-up", "dedup:looked-up", "log:input-appended", "journal:group-writing"];
/** Longer than the others take to call it gone, open its partitions and write. */
const ZOMBIE_MS: readonly [number, number] = [700, 1_600];
const ZOMBIES_MAX = 3;

/** An owner that cannot be asked for its partitions, and wakes when another one has them. */
const OWNERSHIP_FAULT_KINDS: readonly FaultKind[] = [
  "pause-at-point",
  "pause-at-point",
  "pause-at-point",
  "pause-at-point",
  "datagram-loss",
];

interface Run {
  readonly cluster: Cluster;
  readonly addresses: readonly string[];
  readonly plan: DedupPlan;
  readonly history: MessageHistory;
  readonly moves: Moves;
  /** A process of its own. */
  readonly operator: Environment;
  /** Workers that serve and do not stop. */
  readonly serving: Set<string>;
  /** Names in the list of workers. */
  members: readonly string[];
  isOver: boolean;
}

/** Producers that repeat themselves, with equal ids of several sources, a worker that dies: each id of a source is in the output once within the window, and nothing acknowledged is lost. */
export function runDedupScenario(cluster: Cluster): Promise<Outcomes> {
  const workers = WORKERS.slice(0, 1);
  return run(cluster, workers, workers);
}

/**
 * The same with three or four workers over one log: partitions move to others when a worker dies, is cut off or pauses, and back; it wakes, and owns nothing.
 * Workers stop in good order, return, and are added; where nothing else happens no call fails.
 */
export function runOwnershipScenario(cluster: Cluster): Promise<Outcomes> {
  const workers = WORKERS.slice(0, cluster.world.random("workers").pick([3, 4]));
  return run(cluster, workers, workers);
}

/**
 * Workers are added to the list of three and removed from it while producers work (TX32), in some seeds with faults meanwhile: each change is done in time,
 * and where nothing else happens no call at a worker that stays fails.
 */
export function runWorkersScenario(cluster: Cluster): Promise<Outcomes> {
  return run(cluster, WORKERS, WORKERS.slice(0, 3));
}

async function run(cluster: Cluster, workers: readonly string[], founders: readonly string[]): Promise<Outcomes> {
  const { world, swarm } = cluster;
  const plan = drawDedupPlan(world.random("dedup"), drawIdPlan(world.random("ids")), workers, founders);
  const addresses = workers.map(addressOf);
  const history = new MessageHistory(world, plan);
  const moves = workers.length > founders.length ? drawChanges(cluster, workers, founders) : drawMoves(cluster, workers);
  const serving = startDedupNodes(world, plan);
  for (const name of moves.added) world.crash(name, "kill");
  const operator = await process(cluster, "operator");
  const course: Run = { cluster, operator, plan, history, addresses, moves, serving, members: founders, isOver: false };
  const calm = moves.isCalm
    ? { calm: { isServing: (address: string) => workers.some((name) => addressOf(name) === address && serving.has(name)) } }
    : {};
  const timeoutMs = moves.isCalm ? CALM_TIMEOUT_MS : swarm.timeoutMs;
  const pool = new IdPool();
  const sources = workers.length === 1 ? SOURCES : [""];
  const names = Array.from({ length: swarm.clients }, (_, at) => `producer-${at + 1}`);
  const work: Promise<void>[] = [];
  for (const name of names) {
    const env = await process(cluster, name);
    work.push(produce(course, new Producer({ world, env, history, pool, addresses, timeoutMs, sources, ids: plan.ids, ...calm }), env));
  }
  const reading = await process(cluster, "consumer");
  for (let partition = 0; partition < plan.partitions; partition += 1)
    work.push(consume(course, new Consumer(reading, addresses, swarm.timeoutMs), partition, reading));
  await move(course, [...names, "consumer"]);
  course.isOver = true;
  world.heal();
  await world.complete(Promise.all(work), RECOVERY_MS).catch(() => world.violation("liveness", "producers do not get on after healing"));
  await judge(course, reading);
  return history.outcomes;
}

/** A process that lives as long as the world. */
function process({ world }: Cluster, name: string): Promise<Environment> {
  return world.complete(new Promise((resolve) => world.node(name, async ({ env }) => resolve(env))), UP_MS);
}

async function produce(run: Run, producer: Producer, env: Environment): Promise<void> {
  const pauseMs = run.moves.changes.length > 0 ? CHANGING_PAUSE_MS : 0;
  while (!run.isOver) {
    await producer.send();
    await sleep(env.clock, env.random.below(1 + run.cluster.swarm.thinkMs) + pauseMs);
  }
}

/** Reads along: what was visible once must stay. */
async function consume(run: Run, consumer: Consumer, partition: number, env: Environment): Promise<void> {
  let from = 0n;
  while (!run.isOver) {
    const page = await consumer.read(partition, from).catch(() => undefined);
    if (page !== undefined) {
      run.history.consumed(partition, page.messages);
      from = page.next;
    }
    await sleep(env.clock, ASK_AGAIN_MS);
  }
}

/** What an operator does: workers that stop in good order and start again, one after the other. */
interface Moves {
  /** Nothing else happens. */
  readonly isCalm: boolean;
  /** Start only when the others work. */
  readonly added: readonly string[];
  /** Of the list of workers, one after the other. */
  readonly changes: readonly ("add" | "remove")[];
  readonly stops: readonly { readonly afterMs: number; readonly worker: string; readonly downMs: number }[];
}

function drawMoves({ world, swarm }: Cluster, workers: readonly string[]): Moves {
  if (workers.length === 1) return { isCalm: false, added: [], changes: [], stops: [] };
  const random = world.random("moves");
  // A datagram that comes late often enough is a verdict.
  const isCalm = swarm.network.spikeRate === 0 && random.chance(0.7);
  const stops = Array.from({ length: random.between(isCalm ? 1 : 0, 3) }, () => ({
    afterMs: random.between(200, 900),
    worker: random.pick(workers),
    downMs: random.pick(DOWN_MS),
  }));
  return { isCalm, added: workers.length > 3 && random.chance(0.7) ? workers.slice(-1) : [], changes: [], stops };
}

function drawChanges({ world, swarm }: Cluster, workers: readonly string[], founders: readonly string[]): Moves {
  const random = world.random("moves");
  const isCalm = swarm.network.spikeRate === 0 && random.chance(0.5);
  const changes = Array.from({ length: random.between(1, CHANGES_MAX) }, () => random.pick(["add", "remove"] as const));
  return { isCalm, added: workers.filter((name) => !founders.includes(name)), changes, stops: [] };
}

/** The time of the work, with the planned stops, starts and changes. */
async function move(run: Run, others: readonly string[]): Promise<void> {
  const { cluster, moves, serving } = run;
  const { world } = cluster;
  const endsAtMs = world.nowMs + WORK_MS;
  if (!moves.isCalm && moves.changes.length === 0) scheduleFaults(run, others);
  if (moves.added.length > 0) await world.advance(ADDED_AFTER_MS);
  for (const kind of moves.changes) {
    const changed = change(run, kind);
    if (!moves.isCalm) scheduleFaults(run, others);
    await world
      .complete(changed, CHANGED_MS)
      .catch((thrown: unknown) => world.violation("liveness", `the list of workers is not changed: ${toConcordError(thrown).message}`));
    world.heal();
  }
  if (moves.changes.length === 0) for (const name of moves.added) world.start(name);
  for (const { afterMs, worker, downMs } of moves.stops) {
    await world.advance(afterMs);
    serving.delete(worker);
    await world.stop(worker);
    world.count("moves:stopped");
    await world.advance(downMs);
    world.start(worker);
  }
  if (world.nowMs < endsAtMs) await world.advance(endsAtMs - world.nowMs);
}

/** By the operator's command: a worker that is added runs already, one that is removed ends by itself. */
async function change(run: Run, kind: "add" | "remove"): Promise<void> {
  const { cluster, operator, plan, serving } = run;
  const { world } = cluster;
  const random = world.random("change");
  const name = kind === "add" ? plan.workers.find((one) => !run.members.includes(one))! : random.pick(run.members);
  const asked = run.members.map(addressOf);
  world.count(`moves:${kind}`);
  if (kind === "add") world.start(name);
  // From now on calls there may fail: it ends as soon as it is not in the list.
  else serving.delete(name);
  const { transport, clock } = operator;
  const say = (line: string): void => world.trace.line(1000 * world.nowMs, line);
  const options = { list: WORKER_LIST, addresses: asked, transport, clock, token: WORKER_TOKEN, timeoutMs: CHANGED_MS, say };
  const wanted = kind === "add" ? { kind, ...workerOf(name) } : { kind, name };
  const isDone = (): Promise<boolean> =>
    changeList(wanted, options).then(
      () => true,
      (thrown: unknown) => {
        // What is refused while others are down, an operator tries again.
        if (toConcordError(thrown).code !== "PRECONDITION_FAILED") throw thrown;
        return false;
      },
    );
  while (!(await isDone())) await sleep(clock, CHANGE_AGAIN_MS);
  run.members = kind === "add" ? [...run.members, name] : run.members.filter((one) => one !== name);
  if (kind === "remove") await world.stop(name).catch(() => undefined);
}

function scheduleFaults({ cluster: { world, swarm }, plan, members, moves }: Run, others: readonly string[]): void {
  const workers = plan.workers.length === 1 ? plan.workers : members;
  const pausePoints = workers.length > 1 ? PAUSE_POINTS : [];
  const targets = {
    all: [...workers, ...others],
    zones: [],
    servers: workers,
    disks: workers,
    replaceable: [],
    points: DEDUP_POINTS,
    pausePoints,
  };
  const all = workers.length > 1 ? [...FAULT_KINDS, ...OWNERSHIP_FAULT_KINDS] : FAULT_KINDS;
  const kinds = all.filter((kind) => plan.windowMaxAgeMs === 0 || kind !== "clock-step");
  const fromMs = world.nowMs + FAULTS_FROM_MS;
  world.schedule(
    drawFaultPlan(world.random("faults"), { targets, kinds, fromMs, spanMs: WORK_MS - FAULTS_FROM_MS, rate: swarm.faultRate }),
  );
  if (workers.length > 1 && moves.changes.length === 0) world.schedule(drawZombies(world.random("zombies"), workers, fromMs));
}

/** Workers that stand still at a write, one after the other, and finish it when others own their partitions. */
function drawZombies(random: SeededRandom, workers: readonly string[], fromMs: number): Fault[] {
  if (random.chance(0.3)) return [];
  const spanMs = Math.floor((WORK_MS - FAULTS_FROM_MS) / ZOMBIES_MAX);
  return Array.from({ length: random.between(1, ZOMBIES_MAX) }, (_, nth) => {
    const atMs = fromMs + nth * spanMs + random.below(spanMs >> 1);
    const mode = random.pick(["pause", "freeze", "freeze"] as const);
    const point = random.pick(WRITE_POINTS);
    return {
      kind: "pause-at-point",
      atMs,
      forMs: random.between(...ZOMBIE_MS),
      node: random.pick(workers),
      point,
      skip: random.pick([0, 1, 3]),
      mode,
    };
  });
}

/** When all input is processed, also by a process that starts anew: the output, and what the window says about its newest ids. */
async function judge(run: Run, env: Environment): Promise<void> {
  const { cluster, history, plan } = run;
  const addresses = run.members.map(addressOf);
  const { world } = cluster;
  const consumer = new Consumer(env, addresses, 20_000);
  const quietly = async (what: string, work: () => Promise<void>): Promise<void> => {
    await world
      .complete(work(), RECOVERY_MS)
      .catch((thrown: unknown) => world.violation("liveness", `${what}: ${toConcordError(thrown).message}`));
  };
  await quietly("all input processed", () => until(env, async () => (await consumer.lag(plan.partitions)) === 0n));
  if (world.random("restart").chance(0.5)) {
    for (const worker of run.members) {
      await world.stop(worker).catch(() => undefined);
      world.start(worker);
    }
    await quietly("the start after a stop", () => until(env, async () => (await consumer.lag(plan.partitions)) === 0n));
  }
  const outputs: (readonly LogMessage[])[] = [];
  await quietly("the output", async () => {
    for (let partition = 0; partition < plan.partitions; partition += 1)
      outputs.push(await patiently(env, () => consumer.readAll(partition)));
  });
  const deadLetters: (readonly LogMessage[])[] = [];
  await quietly("the dead letters", async () => {
    for (let partition = 0; partition < plan.partitions; partition += 1)
      deadLetters.push(await patiently(env, () => consumer.readAll(partition, "TOPIC_DEAD_LETTERS")));
  });
  history.judge(outputs, deadLetters);
  if (plan.windowMaxAgeMs > 0) return;
  const newest = Map.groupBy(
    outputs.flatMap((output) => output.slice(-SEEN_IDS)),
    ({ source }) => source,
  );
  for (const [source, messages] of newest) {
    await quietly("the window", async () => {
      const ids = messages.map(({ id }) => id).filter((id) => id !== "");
      const seen = await patiently(env, () => consumer.seen(source, [...ids, "never sent"]));
      for (const [at, id] of ids.entries())
        if (seen[at] !== true) world.violation("dedup seen", `${id} of ${source} is in the output, not in the window`);
      if (seen.at(-1) === true) world.violation("dedup seen", "an id that was never sent is in the window");
    });
  }
}

/** Tries until it is so; an error is a no. */
async function until(env: Environment, ask: () => Promise<boolean>): Promise<void> {
  while (!(await ask().catch(() => false))) await sleep(env.clock, ASK_AGAIN_MS);
}

/** Tries until there is an answer: a connection may still be the one to the process before. */
async function patiently<Answer>(env: Environment, ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch {
      await sleep(env.clock, ASK_AGAIN_MS);
    }
  }
}
