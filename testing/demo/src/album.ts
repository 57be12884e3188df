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
const SETTLE_MS = 90_000;

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

export async function albumScenario(client: Client, constellation: Constellation): Promise<ScenarioResult> {
  const { coordinators } = constellation;
  const clients = await Promise.all(Array.from({ length: CLIENTS + 1 }, () => client.connect({ coordinators })));
  try {
    const load = await AlbumLoad.start({ clients, pauseMs: 0 });
    const killer = killAndRestart(constellation, "storage-proxy-2");
    await sleep(RUN_MS);
    await load.stop();
    await killer;
    return verdict(load, await load.check());
  } finally {
    for (const one of clients) one.close();
  }
}

function verdict({ latencies, flips }: AlbumLoad, problem: string | undefined): ScenarioResult {
  const perSecond = Math.round((latencies.count + flips) / (RUN_MS / 1000));
  const figures = `${latencies.count} photos, ${flips} flips, ${perSecond} transactions/s, ${latencies.text()}`;
  const outcome = problem ?? `${ALBUMS} albums: counter = public photos = index rows, one storage-proxy killed and back`;
  return { held: problem === undefined, line: `album: ${figures}; ${outcome}` };
}

async function killAndRestart(constellation: Constellation, name: string): Promise<void> {
  await sleep(KILL_AT_MS);
  await constellation.kill(name);
  await sleep(RESTART_AT_MS - KILL_AT_MS);
  await constellation.restart(name);
}

function addPhoto(db: ConcordClient, photo: Photo): Promise<void> {
  return db.runTransaction({ table: "shared_albums", key: { id: photo.album } }, async (txn) => {
    const album = await txn.lock<Album>("shared_albums", { id: photo.album });
    if (album === undefined) throw new Error(`album ${photo.album} is gone`);
    txn.insert("shared_photos", { ...photo, owner: album.owner, modified: new Date() });
    if (photo.public) txn.update("shared_albums", { id: album.id, public_photos: album.public_photos + 1 });
  });
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

async function collect<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const row of rows) collected.push(row);
  return collected;
}

export interface AlbumLoadOptions {
  /** All but the last add photos, the last one is the moderator. */
  readonly clients: readonly ConcordClient[];
  /** Pause of a client between two transactions, milliseconds. */
  readonly pauseMs: number;
}

/** Photos are added and flipped until `stop`; then counter, photos and index rows of each album agree. */
export class AlbumLoad {
  readonly latencies = new Latencies();
  flips = 0;
  readonly #options: AlbumLoadOptions;
  readonly #photos: Photo[] = [];
  readonly #unexpected: string[] = [];
  readonly #stopping = new AbortController();
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(options: AlbumLoadOptions) {
    this.#options = options;
  }

  static async start(options: AlbumLoadOptions): Promise<AlbumLoad> {
    const [db] = options.clients;
    await db!.createTables(TABLES);
    for (let id = 1n; id <= ALBUMS; id += 1n) await db!.insert("shared_albums", { id, owner: `owner-${id}`, public_photos: 0 });
    const load = new AlbumLoad(options);
    const adders = options.clients.slice(0, -1).map((adder, at) => load.#addPhotos(adder, at));
    load.#ended = Promise.all([...adders, load.#flipPhotos(options.clients.at(-1)!)]);
    return load;
  }

  get photos(): number {
    return this.#photos.length;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  /** What is wrong; undefined: nothing. */
  async check(): Promise<string | undefined> {
    return this.#unexpected[0] ?? (await settled(() => this.#compare(), SETTLE_MS));
  }

  async #addPhotos(db: ConcordClient, client: number): Promise<void> {
    for (let turn = client; !this.#stopping.signal.aborted; turn += 1) {
      const photo = { album: BigInt((turn % ALBUMS) + 1), id: randomUUID(), public: turn % 2 === 0 };
      const startedAt = performance.now();
      try {
        await addPhoto(db, photo);
        this.latencies.add(performance.now() - startedAt);
        this.#photos.push(photo);
      } catch (error) {
        this.#unexpected.push(`adding a photo failed: ${String(error)}`);
        return;
      }
      await sleep(this.#options.pauseMs);
    }
  }

  /** The moderator: publishes what is hidden and hides what is published. */
  async #flipPhotos(db: ConcordClient): Promise<void> {
    for (let turn = 0; !this.#stopping.signal.aborted; turn += 1) {
      const photo = this.#photos[(turn * 7919) % Math.max(1, this.#photos.length)];
      if (photo === undefined) {
        await sleep(10);
        continue;
      }
      try {
        await flipPhoto(db, photo);
        this.flips += 1;
      } catch (error) {
        this.#unexpected.push(`flipping a photo failed: ${String(error)}`);
        return;
      }
      await sleep(this.#options.pauseMs);
    }
  }

  async #compare(): Promise<string | undefined> {
    const [db] = this.#options.clients;
    let photosInAll = 0;
    for (let id = 1n; id <= ALBUMS; id += 1n) {
      const album = await db!.read<Album>("shared_albums", { id });
      const photos = await collect(db!.readRange<Photo>("shared_photos", { partition: { album: id }, pageSize: 1000 }));
      const indexed = await collect(
        db!.queryRows<Photo>("SELECT * FROM shared_photos WHERE owner = ?", [`owner-${id}`], { pageSize: 1000 }),
      );
      const isPublic = (photo: Photo): boolean => photo.public;
      const counts = [album?.public_photos, photos.filter(isPublic).length, indexed.filter(isPublic).length];
      if (new Set(counts).size !== 1 || photos.length !== indexed.length) {
        const [counter, inTable, inIndex] = counts;
        return `album ${id}: counter ${counter}, public photos ${inTable} of ${photos.length}, public index rows ${inIndex} of ${indexed.length}`;
      }
      photosInAll += photos.length;
    }
    return photosInAll === this.#photos.length ? undefined : `${this.#photos.length} photos were acknowledged, ${photosInAll} are there`;
  }
}
