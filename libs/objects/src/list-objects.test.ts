import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import type { Listing } from "./api.ts";
import { openPhotos, put, type Fixture } from "./test/fixture.ts";

interface Asked {
  readonly prefix?: string;
  readonly delimiter?: string | undefined;
  readonly after?: string | undefined;
  readonly limit?: number;
}

const list = (fixture: Fixture, { prefix = "", delimiter, after, limit = 1000 }: Asked): Promise<Listing> =>
  fixture.store.listObjects({ bucket: "photos", prefix, delimiter, after, limit });

const keysOf = (listing: Listing): string[] => listing.objects.map(({ key }) => key);

const bytewise = (left: string, right: string): number => Buffer.compare(Buffer.from(left), Buffer.from(right));

/** What a listing is, said in one sentence: entries in order, those behind `after`, the first `limit` of them. */
function listingOf(keys: readonly string[], { prefix = "", delimiter, after, limit = 1000 }: Asked): unknown {
  const entries = new Map<string, "object" | "prefix">();
  for (const key of [...keys].sort(bytewise)) {
    if (!key.startsWith(prefix)) continue;
    const at = delimiter === undefined || delimiter === "" ? -1 : key.indexOf(delimiter, prefix.length);
    if (at < 0) entries.set(`o${key}`, "object");
    else entries.set(`p${key.slice(0, at + delimiter!.length)}`, "prefix");
  }
  const behind = [...entries.keys()].filter((entry) => after === undefined || bytewise(entry.slice(1), after) > 0);
  const page = behind.slice(0, limit);
  const more = limit > 0 && behind.length > page.length;
  const named = (kind: string): string[] => page.filter((entry) => entry[0] === kind).map((entry) => entry.slice(1));
  return { objects: named("o"), commonPrefixes: named("p"), next: more ? page.at(-1)!.slice(1) : undefined };
}

const shown = (listing: Listing): unknown => ({
  objects: keysOf(listing),
  commonPrefixes: listing.commonPrefixes,
  next: listing.next,
});

const letters = fc.string({ minLength: 1, maxLength: 5, unit: fc.constantFrom("a", "b", "/", "/", "ä", "\u0000", "\uffff", "😀") });
const question = fc.record({
  prefix: fc.oneof(fc.constant(""), letters),
  delimiter: fc.constantFrom(undefined, "", "/", "a", "//", "ä"),
  after: fc.oneof(fc.constant(undefined), letters),
  limit: fc.integer({ min: 0, max: 8 }),
});

for (const shards of [1, 3]) {
  test(`list: any keys and questions, ${shards} shards: the entries in binary order, page by page all of them once`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(letters, { maxLength: 25, size: "max" }),
        question,
        fc.integer({ min: 1, max: 9 }),
        async (keys, asked, listPageRows) => {
          const fixture = await openPhotos({ shards, limits: { listPageRows } });
          await Promise.all(keys.map((key) => put(fixture, key, key)));
          assert.deepEqual(shown(await list(fixture, asked)), listingOf(keys, asked));
          const seen: string[] = [];
          const limit = Math.max(1, asked.limit);
          for (let after = asked.after; ;) {
            const page = await list(fixture, { ...asked, after, limit });
            seen.push(...keysOf(page), ...page.commonPrefixes);
            if (page.next === undefined) break;
            after = page.next;
          }
          const all = listingOf(keys, { ...asked, limit: 1000 }) as { objects: string[]; commonPrefixes: string[] };
          assert.deepEqual(seen.sort(bytewise), [...all.objects, ...all.commonPrefixes].sort(bytewise));
        },
      ),
      { numRuns: 100 },
    );
  });
}

test("list: what an entry tells", async () => {
  const fixture = await openPhotos();
  const etag = await put(fixture, "a", "123", { checksum: { algorithm: "CRC32", type: "FULL_OBJECT", value: "x" } });
  const listing = await list(fixture, {});
  const checksum = { algorithm: "CRC32", type: "FULL_OBJECT", value: "x" };
  assert.deepEqual(listing.objects, [{ key: "a", sizeBytes: 3, etag, modifiedMs: fixture.clock.nowMs(), checksum, owner: undefined }]);
});

test("list: a and a/b side by side, keys of 1024 bytes: as any others", async () => {
  const fixture = await openPhotos();
  const long = "ä".repeat(512);
  for (const key of ["a", "a/b", "a/b/c", long]) await put(fixture, key, key);
  assert.deepEqual(shown(await list(fixture, { delimiter: "/" })), { objects: ["a", long], commonPrefixes: ["a/"], next: undefined });
  assert.deepEqual(keysOf(await list(fixture, { prefix: "a/" })), ["a/b", "a/b/c"]);
  assert.deepEqual(keysOf(await list(fixture, { after: "a/b/c" })), [long]);
});

test("list: common prefixes with thousands of keys below: jumped over, one small read each", async () => {
  const fixture = await openPhotos({ limits: { listPageRows: 100 } });
  const puts: Promise<unknown>[] = [];
  for (const folder of ["a/", "b/", "c/"]) for (let at = 0; at < 1000; at += 1) puts.push(put(fixture, `${folder}${at}`, ""));
  await Promise.all(puts);
  const pages: number[] = [];
  const range = fixture.metadata.range.bind(fixture.metadata);
  fixture.metadata.range = async (partition, wanted) => {
    const rows = await range(partition, wanted);
    pages.push(rows.length);
    return rows;
  };
  const listing = await list(fixture, { delimiter: "/" });
  assert.deepEqual(listing.commonPrefixes, ["a/", "b/", "c/"]);
  assert.deepEqual(pages, [8, 8, 8, 0]);
});

test("list: a long listing: pages grow, each row is read once", async () => {
  const fixture = await openPhotos({ limits: { listPageRows: 200 } });
  await Promise.all(Array.from({ length: 1000 }, (_, at) => put(fixture, `key-${at}`, "")));
  let ranges = 0;
  fixture.metadata.before = (operation) => {
    if (operation === "range") ranges += 1;
  };
  assert.equal((await list(fixture, {})).objects.length, 1000);
  assert.ok(ranges <= 9, `${ranges} ranges for 1000 rows`);
});

test("list: uploads, parts, garbage and a fence: not objects", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", new Uint8Array(20_000));
  await put(fixture, "a", new Uint8Array(20_000));
  fixture.metadata.nextFates("lost");
  await assert.rejects(put(fixture, "b", "1"), { code: "OUTCOME_UNKNOWN" });
  assert.deepEqual(keysOf(await list(fixture, {})), ["a"]);
});

test("list: limits and texts: at the limit fine, above LIMIT_EXCEEDED; no bucket BUCKET_UNKNOWN", async () => {
  const fixture = await openPhotos();
  await list(fixture, { limit: 1000 });
  await assert.rejects(list(fixture, { limit: 1001 }), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(list(fixture, { limit: -1 }), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(list(fixture, { prefix: "\ud800" }), { code: "MALFORMED_REQUEST" });
  const elsewhere = { bucket: "nothing", prefix: "", delimiter: undefined, after: undefined, limit: 1 };
  await assert.rejects(fixture.store.listObjects(elsewhere), { code: "BUCKET_UNKNOWN" });
});

test("list: nothing asked for: nothing, and no more", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "1");
  assert.deepEqual(await list(fixture, { limit: 0 }), { objects: [], commonPrefixes: [], next: undefined });
});
