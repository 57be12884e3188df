import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { sleep, toConcordError, type Environment } from "@concord/runtime";
import { drawFaultPlan, type Fault, type SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import { ENCRYPTED_DEFAULT, judgeBlob } from "../object/encrypted.ts";
import { EVENT_RULES } from "../object/event-history.ts";
import { EXPIRING_RULES } from "../object/expiring.ts";
import { Gateways, RECOVERY_INTERVAL_MS, type GatewayPlan } from "../object/gateways.ts";
import { ObjectHistory } from "../object/history.ts";
import { LOCKED_BUCKET, LOCKED_DEFAULT, LOCKED_RULES, LockHistory, putByDefault } from "../object/locked.ts";
import { BUCKET, FORBIDDEN_KEY, KEYS, ObjectClient } from "../object/object-client.ts";
import { read, readRefused } from "../object/sealed.ts";
import { tamper } from "../object/tampering.ts";
import { S3Client, type S3Answer, type S3Request } from "../object/s3-client.ts";
import { VERSION_KEYS, VersionHistory } from "../object/version-history.ts";
import type { Outcomes } from "../outcomes.ts";

const FAULTS_FROM_MS = 200;
const WORK_MS = 3_500;
/** A majority has said by then that a gateway is gone. */
const VERDICT_MS = 250;
const RESTART_MS = 200;
const COMMIT_CRASHES_MAX = 3;
const JOURNAL_CRASHES_MAX = 8;
/** Long enough for others to write what it had begun to delete. */
const JOURNAL_RESTART_MS_MAX = 1_000;
/** Behind a record of a journal of transactions, and while one that was left is decided. */
const JOURNAL_POINTS: readonly string[] = [
  "object:after-delete-record",
  "object:after-delete-record",
  "object:before-delete",
  "object:after-begin-record",
  "recovery:after-transaction",
  "recovery:after-redo",
];
const UP_MS = 60_000;
/** A clock that was set back has caught up by then: until then no new ids are made. */
const RECOVERY_MS = 200_000;
/** Events that met no target wait for their next try; all else is quiet by then. */
const ANNOUNCED_MS = 60_000;
const ASK_AGAIN_MS = 300;
const ANSWER_MS = 2_000;
/** Puts that are under way while the default retention is set. */
const SLOW_PUTS = 3;
const SLOW_PUT_MS_MAX = 250;
const LOCK_STEP_MS = 60_000;
const PIECES_MAX = 1_000_000;
/** Of a blob. */
const BEGIN_BYTES = 100;
/** Garbage of the future is collected, and what is remembered of completed uploads. */
const AHEAD_MS = 30 * 24 * 3_600_000;

export const OBJECT_POINTS: readonly string[] = [
  "object:before-create",
  "object:after-create",
  "object:after-first-write",
  "object:before-seal",
  "object:after-seal",
  "object:after-commit",
  "object:before-fence",
  "object:after-fence",
  "object:after-block-mirrored",
  "object:after-epoch-claimed",
  "object:before-remove",
  "piece:created",
  "piece:written",
  "piece:synced",
  "piece:sealed",
  "piece:removed",
  "segment:appended",
  "segment:synced",
  "segment:sealed",
  "segment:bounds-written",
  "segment:claimed",
  "segment:removal-appended",
  "segment:removal-synced",
  "segment:compacted-copy-written",
  "segment:compacted-copy-synced",
  "segment:dropped",
  "epochs:closed-below-written",
  "epochs:closed-below-synced",
  "epochs:mark-removed",
  "garbage:after-remove",
  "garbage:after-parts",
  "garbage:before-forget",
  "garbage:after-forget",
  "multipart:after-create",
  "multipart:after-part-data",
  "multipart:after-part-commit",
  "multipart:after-completing",
  "multipart:before-complete-commit",
  "multipart:after-complete-commit",
  "multipart:before-abort",
  "multipart:after-abort",
  "bucket:after-changing",
  "bucket:after-changed-headers",
  "recovery:after-close-row",
  "recovery:after-close-epoch",
  "recovery:before-garbage",
  "recovery:after-garbage",
  "recovery:after-page",
  "recovery:after-mark",
  "journal:group-writing",
  "journal:group-synced",
  "events:before-send",
  "events:after-send",
  "events:after-removal",
];

interface Run {
  readonly cluster: Cluster;
  readonly gateways: Gateways;
  readonly history: ObjectHistory;
  readonly admin: Environment;
  readonly reader: ObjectClient;
  readonly versions: VersionHistory | undefined;
  readonly locks: LockHistory | undefined;
  /** What FORBIDDEN_KEY showed after a policy forbade its writes; undefined: none did. */
  forbiddenSince: string | undefined;
  isOver: boolean;
}

/** Signed S3 requests of several clients on a few keys: each key is a register, and afterwards nothing leaks and nothing dangles. */
export async function runObjectScenario(cluster: Cluster): Promise<Outcomes> {
  const { world, swarm } = cluster;
  const gateways = new Gateways(cluster);
  const history = new ObjectHistory(world);
  gateways.start();
  const admin = await process(cluster, "admin");
  const random = world.random("versions");
  const versions = random.chance(0.6) ? new VersionHistory(world) : undefined;
  const policies = world.random("policies");
  const hasPolicy = policies.chance(0.5);
  const locking = world.random("locks");
  const locks = locking.chance(0.4) ? new LockHistory(world, swarm.clockSkewMs) : undefined;
  const { hasRules, isEncrypted, events, sealed, hasOwnBuckets } = gateways;
  const shared = { world, history, addresses: gateways.s3Addresses, isEncrypted };
  const none = { versions: undefined, hasPolicy: false, hasRules: false, locks: undefined, events: undefined, sealed: undefined };
  const reader = new ObjectClient({ ...shared, ...none, env: admin, name: "admin", timeoutMs: 20_000, hasOwnBuckets: false });
  const run: Run = { cluster, gateways, history, admin, reader, versions, locks, forbiddenSince: undefined, isOver: false };
  await world.complete(makeBuckets(run), 4 * UP_MS);
  const names = Array.from({ length: swarm.clients }, (_, at) => `client-${at + 1}`);
  const used = { ...shared, timeoutMs: swarm.timeoutMs, versions, hasPolicy, hasRules, locks, events, sealed, hasOwnBuckets };
  const work: Promise<void>[] = [];
  for (const name of names) {
    const env = await process(cluster, name);
    work.push(operate(run, new ObjectClient({ ...used, env, name }), env));
  }
  if (versions !== undefined) work.push(keepVersions(run, versions, random));
  if (hasPolicy) work.push(forbidWrites(run, policies));
  if (locks !== undefined) {
    stepClock(run, locking);
    work.push(setDefaultLock(run, locks, locking));
  }
  if (gateways.keyPhase !== undefined) work.push(rollKeys(run, world.random("key roll")));
  await injectFaults(run, names);
  run.isOver = true;
  world.heal();
  await world.complete(Promise.all(work), RECOVERY_MS).catch(() => undefined);
  await judge(run);
  history.judge();
  return history.outcomes;
}

/** With the settings of this seed. */
async function makeBuckets(run: Run): Promise<void> {
  const { hasRules, isEncrypted, events } = run.gateways;
  await makeBucket(run, BUCKET);
  if (run.locks !== undefined) await makeLockedBucket(run);
  if (isEncrypted) await setBucket(run, "encryption", ENCRYPTED_DEFAULT, 200);
  if (hasRules) await setBucket(run, "lifecycle", EXPIRING_RULES, 200);
  if (events !== undefined) await setBucket(run, "notification", EVENT_RULES, 200);
}

/** A client's process; it lives as long as the world. */
function process({ world }: Cluster, name: string): Promise<Environment> {
  return world.complete(new Promise((resolve) => world.node(name, async ({ env }) => resolve(env))), UP_MS);
}

async function makeBucket({ admin, gateways }: Run, bucket: string, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const client = new S3Client(admin, gateways.s3Addresses[0]!, 2_000);
  for (;;) {
    const answer = await client.send({ method: "PUT", bucket, headers }).catch(() => undefined);
    if (answer?.status === 200 || answer?.code === "BucketAlreadyOwnedByYou") return;
    await sleep(admin.clock, ASK_AGAIN_MS);
  }
}

async function makeLockedBucket(run: Run): Promise<void> {
  await makeBucket(run, LOCKED_BUCKET, { "x-amz-bucket-object-lock-enabled": "true" });
  if (run.gateways.hasRules) await setBucket(run, "lifecycle", LOCKED_RULES, 200, LOCKED_BUCKET);
}

/** Amid the work: what commits after the answer has it. */
async function setDefaultLock(run: Run, locks: LockHistory, random: SeededRandom): Promise<void> {
  await sleep(run.admin.clock, random.below(WORK_MS));
  const { admin: env, cluster, gateways } = run;
  const send = (request: S3Request): Promise<S3Answer | undefined> =>
    new S3Client(env, random.pick(gateways.s3Addresses), ANSWER_MS).send(request).catch(() => undefined);
  const options = { world: cluster.world, env, locks, send };
  const slow = Array.from({ length: SLOW_PUTS }, (_, at) => putByDefault({ ...options, key: `admin-${at}` }, SLOW_PUT_MS_MAX));
  await setBucket(run, "object-lock", LOCKED_DEFAULT, 200, LOCKED_BUCKET);
  locks.defaultSinceMs = cluster.world.nowMs;
  await Promise.all(slow);
}

/** Far enough that a lock would have ended. */
function stepClock({ cluster: { world }, gateways: { plan } }: Run, random: SeededRandom): void {
  if (plan.collects || random.chance(0.5)) return;
  const atMs = world.nowMs + random.below(WORK_MS / 2);
  world.schedule([{ kind: "clock-step", atMs, node: random.pick(plan.names), byMs: LOCK_STEP_MS }]);
}

/**
 * Turns versioning on amid the work, and at times suspends it. A null version that is there when it was on stays: no write that saw the bucket
 * before replaces it.
 */
async function keepVersions(run: Run, versions: VersionHistory, random: SeededRandom): Promise<void> {
  const { admin, reader } = run;
  await sleep(admin.clock, random.below(WORK_MS / 2));
  await setVersioning(run, "Enabled");
  let listed = await reader.listVersions();
  while (listed === undefined) {
    await sleep(admin.clock, ASK_AGAIN_MS);
    listed = await reader.listVersions();
  }
  for (const version of listed) if (version.id === "null" && VERSION_KEYS.includes(version.key)) versions.made(version);
  if (random.chance(0.7)) return;
  await sleep(admin.clock, random.below(WORK_MS / 2));
  versions.forgetNull();
  await setVersioning(run, "Suspended");
}

/**
 * Amid the work a policy forbids writes of one key. What the key shows once that was answered, it shows for ever: a write that was judged by the
 * settings of before does not commit any more.
 */
async function forbidWrites(run: Run, random: SeededRandom): Promise<void> {
  await sleep(run.admin.clock, random.below(WORK_MS));
  const statement = { Effect: "Deny", Principal: "*", Action: "s3:PutObject", Resource: `arn:aws:s3:::${BUCKET}/${FORBIDDEN_KEY}` };
  await setBucket(run, "policy", JSON.stringify({ Version: "2012-10-17", Statement: [statement] }), 204);
  let shown = await run.reader.readForbidden();
  while (shown === undefined) {
    await sleep(run.admin.clock, ASK_AGAIN_MS);
    shown = await run.reader.readForbidden();
  }
  run.forbiddenSince = shown;
}

function setVersioning(run: Run, status: "Enabled" | "Suspended"): Promise<void> {
  return setBucket(run, "versioning", `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`, 200);
}

/** Until it is answered as done. */
async function setBucket(
  { admin, gateways }: Run,
  what: "versioning" | "policy" | "lifecycle" | "notification" | "object-lock" | "encryption",
  text: string,
  done: number,
  bucket = BUCKET,
): Promise<void> {
  const body = Buffer.from(text);
  for (let at = 0; ; at += 1) {
    const client = new S3Client(admin, gateways.s3Addresses[at % gateways.s3Addresses.length]!, 2_000);
    const answer = await client.send({ method: "PUT", bucket, query: { [what]: "" }, body }).catch(() => undefined);
    if (answer?.status === done) return;
    await sleep(admin.clock, ASK_AGAIN_MS);
  }
}

async function operate(run: Run, client: ObjectClient, env: Environment): Promise<void> {
  while (!run.isOver) {
    await client.operate();
    await sleep(env.clock, env.random.below(1 + run.cluster.swarm.thinkMs));
  }
}

/** Amid the work gateways begin to start with the present keys first, each when an operator ends it or something else does. */
async function rollKeys({ admin, cluster: { world }, gateways }: Run, random: SeededRandom): Promise<void> {
  await sleep(admin.clock, random.below(WORK_MS / 2));
  gateways.keyPhase = "present-first";
  const atMs = world.nowMs;
  world.schedule(
    gateways.plan.names.map((node, nth) => ({ kind: "crash", atMs: atMs + nth * 2 * RESTART_MS, forMs: RESTART_MS, node, mode: "kill" })),
  );
}

async function injectFaults({ cluster: { world, swarm }, gateways }: Run, clients: readonly string[]): Promise<void> {
  const { targets, kinds } = gateways.targets(clients, OBJECT_POINTS);
  const fromMs = world.nowMs + FAULTS_FROM_MS;
  const plan = { targets, kinds, fromMs, spanMs: WORK_MS - FAULTS_FROM_MS, rate: swarm.faultRate };
  world.schedule(drawFaultPlan(world.random("faults"), plan));
  world.schedule(drawZombies(world.random("zombies"), gateways.plan, fromMs));
  if (gateways.events !== undefined) world.schedule(drawCommitCrashes(world.random("commit crashes"), gateways.plan, fromMs));
  if (gateways.plan.journal !== "reservation") world.schedule(drawJournalCrashes(world.random("journal crashes"), gateways.plan, fromMs));
  await world.advance(WORK_MS);
}

/**
 * A gateway stands still before it seals a blob, for so long that another one recovers its epoch; it wakes, and dies as soon as it has sealed: its
 * own look at what became of the blob never comes.
 */
function drawZombies(random: SeededRandom, { names, hasVerdicts, epochDeadAfterMs }: GatewayPlan, fromMs: number): Fault[] {
  const deadAfterMs = hasVerdicts ? VERDICT_MS : epochDeadAfterMs;
  const forMs = deadAfterMs + 2 * RECOVERY_INTERVAL_MS + random.below(500);
  const latestMs = WORK_MS - FAULTS_FROM_MS - forMs - RESTART_MS;
  if (names.length < 2 || latestMs <= 0 || random.chance(0.5)) return [];
  const node = random.pick(names);
  const atMs = fromMs + random.below(latestMs);
  const mode = random.pick(["kill", "power"] as const);
  return [
    { kind: "pause-at-point", atMs, forMs, node, point: "object:before-seal", skip: 0, mode: random.pick(["pause", "freeze"]) },
    { kind: "crash-at-point", atMs: atMs + forMs, forMs: RESTART_MS, node, point: "object:after-seal", skip: 0, mode },
  ];
}

/** Gateways die between a commit and whatever they would do next: what belongs to the change is in its own commit (OGD19). */
function drawCommitCrashes(random: SeededRandom, { names }: GatewayPlan, fromMs: number): Fault[] {
  return Array.from({ length: random.below(COMMIT_CRASHES_MAX + 1) }, () => ({
    kind: "crash-at-point",
    atMs: fromMs + random.below(WORK_MS - FAULTS_FROM_MS),
    forMs: RESTART_MS,
    node: random.pick(names),
    point: "object:after-commit",
    skip: random.below(3),
    mode: random.pick(["kill", "power"] as const),
  }));
}

/**
 * Gateways die with what their journal of transactions has begun: the next process decides the uploads and redoes the deletes (OG8, OG11). Right behind
 * a commit only one that is alone does: the basic form takes an upload back then, which another gateway may have shown.
 */
function drawJournalCrashes(random: SeededRandom, { names }: GatewayPlan, fromMs: number): Fault[] {
  const points = names.length === 1 ? [...JOURNAL_POINTS, "object:after-commit"] : JOURNAL_POINTS;
  return Array.from({ length: random.between(2, JOURNAL_CRASHES_MAX) }, () => ({
    kind: "crash-at-point",
    atMs: fromMs + random.below(WORK_MS / 2),
    forMs: random.between(RESTART_MS, JOURNAL_RESTART_MS_MAX),
    node: random.pick(names),
    point: random.pick(points),
    skip: random.below(2),
    mode: random.pick(["kill", "power"] as const),
  }));
}

/** When all is quiet: everything can be written and read, every blob has a row, every row its blob. */
async function judge(run: Run): Promise<void> {
  const { world } = run.cluster;
  const quietly = async (what: string, work: () => Promise<boolean>, maxMs = RECOVERY_MS): Promise<void> => {
    let last = "not yet";
    const attempt = (): Promise<boolean> =>
      work().catch((thrown: unknown) => {
        last = toConcordError(thrown).message;
        return false;
      });
    await world.complete(until(run, attempt), maxMs).catch(() => world.violation("liveness", `${what}: ${last}`));
  };
  await quietly("a put after healing", () => run.reader.put(KEYS[0]!));
  if (world.random("restart").chance(0.5)) await restart(run, "as-before");
  await replaceKeys(run, quietly);
  for (const name of run.gateways.plan.names) await quietly(`recovery of ${name}`, () => isQuiet(run, name));
  await quietly("recovery of every epoch", () => areRecovered(run));
  await quietly("collection of garbage", () => collect(run));
  for (const key of KEYS) await quietly(`a get of ${key}`, () => run.reader.get(key));
  await quietly("versions", () => judgeVersions(run));
  await quietly("locks", () => judgeLocks(run));
  await quietly("encrypted objects", () => judgeSealed(run));
  await quietly("events", () => judgeEvents(run), ANNOUNCED_MS);
  await quietly("a forbidden key", () => judgeForbidden(run));
  await quietly("a listing and the usage", () => compareUsage(run));
  await quietly("the consistency", () => compareData(run));
  const keys = await world.complete(tamperSealed(run), RECOVERY_MS);
  await restart(run, "keys-gone");
  await quietly("encrypted objects without the gateways' keys", () => judgeKeysGone(run, keys));
}

/** The present master keys stand first at each gateway; when nothing is under the earlier ones, those are taken away. */
async function replaceKeys(run: Run, quietly: (what: string, work: () => Promise<boolean>) => Promise<void>): Promise<void> {
  const { gateways, cluster } = run;
  if (gateways.keyPhase === undefined) return;
  gateways.keyPhase = "present-first";
  await restart(run, "as-before");
  await quietly("rotation of keys", () => Promise.resolve(gateways.rotated.size === gateways.plan.names.length));
  gateways.keyPhase = "present-alone";
  await restart(run, "as-before");
  cluster.world.count("object:keys-replaced", 1);
}

async function restart({ cluster: { world }, gateways }: Run, how: "as-before" | "keys-gone"): Promise<void> {
  if (how === "keys-gone" && gateways.sealed === undefined) return;
  gateways.areKeysGone = how === "keys-gone";
  for (const name of gateways.plan.names) {
    await world.stop(name).catch(() => undefined);
    world.start(name);
  }
}

async function until({ admin }: Run, ask: () => Promise<boolean>): Promise<void> {
  while (!(await ask())) await sleep(admin.clock, ASK_AGAIN_MS);
}

async function isQuiet({ gateways, admin }: Run, name: string): Promise<boolean> {
  const status = await gateways.ask(admin, name, "GetStatus");
  return status.recovered && status.inDoubt === 0 && status.uploadsInFlight === 0;
}

/** All epochs but the gateways' own are closed, and nothing of them is unresolved. */
async function areRecovered({ gateways, admin }: Run): Promise<boolean> {
  const own = new Set<number>();
  for (const name of gateways.plan.names) own.add((await gateways.ask(admin, name, "GetStatus")).epoch);
  const { reservations } = await gateways.ask(admin, gateways.plan.names[0]!, "ListReservations");
  return reservations.every(({ epoch, closed, lowWater, reservedTo }) => own.has(epoch) || (closed && lowWater >= reservedTo));
}

/** Until nothing is left to collect, now or later. */
async function collect({ gateways, admin }: Run): Promise<boolean> {
  const request = { aheadMs: BigInt(AHEAD_MS) };
  const { kept, pending } = await gateways.ask(admin, gateways.plan.names[0]!, "CollectGarbage", request);
  return kept + pending === 0n;
}

async function judgeVersions({ reader, versions }: Run): Promise<boolean> {
  await versions?.judge((version) => reader.readVersion(version));
  return true;
}

async function judgeLocks({ reader, locks }: Run): Promise<boolean> {
  await locks?.judge((version) => reader.readVersion(version, LOCKED_BUCKET));
  return true;
}

/** What was stored is read as it was sent. */
async function judgeSealed({ cluster: { world }, gateways, admin: env, reader }: Run): Promise<boolean> {
  const options = { world, env, bucket: BUCKET, send: (request: S3Request) => reader.answerOf(request) };
  for (const object of gateways.sealed?.kept ?? []) if (!(await read(options, object))) return false;
  return true;
}

/** Nothing that was changed on the disk is given out. Answers what was. */
async function tamperSealed({ cluster: { world }, gateways, admin: env }: Run): Promise<ReadonlySet<string>> {
  const kept = gateways.sealed?.kept ?? [];
  if (kept.length === 0) return new Set();
  gateways.isTampered = true;
  const tampered = await tamper({ world, env, disk: gateways.files(), keys: new Set(kept.map(({ key }) => key)) });
  const client = new S3Client(env, gateways.s3Addresses[0]!, ANSWER_MS);
  for (const object of kept) if (tampered.has(object.key)) await readRefused(world, client, BUCKET, object, "tampered");
  return tampered;
}

/** Gateways without their keys refuse, and clients with their own read on. */
async function judgeKeysGone(run: Run, tampered: ReadonlySet<string>): Promise<boolean> {
  const { cluster, gateways, admin: env, reader } = run;
  const { world } = cluster;
  if (gateways.sealed === undefined || !(await isQuiet(run, gateways.plan.names[0]!))) return gateways.sealed === undefined;
  const client = new S3Client(env, gateways.s3Addresses[0]!, ANSWER_MS);
  const options = { world, env, bucket: BUCKET, send: (request: S3Request) => reader.answerOf(request) };
  for (const object of gateways.sealed.kept) {
    if (tampered.has(object.key)) continue;
    if (object.mode.kind === "customer") await read(options, object);
    else await readRefused(world, client, BUCKET, object, "without-keys");
  }
  return true;
}

/** Throws while something is not announced: deliveries go on. */
async function judgeEvents({ reader, gateways }: Run): Promise<boolean> {
  if (gateways.events === undefined) return true;
  const [listed, versions] = [await reader.list(), await reader.listVersions()];
  return listed !== undefined && versions !== undefined && gateways.events.judge({ listed, versions, promoted: VERSION_KEYS });
}

async function judgeForbidden({ cluster, reader, forbiddenSince }: Run): Promise<boolean> {
  if (forbiddenSince === undefined) return true;
  const shown = await reader.readForbidden();
  if (shown === undefined) return false;
  if (shown !== forbiddenSince) cluster.world.violation("policy overtaken", `${FORBIDDEN_KEY}: ${shown}, not ${forbiddenSince}`);
  cluster.world.count("object:policy-kept", 1);
  return true;
}

/** Throws while they differ: a delete whose client has gone may still be under way, or be decided between two looks. */
async function compareUsage({ reader, gateways, admin }: Run): Promise<boolean> {
  const listed = await reader.list();
  const versions = await reader.listVersions();
  if (listed === undefined || versions === undefined) return false;
  const known = new Set(versions.map(({ key }) => key));
  for (const key of listed.keys()) if (!known.has(key)) throw new Error(`${key} is listed, and has no version`);
  const { buckets } = await gateways.ask(admin, gateways.plan.names[0]!, "GetUsage");
  const objects = buckets.find(({ bucket }) => bucket === BUCKET)?.objects ?? 0n;
  if (objects !== BigInt(versions.length)) throw new Error(`${versions.length} versions are listed, ${objects} are counted`);
  return true;
}

/** By the gateway's own comparison, and by counting what is on the disk. */
async function compareData(run: Run): Promise<boolean> {
  const { gateways, admin, cluster } = run;
  const { world } = cluster;
  const found = await gateways.ask(admin, gateways.plan.names[0]!, "CheckConsistency");
  if (found.leaked.length > 0)
    world.violation("leak", `${found.leaked.length} blobs that no row names: ${found.leaked.slice(0, 3).join(", ")}`);
  if (found.dangling.length > 0) world.violation("dangling", `rows without their blob: ${found.dangling.slice(0, 3).join(", ")}`);
  if (found.garbage > 0n) world.violation("garbage stays", `${found.garbage} blobs`);
  const blobs = await countBlobs(run);
  if (BigInt(blobs) !== found.pieces) world.violation("leak", `${blobs} blobs on the disk, the gateway sees ${found.pieces}`);
  world.count("object:blobs-at-end", blobs);
  return true;
}

/** What a fresh look at the disk shows, without any gateway. */
async function countBlobs({ cluster: { world }, gateways, admin }: Run): Promise<number> {
  const { checksum, random } = admin;
  const data = new FilesystemObjectData({ disk: gateways.files(), checksum, random, failpoint: () => undefined });
  let blobs = 0;
  for (const epoch of await data.epochs()) {
    const oids = await data.list({ epoch, fromSequence: 0, limit: PIECES_MAX });
    blobs += oids.length;
    if (!gateways.isEncrypted && gateways.sealed === undefined) continue;
    for (const oid of oids) {
      const state = await data.inspect(oid);
      const bytes = state.kind === "sealed" ? Math.min(BEGIN_BYTES, state.sealed.lengthBytes) : 0;
      for await (const begin of data.read(oid, 0, bytes)) judgeBlob(world, begin, gateways.isEncrypted);
    }
  }
  return blobs;
}
