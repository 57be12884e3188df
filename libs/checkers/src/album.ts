export interface PhotoFact {
  readonly id: string;
  readonly isPublic: boolean;
}

/** One consistent look at an album: its counter, its photos by key, and the same photos as the index finds them. */
export interface AlbumRead {
  readonly name: string;
  readonly album: string;
  readonly counter: bigint;
  readonly photos: readonly PhotoFact[];
  readonly indexed: readonly PhotoFact[];
}

/** What clients know about one album when all is quiet. */
export interface AlbumExpectation {
  /** Photos whose adding was acknowledged. */
  readonly added: ReadonlySet<string>;
  /** Photos whose adding has an unknown outcome: each may be there or not. */
  readonly indeterminate: ReadonlySet<string>;
}

export type AlbumAnomaly =
  | {
      readonly kind: "wrong-counter";
      readonly read: string;
      readonly album: string;
      readonly counter: bigint;
      readonly publicPhotos: number;
    }
  | {
      readonly kind: "not-indexed" | "index-only" | "index-stale" | "indexed-twice";
      readonly read: string;
      readonly album: string;
      readonly photo: string;
    }
  | { readonly kind: "lost-photo" | "unexplained-photo"; readonly read: string; readonly album: string; readonly photo: string };

/** Counter = public photos, and the index shows exactly the photos, with their present status: in every committed state (TX26, TX21). */
export function checkAlbums(reads: readonly AlbumRead[]): AlbumAnomaly[] {
  return reads.flatMap(checkRead);
}

/** The final album holds every acknowledged photo and none that was never added. */
export function checkFinalAlbum(read: AlbumRead, expected: AlbumExpectation): AlbumAnomaly[] {
  const anomalies = checkRead(read);
  const present = new Set(read.photos.map(({ id }) => id));
  for (const photo of expected.added) {
    if (!present.has(photo)) anomalies.push({ kind: "lost-photo", read: read.name, album: read.album, photo });
  }
  for (const photo of present) {
    if (expected.added.has(photo) || expected.indeterminate.has(photo)) continue;
    anomalies.push({ kind: "unexplained-photo", read: read.name, album: read.album, photo });
  }
  return anomalies;
}

function checkRead({ name: read, album, counter, photos, indexed }: AlbumRead): AlbumAnomaly[] {
  const anomalies: AlbumAnomaly[] = [];
  const publicPhotos = photos.filter(({ isPublic }) => isPublic).length;
  if (counter !== BigInt(publicPhotos)) anomalies.push({ kind: "wrong-counter", read, album, counter, publicPhotos });
  const byIndex = new Map<string, boolean>();
  for (const { id, isPublic } of indexed) {
    if (byIndex.has(id)) anomalies.push({ kind: "indexed-twice", read, album, photo: id });
    byIndex.set(id, isPublic);
  }
  for (const { id, isPublic } of photos) {
    const found = byIndex.get(id);
    byIndex.delete(id);
    if (found === undefined) anomalies.push({ kind: "not-indexed", read, album, photo: id });
    else if (found !== isPublic) anomalies.push({ kind: "index-stale", read, album, photo: id });
  }
  for (const photo of byIndex.keys()) anomalies.push({ kind: "index-only", read, album, photo });
  return anomalies;
}
