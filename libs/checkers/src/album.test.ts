import assert from "node:assert/strict";
import { test } from "node:test";
import { checkAlbums, checkFinalAlbum, type AlbumRead, type PhotoFact } from "./index.ts";

const photos = (text: string): PhotoFact[] =>
  text
    .split(" ")
    .filter((word) => word !== "")
    .map((word) => ({ id: word.replace("*", ""), isPublic: word.endsWith("*") }));

/** `p*` is a public photo. */
function album(counter: number, byKey: string, byIndex = byKey): AlbumRead {
  return { name: "R", album: "A", counter: BigInt(counter), photos: photos(byKey), indexed: photos(byIndex) };
}

const kinds = (anomalies: readonly { kind: string }[]): string[] => anomalies.map(({ kind }) => kind);

test("album: counter, photos and index agree: valid", () => {
  assert.deepEqual(checkAlbums([album(0, ""), album(2, "p1* p2 p3*"), album(1, "p1 p2*", "p2* p1")]), []);
});

test("album: counter off by one: wrong counter", () => {
  assert.deepEqual(kinds(checkAlbums([album(1, "p1* p2*")])), ["wrong-counter"]);
});

test("album: index row missing, left over, stale, twice: each named", () => {
  assert.deepEqual(kinds(checkAlbums([album(1, "p1* p2", "p1*")])), ["not-indexed"]);
  assert.deepEqual(kinds(checkAlbums([album(1, "p1*", "p1* p2")])), ["index-only"]);
  assert.deepEqual(kinds(checkAlbums([album(1, "p1*", "p1")])), ["index-stale"]);
  assert.deepEqual(kinds(checkAlbums([album(1, "p1*", "p1* p1*")])), ["indexed-twice"]);
});

test("album: final state: acknowledged photos are there, doubtful ones may be, others may not", () => {
  const expected = { added: new Set(["p1"]), indeterminate: new Set(["p2"]) };
  assert.deepEqual(checkFinalAlbum(album(1, "p1*"), expected), []);
  assert.deepEqual(checkFinalAlbum(album(2, "p1* p2*"), expected), []);
  assert.deepEqual(kinds(checkFinalAlbum(album(1, "p2*"), expected)), ["lost-photo"]);
  assert.deepEqual(kinds(checkFinalAlbum(album(2, "p1* p3*"), expected)), ["unexplained-photo"]);
});
