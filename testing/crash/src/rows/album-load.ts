// The acceptance example (TX26): photos are added to albums and flipped; counter, photos and index agree in every committed state.
import { randomUUID } from "node:crypto";
import { checkAlbums, checkFinalAlbum, type AlbumAnomaly, type AlbumRead, type PhotoFact } from "@concord/checkers";
import type { Entity, Transaction } from "@concord/client";
import { JUDGE_DEADLINE_MS, type Finding, type Transactions } from "./transactions.ts";

const LIVE_ALBUMS = 3;
/** After so many photos the next albums are used: albums stay small. */
const PHOTOS_PER_ALBUM = 100;
const READ_EVERY = 16;
const FLIP_EVERY = 4;

export const ALBUM_TABLES = [
  "CREATE TABLE albums (id bigint PRIMARY KEY, owner text, public_photos int)",
  "CREATE TABLE photos (album bigint, id uuid, owner text, modified timestamp, public boolean, PRIMARY KEY (album, id))",
  "CREATE INDEX by_owner ON photos (owner, modified)",
  "CREATE INDEX by_age ON photos (album, modified)",
];

interface Album {
  readonly id: bigint;
  readonly public_photos: number;
}

interface Photo {
  readonly id: string;
  readonly public: boolean;
}

interface Known {
  readonly added: Set<string>;
  readonly indeterminate: Set<string>;
}

export class AlbumLoad {
  readonly #transactions: Transactions;
  /** What clients know of each album that was used. */
  readonly #known = new Map<number, Known>();
  readonly #reads: AlbumRead[] = [];
  #photos = 0;
  #turns = 0;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  async once(random: () => number): Promise<boolean> {
    const at = LIVE_ALBUMS * Math.floor(this.#photos / (LIVE_ALBUMS * PHOTOS_PER_ALBUM)) + Math.floor(random() * LIVE_ALBUMS);
    this.#turns += 1;
    if (this.#turns % READ_EVERY === 0) return this.#read(at);
    return this.#turns % FLIP_EVERY === 0 ? this.#flip(at, random) : this.#add(at, random() < 0.5);
  }

  async judge(): Promise<readonly Finding[]> {
    const anomalies = checkAlbums(this.#reads.splice(0));
    for (const [at, expected] of this.#known) {
      const { db } = this.#transactions;
      const read = await db.runTransaction(entityOf(at), (txn) => readAlbum(txn, at), { deadlineMs: JUDGE_DEADLINE_MS });
      const indexed: PhotoFact[] = [];
      const query = "SELECT * FROM photos WHERE owner = ? AND modified > ?";
      for await (const row of db.queryRows<Photo>(query, [ownerOf(at), new Date(0)], { timeoutMs: JUDGE_DEADLINE_MS })) {
        indexed.push(factOf(row));
      }
      anomalies.push(...checkFinalAlbum(read, expected), ...checkAlbums([{ ...read, name: "final by owner", indexed }]));
    }
    return anomalies.map((anomaly) => ({ kind: findingOf(anomaly), text: `album ${anomaly.kind}: ${textOf(anomaly)}` }));
  }

  async #add(at: number, isPublic: boolean): Promise<boolean> {
    const known = this.#knownOf(at);
    const id = randomUUID();
    this.#photos += 1;
    // Kept from the start: a read may see the photo before its client hears of it.
    known.indeterminate.add(id);
    const outcome = await this.#transactions.run(entityOf(at), "exclusive", async (txn) => {
      const album = await txn.lock<Album>("albums", { id: BigInt(at) });
      txn.insert("photos", { album: BigInt(at), id, owner: ownerOf(at), modified: new Date(), public: isPublic });
      const counter = (album?.public_photos ?? 0) + (isPublic ? 1 : 0);
      if (album === undefined) txn.insert("albums", { id: BigInt(at), owner: ownerOf(at), public_photos: counter });
      else txn.update("albums", { id: album.id, public_photos: counter });
    });
    if (outcome !== "info") known.indeterminate.delete(id);
    if (outcome === "ok") known.added.add(id);
    return outcome === "ok";
  }

  async #flip(at: number, random: () => number): Promise<boolean> {
    const ids = [...this.#knownOf(at).added];
    const id = ids[Math.floor(random() * ids.length)];
    if (id === undefined) return false;
    const outcome = await this.#transactions.run(entityOf(at), "exclusive", async (txn) => {
      const album = await txn.lock<Album>("albums", { id: BigInt(at) });
      const photo = await txn.lock<Photo>("photos", { album: BigInt(at), id });
      if (album === undefined || photo === undefined) throw new Error(`album ${at} or its acknowledged photo ${id} is gone`);
      txn.update("photos", { album: album.id, id, public: !photo.public, modified: new Date() });
      txn.update("albums", { id: album.id, public_photos: album.public_photos + (photo.public ? -1 : 1) });
    });
    return outcome === "ok";
  }

  async #read(at: number): Promise<boolean> {
    let read: AlbumRead | undefined;
    const outcome = await this.#transactions.run(entityOf(at), "exclusive", async (txn) => {
      read = await readAlbum(txn, at);
    });
    if (outcome === "ok") this.#reads.push(read!);
    return outcome === "ok";
  }

  #knownOf(at: number): Known {
    const known = this.#known.get(at) ?? { added: new Set(), indeterminate: new Set() };
    this.#known.set(at, known);
    return known;
  }
}

/** One consistent look: the album's lock keeps every writer of its photos out. */
async function readAlbum(txn: Transaction, at: number): Promise<AlbumRead> {
  const id = BigInt(at);
  const album = await txn.lock<Album>("albums", { id });
  const photos: PhotoFact[] = [];
  for await (const row of txn.readRange<Photo>("photos", { partition: { album: id } })) photos.push(factOf(row));
  const indexed: PhotoFact[] = [];
  let pageToken: Uint8Array | undefined;
  do {
    const options = pageToken === undefined ? {} : { pageToken };
    const page = await txn.query<Photo>("SELECT * FROM photos WHERE album = ? AND modified > ?", [id, new Date(0)], options);
    indexed.push(...page.rows.map(factOf));
    pageToken = page.next;
  } while (pageToken !== undefined);
  return { name: "read", album: String(at), counter: BigInt(album?.public_photos ?? 0), photos, indexed };
}

const factOf = (row: Photo): PhotoFact => ({ id: row.id, isPublic: row.public });
const entityOf = (at: number): Entity => ({ table: "albums", key: { id: BigInt(at) } });
const ownerOf = (at: number): string => `owner-${at}`;

function findingOf({ kind }: AlbumAnomaly): Finding["kind"] {
  if (kind === "indexed-twice") return "duplicated";
  return kind === "lost-photo" ? "lost" : "dirty";
}

function textOf(anomaly: AlbumAnomaly): string {
  return JSON.stringify(anomaly, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
}
