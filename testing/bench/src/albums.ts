// The work of the transaction benchmarks: a photo is added to one of many albums.
import { randomUUID } from "node:crypto";
import type { ConcordClient } from "@concord/client";

export const ALBUMS = 1000;

const TABLES = [
  "CREATE TABLE albums (id bigint PRIMARY KEY, owner text, public_photos int)",
  "CREATE TABLE photos (album bigint, id uuid, owner text, modified timestamp, public boolean, PRIMARY KEY (album, id))",
  "CREATE INDEX by_owner ON photos (owner, modified)",
];

export async function createAlbums(db: ConcordClient): Promise<void> {
  await db.createTables(TABLES);
  const ids = Array.from({ length: ALBUMS }, (_, at) => BigInt(at + 1));
  for (let at = 0; at < ids.length; at += 100) {
    await Promise.all(ids.slice(at, at + 100).map((id) => db.insert("albums", { id, owner: `owner-${id}`, public_photos: 0 })));
  }
}

/** Locks the album's row, inserts the photo with its index on (owner, modified), raises the album's counter, commits durably. */
export function addPhoto(db: ConcordClient): Promise<void> {
  const id = BigInt(1 + Math.floor(Math.random() * ALBUMS));
  return db.runTransaction({ table: "albums", key: { id } }, async (txn) => {
    const album = await txn.lock<{ owner: string; public_photos: number }>("albums", { id });
    if (album === undefined) throw new Error(`album ${id} is gone`);
    txn.insert("photos", { album: id, id: randomUUID(), owner: album.owner, modified: new Date(), public: true });
    txn.update("albums", { id, public_photos: album.public_photos + 1 });
  });
}
