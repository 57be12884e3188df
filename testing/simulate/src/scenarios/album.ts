import { checkAlbums, checkFinalAlbum, type AlbumRead, type PhotoFact } from "@concord/checkers";
import type { ConcordClient, Transaction } from "@concord/client";
import { newTimeId, sleep, type Environment } from "@concord/runtime";
import type { SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";
import type { Outcomes } from "../outcomes.ts";
import { COORDINATOR_POINTS, finish, RECOVERY_MS, rottingOf, runFaults, startAll } from "./course.ts";

const ALBUMS = 3;
/** An album's photos in one atomic read, beside the album itself: at most 200 keys. */
const PHOTOS_AT_ONCE_MAX = 199;
/** More photos than an owner has. */
const PHOTOS_IN_PAGE_MAX = 1_000;
/** Share of the seeds with every operation; in the others each change of a photo begins with its album's lock. */
const EVERY_OPERATION = 0.35;
/** Longest time between the index rows and the photos of one read of such a seed: others delete photos meanwhile, or wait. */
const READ_PAUSE_MS = 80;
const TABLES = [
  "CREATE TABLE albums (id bigint PRIMARY KEY, owner text, public_photos int)",
  "CREATE TABLE photos (album bigint, id uuid, owner text, modified timestamp, public boolean, PRIMARY KEY (album, id))",
  "CREATE INDEX by_owner ON photos (owner, modified)",
  "CREATE INDEX by_age ON photos (album, modified)",
];

interface Album {
  readonly id: bigint;
  readonly owner: string;
  readonly public_photos: number;
}

interface Photo {
  readonly album: bigint;
  readonly id: string;
  readonly public: boolean;
}

interface Indexed extends Photo {
  readonly modified: Date;
}

interface Run {
  readonly cluster: Cluster;
  /** Per album: acknowledged photos, and those that may be there or not. */
  readonly added: Set<string>[];
  readonly indeterminate: Set<string>[];
  /** Per album: photos whose adding was begun. */
  readonly begun: number[];
  readonly reads: AlbumRead[];
  readonly outcomes: { ok: number; fail: number; info: number };
  readonly hasEveryOperation: boolean;
  /** Drawn for the next change of a photo: an index row that went never comes again. */
  modified: number;
  isOver: boolean;
}

/** The acceptance example (TX26): photos are added, flipped and removed; counter, photos and index agree in every committed state. */
export async function runAlbumScenario(cluster: Cluster): Promise<Outcomes> {
  const { world } = cluster;
  const sets = (): Set<string>[] => Array.from({ length: ALBUMS }, () => new Set());
  const run: Run = {
    cluster,
    added: sets(),
    indeterminate: sets(),
    begun: Array.from({ length: ALBUMS }, () => 0),
    reads: [],
    outcomes: { ok: 0, fail: 0, info: 0 },
    hasEveryOperation: world.random("album-operations").chance(EVERY_OPERATION),
    modified: 0,
    isOver: false,
  };
  const { admin, clients } = await startAll(cluster, TABLES);
  await world.complete(createAlbums(admin.db), 60_000);
  const watches = [watchIndex(run, admin.db, admin.env), watchAtOnce(run, admin.db, admin.env)];
  const work = [...watches, ...clients.map(({ db, env }, at) => useAlbums(run, db, env, at))];
  await runFaults(cluster, COORDINATOR_POINTS, rottingOf(cluster));
  run.isOver = true;
  await finish(cluster, work);
  await checkEnd(run, admin.db);
  for (const anomaly of checkAlbums(run.reads)) report(run, anomaly);
  return run.outcomes;
}

async function createAlbums(db: ConcordClient): Promise<void> {
  for (let at = 0; at < ALBUMS; at += 1) await db.insert("albums", { id: BigInt(at), owner: ownerOf(at), public_photos: 0 });
}

const ownerOf = (album: number): string => `owner-${album}`;

async function useAlbums(run: Run, db: ConcordClient, env: Environment, client: number): Promise<void> {
  const { world, swarm } = run.cluster;
  const random = run.hasEveryOperation ? world.random(`album-operations:${client}`) : undefined;
  for (let n = 0; !run.isOver; n += 1) {
    const album = env.random.below(ALBUMS);
    world.callsInFlight += 1;
    await (n % 8 === 3
      ? readTransaction(run, db, env, album, `c${client}-${n}`, random?.chance(0.8) === true ? random.below(READ_PAUSE_MS) : undefined)
      : n % 8 === 7
        ? removePhoto(run, db, env, album, random?.chance(0.6) === true ? deletePhotoAlone : deletePhoto)
        : n % 4 === 2
          ? flipPhoto(run, db, env, album, random?.chance(0.6) === true ? "index key stays" : "index key moves")
          : addPhoto(run, db, env, album, random));
    world.callsInFlight -= 1;
    await sleep(env.clock, env.random.below(1 + swarm.thinkMs));
  }
}

async function addPhoto(run: Run, db: ConcordClient, env: Environment, at: number, random: SeededRandom | undefined): Promise<void> {
  const { timeoutMs } = run.cluster.swarm;
  const photo = { album: BigInt(at), id: dashed(newTimeId(env.clock, env.random)), public: env.random.below(2) === 0 };
  const insertsAlone = !photo.public && random?.chance(0.6) === true;
  // Indeterminate outcomes are kept from the start: a read may see the photo before we hear of it.
  run.indeterminate[at]!.add(photo.id);
  run.begun[at]! += 1;
  const outcome = await attempt(run, "add", async () => {
    // An Execute, repeated with one id: a private photo changes nothing of its album. A repeat that began anew would find the row of its first try.
    if (insertsAlone) await db.insertNew("photos", { ...photo, owner: ownerOf(at), modified: nextModified(run) }, { timeoutMs });
    else await db.runTransaction(entityOf(at), (txn) => insertPhoto(txn, run, photo), { deadlineMs: timeoutMs });
  });
  if (outcome === "info") return;
  run.indeterminate[at]!.delete(photo.id);
  if (outcome === "fail") return;
  run.added[at]!.add(photo.id);
  if (random !== undefined) await lookAtOwnPhoto(run, db, at, photo.id, random);
}

/** Reads outside of transactions, in the fast mode, by the client that added the photo: it is there (TX30), unless its removal began. */
async function lookAtOwnPhoto(run: Run, db: ConcordClient, at: number, id: string, random: SeededRandom): Promise<void> {
  const { world, swarm } = run.cluster;
  const { timeoutMs } = swarm;
  const byIndex = random.chance(0.5);
  await attempt(run, "look at own photo", async () => {
    let isThere = false;
    if (byIndex) {
      // In one page: between two pages of two replicas a photo that is flipped may move from the second to the first.
      const options = { timeoutMs, pageSize: PHOTOS_IN_PAGE_MAX };
      const rows = db.queryRows<Photo>("SELECT * FROM photos WHERE owner = ? AND modified > ?", [ownerOf(at), new Date(0)], options);
      for await (const row of rows) isThere ||= row.id === id;
    } else isThere = (await db.read<Photo>("photos", { album: BigInt(at), id }, { timeoutMs })) !== undefined;
    world.count("sim:op-own-look");
    if (!isThere && run.added[at]!.has(id)) world.violation("album own photo not read", `album ${at}, photo ${id}, by index: ${byIndex}`);
  });
}

async function insertPhoto(txn: Transaction, run: Run, photo: Photo): Promise<void> {
  const album = await lockAlbum(txn, photo.album);
  txn.insert("photos", { ...photo, owner: album.owner, modified: nextModified(run) });
  if (photo.public) txn.update("albums", { id: album.id, public_photos: album.public_photos + 1 });
}

function nextModified(run: Run): Date {
  run.modified += 1;
  return new Date(run.modified);
}

/** One reader outside of transactions, without commits of its own: what it saw go, whichever replicas answer, is gone (TX30). */
async function watchIndex(run: Run, db: ConcordClient, env: Environment): Promise<void> {
  const { world, swarm } = run.cluster;
  const [present, gone] = [new Set<string>(), new Set<string>()];
  while (!run.isOver) {
    const owner = ownerOf(env.random.below(ALBUMS));
    await attempt(run, "watch", async () => {
      const found = new Set<string>();
      const rows = db.queryRows<Indexed>("SELECT * FROM photos WHERE owner = ? AND modified > ?", [owner, new Date(0)], {
        timeoutMs: swarm.timeoutMs,
      });
      for await (const { id, modified } of rows) found.add(`${owner} ${modified.getTime()} ${id}`);
      for (const row of found) if (gone.has(row)) world.violation("album index row came back", row);
      for (const row of present) if (row.startsWith(`${owner} `) && !found.has(row)) gone.add(row);
      for (const row of found) present.add(row);
    });
    await sleep(env.clock, env.random.below(1 + swarm.thinkMs));
  }
}

/** Outside of transactions, in read mode ATOMIC: one committed state, no older than what was acknowledged before (TXD5). */
async function watchAtOnce(run: Run, db: ConcordClient, env: Environment): Promise<void> {
  const { swarm } = run.cluster;
  for (let n = 0; !run.isOver; n += 1) {
    const at = env.random.below(ALBUMS);
    await attempt(run, "look", () => (n % 4 === 3 ? lookAtRange(run, db, at) : lookAtPhotos(run, db, at, `look ${n}`)));
    await sleep(env.clock, env.random.below(1 + swarm.thinkMs));
  }
}

/** The album and every photo that may be there; photos that are added meanwhile may count already, so such a look says nothing of the counter. */
async function lookAtPhotos(run: Run, db: ConcordClient, at: number, name: string): Promise<void> {
  const acknowledged = new Set(run.added[at]!);
  const ids = [...acknowledged, ...run.indeterminate[at]!];
  if (ids.length > PHOTOS_AT_ONCE_MAX) return;
  const begun = run.begun[at]!;
  const keys = [entityOf(at), ...ids.map((id) => ({ table: "photos", key: { album: BigInt(at), id } }))];
  const [album, ...rows] = await db.readRows(keys, { mode: "atomic", timeoutMs: run.cluster.swarm.timeoutMs });
  const photos = rows.flatMap((row) => (row === undefined ? [] : [factOf(row as unknown as Photo)]));
  checkAcknowledged(run, at, acknowledged, photos);
  const counter = BigInt((album as unknown as Album).public_photos);
  if (run.begun[at] === begun) run.reads.push({ name, album: String(at), counter, photos, indexed: photos });
}

async function lookAtRange(run: Run, db: ConcordClient, at: number): Promise<void> {
  const acknowledged = new Set(run.added[at]!);
  const photos: PhotoFact[] = [];
  const options = { mode: "atomic", timeoutMs: run.cluster.swarm.timeoutMs } as const;
  for await (const row of db.readRange<Photo>("photos", { partition: { album: BigInt(at) } }, options)) photos.push(factOf(row));
  checkAcknowledged(run, at, acknowledged, photos);
}

/** Of those that were acknowledged before the look none is missing, unless its removal began. */
function checkAcknowledged(run: Run, at: number, acknowledged: ReadonlySet<string>, photos: readonly PhotoFact[]): void {
  const seen = new Set(photos.map(({ id }) => id));
  for (const id of acknowledged) {
    if (!seen.has(id) && run.added[at]!.has(id))
      run.cluster.world.violation("album acknowledged photo not seen", `album ${at}, photo ${id}`);
  }
}

/** From its beginning on others may find it gone. */
async function removePhoto(run: Run, db: ConcordClient, env: Environment, at: number, remove: typeof deletePhoto): Promise<void> {
  const [added, indeterminate] = [run.added[at]!, run.indeterminate[at]!];
  const id = drawPhoto(added, env);
  if (id === undefined) return;
  added.delete(id);
  indeterminate.add(id);
  const entity = remove === deletePhoto ? entityOf(at) : { table: "photos", key: { album: BigInt(at), id } };
  const outcome = await attempt(run, "remove", () =>
    db.runTransaction(entity, (txn) => remove(txn, BigInt(at), id), { deadlineMs: run.cluster.swarm.timeoutMs }),
  );
  if (outcome === "info") return;
  indeterminate.delete(id);
  if (outcome === "fail") added.add(id);
}

async function deletePhoto(txn: Transaction, albumId: bigint, id: string): Promise<void> {
  const album = await lockAlbum(txn, albumId);
  const photo = await txn.lock<Photo>("photos", { album: albumId, id });
  if (photo === undefined) throw new Error(`acknowledged photo ${id} of album ${albumId} is gone`);
  txn.delete("photos", { album: albumId, id });
  if (photo.public) txn.update("albums", { id: albumId, public_photos: album.public_photos - 1 });
}

/** Under the photo's own lock; the album's is taken afterwards, and only if the counter changes. */
async function deletePhotoAlone(txn: Transaction, albumId: bigint, id: string): Promise<void> {
  const photo = await txn.lock<Photo>("photos", { album: albumId, id });
  if (photo === undefined) throw new Error(`acknowledged photo ${id} of album ${albumId} is gone`);
  txn.delete("photos", { album: albumId, id });
  if (!photo.public) return;
  const album = await lockAlbum(txn, albumId);
  txn.update("albums", { id: albumId, public_photos: album.public_photos - 1 });
}

function drawPhoto(added: ReadonlySet<string>, env: Environment): string | undefined {
  return [...added][env.random.below(added.size)];
}

/** The index rows have a copy of what is flipped; their keys stay where `modified` does. */
async function flipPhoto(
  run: Run,
  db: ConcordClient,
  env: Environment,
  at: number,
  how: "index key stays" | "index key moves",
): Promise<void> {
  const added = run.added[at]!;
  const id = drawPhoto(added, env);
  if (id === undefined) return;
  await attempt(run, "flip", () =>
    db.runTransaction(
      entityOf(at),
      async (txn) => {
        const album = await lockAlbum(txn, BigInt(at));
        const photo = await txn.lock<Photo>("photos", { album: album.id, id });
        // another client may be removing it
        if (photo === undefined && !added.has(id)) return;
        if (photo === undefined) throw new Error(`acknowledged photo ${id} of album ${at} is gone`);
        const flipped = { album: album.id, id, public: !photo.public };
        txn.update("photos", how === "index key stays" ? flipped : { ...flipped, modified: nextModified(run) });
        txn.update("albums", { id: album.id, public_photos: album.public_photos + (photo.public ? -1 : 1) });
      },
      { deadlineMs: run.cluster.swarm.timeoutMs },
    ),
  );
}

async function lockAlbum(txn: Transaction, id: bigint): Promise<Album> {
  const album = await txn.lock<Album>("albums", { id });
  if (album === undefined) throw new Error(`album ${id} is gone`);
  return album;
}

/** One consistent look: the album's lock keeps every writer of its counter out, the locks of ranges and index partitions all others. */
async function readTransaction(
  run: Run,
  db: ConcordClient,
  env: Environment,
  at: number,
  name: string,
  indexFirstMs: number | undefined,
): Promise<void> {
  const pause = indexFirstMs === undefined ? undefined : (): Promise<void> => sleep(env.clock, indexFirstMs);
  let read: AlbumRead | undefined;
  const outcome = await attempt(run, "read", async () => {
    read = await db.runTransaction(entityOf(at), (txn) => readAlbum(txn, at, name, pause), { deadlineMs: run.cluster.swarm.timeoutMs });
  });
  if (outcome === "ok" && read !== undefined) run.reads.push(read);
}

/** `pause`: the index is read first, then this is awaited. */
async function readAlbum(txn: Transaction, at: number, name: string, pause?: () => Promise<void>): Promise<AlbumRead> {
  const id = BigInt(at);
  const album = await lockAlbum(txn, id);
  const indexedFirst = pause === undefined ? undefined : await readByAge(txn, id);
  await pause?.();
  const photos: PhotoFact[] = [];
  for await (const row of txn.readRange<Photo>("photos", { partition: { album: id } })) photos.push(factOf(row));
  const indexed = indexedFirst ?? (await readByAge(txn, id));
  return { name, album: String(at), counter: BigInt(album.public_photos), photos, indexed };
}

async function readByAge(txn: Transaction, album: bigint): Promise<PhotoFact[]> {
  const indexed: PhotoFact[] = [];
  let pageToken: Uint8Array | undefined;
  do {
    const options = pageToken === undefined ? {} : { pageToken };
    const page = await txn.query<Photo>("SELECT * FROM photos WHERE album = ? AND modified > ?", [album, new Date(0)], options);
    indexed.push(...page.rows.map(factOf));
    pageToken = page.next;
  } while (pageToken !== undefined);
  return indexed;
}

const factOf = (row: Photo): PhotoFact => ({ id: row.id, isPublic: row.public });
const entityOf = (at: number): { table: string; key: { id: bigint } } => ({ table: "albums", key: { id: BigInt(at) } });

/** A UUID of our ids, as the client shows uuids. */
function dashed(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

async function attempt(run: Run, what: string, action: () => Promise<void>): Promise<"ok" | "fail" | "info"> {
  const outcome = await action().then(
    (): "ok" => "ok",
    (thrown: unknown) => {
      reportBug(run.cluster.world, what, thrown);
      return outcomeOf(thrown);
    },
  );
  run.outcomes[outcome] += 1;
  return outcome;
}

/** All is quiet: each album in a transaction, and by the owners' index from outside. */
async function checkEnd(run: Run, db: ConcordClient): Promise<void> {
  const { world } = run.cluster;
  const check = async (): Promise<void> => {
    for (let at = 0; at < ALBUMS; at += 1) {
      const read = await db.runTransaction(entityOf(at), (txn) => readAlbum(txn, at, "final"), { deadlineMs: RECOVERY_MS });
      const indexed: PhotoFact[] = [];
      const rows = db.queryRows<Photo>("SELECT * FROM photos WHERE owner = ? AND modified > ?", [ownerOf(at), new Date(0)], {
        timeoutMs: RECOVERY_MS,
      });
      for await (const row of rows) indexed.push(factOf(row));
      const expected = { added: run.added[at]!, indeterminate: run.indeterminate[at]! };
      for (const anomaly of [...checkFinalAlbum(read, expected), ...checkAlbums([{ ...read, name: "final by owner", indexed }])])
        report(run, anomaly);
    }
  };
  await world.complete(check(), 10 * RECOVERY_MS).catch((thrown: unknown) => world.violation("liveness", `final reads: ${String(thrown)}`));
}

function report(run: Run, anomaly: { readonly kind: string }): void {
  const text = JSON.stringify(anomaly, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
  run.cluster.world.violation(`album ${anomaly.kind}`, text);
}
