// The acceptance example of the source (TX26) under load, with a storage-proxy killed in the middle.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient } from "@concord/client";
import { type Client, type Constellation, Latencies } from "@concord/constellation";
import { settled, type ScenarioResult } from "./figures.ts";

const CLIENTS = 8;
const ALBUMS = 20;
const RUN_MS = 5_000;
const KILL_AT_MS = 1_500;
const RESTART_AT_MS = 2_500;
/** Time for the last acknowledged commits to be applied and the returned proxy to be repaired. */
const SETTLE_MS = 20_000;

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

const TABLES = [
  "CREATE TABLE shared_albums (id bigint PRIMARY KEY, owner text, public_photos int)",
  "CREATE TABLE shared_photos (album bigint, id uuid, owner text, modified timestamp, public boolean, PRIMARY KEY (album, id))",
  "CREATE INDEX by_owner ON shared_photos (owner, modified)",
];

interface Run {
  readonly clients: readonly ConcordClient[];
  readonly latencies: Latencies;
  readonly photos: Photo[];
  flips: number;
  readonly unexpected: string[];
}

export async function albumScenario(client: Client, constellation: Constellation): Promise<ScenarioResult> {
  const { coordinators } = constellation;
  const clients = await Promise.all(Array.from({ length: CLIENTS + 1 }, () => client.connect({ coordinators })));
  try {
    await createAlbums(clients[0]!);
    const run: Run = { clients, latencies: new Latencies(), photos: [], flips: 0, unexpected: [] };
    await underLoad(run, constellation);
    const problem = run.unexpected[0] ?? (await settled(() => check(clients[0]!, run), SETTLE_MS));
    return verdict(run, problem);
  } finally {
    for (const one of clients) one.close();
  }
}

function verdict(run: Run, problem: string | undefined): ScenarioResult {
  const { latencies } = run;
  const perSecond = Math.round((latencies.count + run.flips) / (RUN_MS / 1000));
  const figures = `${latencies.count} photos, ${run.flips} flips, ${perSecond} transactions/s, ${latencies.text()}`;
  const outcome = problem ?? `${ALBUMS} albums: counter = public photos = index rows, one storage-proxy killed and back`;
  return { held: problem === undefined, line: `album: ${figures}; ${outcome}` };
}

async function createAlbums(db: ConcordClient): Promise<void> {
  await db.createTables(TABLES);
  for (let id = 1n; id <= ALBUMS; id += 1n) await db.insert("shared_albums", { id, owner: `owner-${id}`, public_photos: 0 });
}

async function underLoad(run: Run, constellation: Constellation): Promise<void> {
  const endAt = performance.now() + RUN_MS;
  const adders = run.clients.slice(0, CLIENTS).map((db, at) => addPhotos(run, db, at, endAt));
  const moderator = flipPhotos(run, run.clients[CLIENTS]!, endAt);
  const killer = killAndRestart(constellation, "storage-proxy-2");
  await Promise.all([...adders, moderator, killer]);
}

async function killAndRestart(constellation: Constellation, name: string): Promise<void> {
  await sleep(KILL_AT_MS);
  await constellation.kill(name);
  await sleep(RESTART_AT_MS - KILL_AT_MS);
  await constellation.restart(name);
}

async function addPhotos(run: Run, db: ConcordClient, client: number, endAt: number): Promise<void> {
  for (let turn = client; performance.now() < endAt; turn += 1) {
    const album = BigInt((turn % ALBUMS) + 1);
    const photo = { album, id: randomUUID(), public: turn % 2 === 0 };
    const startedAt = performance.now();
    try {
      await addPhoto(db, photo);
      run.latencies.add(performance.now() - startedAt);
      run.photos.push(photo);
    } catch (error) {
      run.unexpected.push(`adding a photo failed: ${String(error)}`);
      return;
    }
  }
}

function addPhoto(db: ConcordClient, photo: Photo): Promise<void> {
  return db.runTransaction({ table: "shared_albums", key: { id: photo.album } }, async (txn) => {
    const album = await txn.lock<Album>("shared_albums", { id: photo.album });
    if (album === undefined) throw new Error(`album ${photo.album} is gone`);
    txn.insert("shared_photos", { ...photo, owner: album.owner, modified: new Date() });
    if (photo.public) txn.update("shared_albums", { id: album.id, public_photos: album.public_photos + 1 });
  });
}

/** The moderator: publishes what is hidden and hides what is published. */
async function flipPhotos(run: Run, db: ConcordClient, endAt: number): Promise<void> {
  for (let turn = 0; performance.now() < endAt; turn += 1) {
    const photo = run.photos[(turn * 7919) % Math.max(1, run.photos.length)];
    if (photo === undefined) await sleep(10);
    else {
      try {
        await flipPhoto(db, photo);
        run.flips += 1;
      } catch (error) {
        run.unexpected.push(`flipping a photo failed: ${String(error)}`);
        return;
      }
    }
  }
}

function flipPhoto(db: ConcordClient, { album: id, id: photoId }: Photo): Promise<void> {
  return db.runTransaction({ table: "shared_albums", key: { id } }, async (txn) => {
    const [album, photo] = [
      await txn.lock<Album>("shared_albums", { id }),
      await txn.lock<Photo>("shared_photos", { album: id, id: photoId }),
    ];
    if (album === undefined || photo === undefined) throw new Error(`photo ${photoId} is gone`);
    txn.update("shared_photos", { album: id, id: photoId, public: !photo.public, modified: new Date() });
    txn.update("shared_albums", { id, public_photos: album.public_photos + (photo.public ? -1 : 1) });
  });
}

/** Undefined: everything agrees. */
async function check(db: ConcordClient, run: Run): Promise<string | undefined> {
  let photosInAll = 0;
  for (let id = 1n; id <= ALBUMS; id += 1n) {
    const album = await db.read<Album>("shared_albums", { id });
    const photos = await collect(db.readRange<Photo>("shared_photos", { partition: { album: id }, pageSize: 1000 }));
    const indexed = await collect(db.queryRows<Photo>("SELECT * FROM shared_photos WHERE owner = ?", [`owner-${id}`], { pageSize: 1000 }));
    const isPublic = (photo: Photo): boolean => photo.public;
    const counts = [album?.public_photos, photos.filter(isPublic).length, indexed.filter(isPublic).length];
    if (new Set(counts).size !== 1 || photos.length !== indexed.length) {
      const [counter, inTable, inIndex] = counts;
      return `album ${id}: counter ${counter}, public photos ${inTable} of ${photos.length}, public index rows ${inIndex} of ${indexed.length}`;
    }
    photosInAll += photos.length;
  }
  return photosInAll === run.photos.length ? undefined : `${run.photos.length} photos were acknowledged, ${photosInAll} are there`;
}

async function collect<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const row of rows) collected.push(row);
  return collected;
}
