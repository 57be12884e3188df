import { test } from "node:test";
import assert from "node:assert/strict";
import { ConcordError } from "@concord/runtime";
import type { UploadBody } from "./api.ts";
import { OBJECT_LIMITS } from "./limits.ts";
import {
  bodyOf,
  faultsOf,
  get,
  manyBytes,
  md5,
  NO_ATTRIBUTES,
  openPhotos,
  openFixture,
  put,
  referencesIn,
  rowsOf,
} from "./test/fixture.ts";

const BIG = 40_000;

test("put: a small object: in its row, with its attributes and checksum", async () => {
  const fixture = await openPhotos();
  const attributes = { headers: { "content-type": "text/plain" }, metadata: { author: "Ä" }, tags: { t: "1" } };
  const checksum = { algorithm: "CRC32C", type: "FULL_OBJECT", value: "x" } as const;
  const stored = await fixture.store.putObject({
    bucket: "photos",
    key: "a",
    body: bodyOf("hello", { checksum }),
    attributes,
    precondition: {},
  });
  assert.deepEqual(stored, { etag: md5(Buffer.from("hello")), checksum, modifiedMs: fixture.clock.nowMs() });
  const object = await fixture.store.headObject({ bucket: "photos", key: "a", precondition: {} });
  assert.deepEqual([object.attributes, object.checksum, object.sizeBytes, object.content.kind], [attributes, checksum, 5, "beside"]);
  assert.equal(Buffer.from((await get(fixture, "a"))!).toString(), "hello");
});

test("[OGD14] put: below, at and above the inline limit: no blob, no blob, one blob", async () => {
  const fixture = await openPhotos();
  const max = OBJECT_LIMITS.inlineBytesMax;
  for (const [bytes, blobs] of [
    [0, 0],
    [max - 1, 0],
    [max, 0],
    [max + 1, 1],
  ] as const) {
    for (const unannounced of [false, true]) {
      const before = fixture.data.contents().length;
      await put(fixture, `${bytes}${unannounced}`, manyBytes(bytes), { unannounced });
      assert.equal(fixture.data.contents().length - before, blobs);
      assert.deepEqual(await get(fixture, `${bytes}${unannounced}`), manyBytes(bytes));
    }
  }
  assert.deepEqual(faultsOf(fixture), []);
});

test("put: a body in chunks of any size: written in large ones, whole", async () => {
  for (const [bytes, chunkBytes, writeBytes] of [
    [BIG, 1000, 16_384],
    [BIG, BIG, 7001],
    [65_536 * 2, 65_536, 65_536],
    [200_001, 3333, 100_000],
  ] as const) {
    const fixture = await openPhotos({ limits: { writeBytes, inlineBytesMax: 100 } });
    const writes: number[] = [];
    fixture.data.before = (operation) => {
      if (operation === "write") writes.push(1);
    };
    for (const unannounced of [false, true]) {
      await put(fixture, "k", manyBytes(bytes, 3), { chunkBytes, unannounced });
      assert.deepEqual(await get(fixture, "k"), manyBytes(bytes, 3));
    }
    assert.equal(writes.length, 2 * Math.ceil(bytes / writeBytes));
  }
});

/** A body in whole chunks, all in one memory that is overwritten when the next one is requested, as those of copies are. */
function reusing(bytes: Uint8Array, memory: Uint8Array, unannounced: boolean): UploadBody {
  // oxlint-disable-next-line require-await
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let at = 0; at < bytes.length; at += memory.length) {
      const part = bytes.subarray(at, at + memory.length);
      memory.set(part);
      yield memory.subarray(0, part.length);
      memory.fill(255);
    }
  }
  return { ...bodyOf(bytes, { unannounced }), chunks: chunks() };
}

test("put: chunks as large as a write, in memory that is used again: written without a copy, but for the last; whole", async () => {
  const writeBytes = 4096;
  for (const [bytes, unannounced, uncopied] of [
    [4096, false, 0],
    [3 * 4096 - 1, false, 2],
    [3 * 4096, false, 2],
    [3 * 4096 + 1, false, 3],
    [3 * 4096, true, 0],
  ] as const) {
    const fixture = await openPhotos({ limits: { writeBytes, inlineBytesMax: 100 } });
    const memory = new Uint8Array(writeBytes);
    const written: { readonly bytes: number; readonly isCopy: boolean }[] = [];
    const create = fixture.data.create.bind(fixture.data);
    fixture.data.create = async (oid, description) => {
      const writer = await create(oid, description);
      const write = (part: Uint8Array): Promise<void> => {
        written.push({ bytes: part.length, isCopy: part.buffer !== memory.buffer });
        return writer.write(part);
      };
      return { write, seal: () => writer.seal(), abandon: () => writer.abandon() };
    };
    const body = reusing(manyBytes(bytes, 5), memory, unannounced);
    await fixture.store.putObject({ bucket: "photos", key: "k", body, attributes: NO_ATTRIBUTES, precondition: {} });
    assert.deepEqual(await get(fixture, "k"), manyBytes(bytes, 5));
    assert.equal(written.filter(({ isCopy }) => !isCopy).length, uncopied);
    assert.equal(written.length, Math.ceil(bytes / writeBytes));
    assert.equal(written.at(-1)!.isCopy, true);
  }
});

test("put: a short chunk, then ones as large as a write, then a short one again: stored in their order", async () => {
  const fixture = await openPhotos({ limits: { writeBytes: 4096, inlineBytesMax: 100 } });
  for (const lengths of [
    [1000, 4096, 4096, 500],
    [4096, 1000, 4096, 4096],
    [0, 4096, 3096, 1000, 4096, 4096, 1],
  ]) {
    const bytes = manyBytes(
      lengths.reduce((sum, length) => sum + length, 0),
      7,
    );
    let at = 0;
    // oxlint-disable-next-line require-await
    async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
      for (const length of lengths) yield bytes.slice(at, (at += length));
    }
    const body = { ...bodyOf(bytes), chunks: chunks() };
    await fixture.store.putObject({ bucket: "photos", key: "k", body, attributes: NO_ATTRIBUTES, precondition: {} });
    assert.deepEqual(await get(fixture, "k"), bytes);
  }
});

test("put: larger than the limit, announced or not: LIMIT_EXCEEDED, nothing is left", async () => {
  const fixture = await openPhotos({ limits: { blobBytesMax: BIG, writeBytes: 8192 } });
  await put(fixture, "at", manyBytes(BIG));
  for (const unannounced of [false, true]) {
    await assert.rejects(put(fixture, "above", manyBytes(BIG + 1), { unannounced }), { code: "LIMIT_EXCEEDED" });
  }
  assert.equal(fixture.data.contents().length, 1);
  assert.deepEqual(faultsOf(fixture), []);
  assert.deepEqual(fixture.journal.unresolved, []);
});

test("[OG2] put: the row comes after the seal: one read, one blob, one commit", async () => {
  const fixture = await openPhotos();
  await fixture.store.headBucket("photos");
  const order: string[] = [];
  fixture.data.before = (operation) => void order.push(operation);
  fixture.metadata.before = (operation) => void order.push(operation);
  await put(fixture, "a", manyBytes(BIG));
  assert.deepEqual(order, ["read", "create", "write", "seal", "commit"]);
});

for (const size of [100, BIG]) {
  test(`[OG3] put: ${size} bytes break off or fail their checks: nothing is left`, async () => {
    const fixture = await openPhotos({ limits: { writeBytes: 8192 } });
    for (const faults of [{ breaksAfter: 0 }, { breaksAfter: size / 2, chunkBytes: 10 }, { badDigest: true }]) {
      await assert.rejects(put(fixture, "a", manyBytes(size), faults), ConcordError);
      assert.equal(await get(fixture, "a"), undefined);
    }
    assert.deepEqual(fixture.data.contents(), []);
    assert.ok([...fixture.journal.resolved.values()].every((how) => how === "absent"));
    assert.deepEqual(fixture.journal.unresolved, []);
    assert.deepEqual(
      rowsOf(fixture).filter((row) => row.kind === "garbage"),
      [],
    );
  });
}

test("[OG3] put: its digest is another: the blob is never sealed", async () => {
  const fixture = await openPhotos();
  const operations: string[] = [];
  fixture.data.before = (operation) => void operations.push(operation);
  await assert.rejects(put(fixture, "a", manyBytes(BIG), { badDigest: true }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(operations, ["create", "write", "remove"]);
});

test("[OG3] put: a broken upload over an object: the old one stays", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", manyBytes(BIG, 1));
  await assert.rejects(put(fixture, "a", manyBytes(BIG, 2), { breaksAfter: 20_000 }), { code: "CANCELLED" });
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 1));
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OG3] put: the broken upload's blob cannot be removed: it is garbage", async () => {
  const fixture = await openPhotos();
  fixture.data.before = (operation) => {
    if (operation === "remove") throw new ConcordError("STORE_FAILED", "no");
  };
  await assert.rejects(put(fixture, "a", manyBytes(BIG), { badDigest: true }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(referencesIn(fixture).garbage, fixture.journal.taken);
  assert.deepEqual([...fixture.journal.resolved.values()], ["garbage"]);
});

test("put: neither removed nor put to garbage: the resolver goes on", async () => {
  const fixture = await openPhotos();
  fixture.data.before = (operation) => {
    if (operation === "remove") throw new ConcordError("STORE_FAILED", "no");
  };
  fixture.metadata.nextFates("lost");
  await assert.rejects(put(fixture, "a", manyBytes(BIG), { badDigest: true }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(fixture.journal.resolved.size, 0);
  assert.deepEqual(fixture.unresolved[0]?.oids, fixture.journal.taken);
  assert.equal(await fixture.unresolved[0]!.attempt(), true);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD4] put: over an object: its blob is garbage in the same commit, due after the grace", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", manyBytes(BIG, 1));
  const commits: number[] = [];
  fixture.metadata.fate = (commit) => {
    commits.push(commit.writes.length);
    return "answered";
  };
  await put(fixture, "a", manyBytes(BIG, 2));
  assert.equal(commits.length, 1);
  const [garbage] = rowsOf(fixture).filter((row) => row.kind === "garbage");
  assert.deepEqual(garbage, {
    kind: "garbage",
    bucket: "photos",
    key: "a",
    dueMs: fixture.clock.nowMs() + OBJECT_LIMITS.garbageGraceMs,
    what: { kind: "blobs", oids: [fixture.journal.taken[0]] },
  });
  assert.deepEqual(referencesIn(fixture).live, [fixture.journal.taken[1]]);
});

test("[OGD5] put: the clock steps back: versions of a row still grow", async () => {
  const fixture = await openPhotos();
  let last = 0n;
  for (let round = 0; round < 4; round += 1) {
    await put(fixture, "a", `${round}`);
    fixture.clock.advance(-60_000);
    const row = fixture.metadata.contents("photos/0").find(({ key }) => key[0] === 0x10);
    assert.ok(row!.version.commit > last);
    last = row!.version.commit;
  }
  assert.equal(Buffer.from((await get(fixture, "a"))!).toString(), "3");
});

test("[OGD5] put: a refused name: another is taken, the refused one is not touched", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture, epoch: 1 });
  await put(fixture, "a", manyBytes(BIG, 1));
  // The other gateway's journal begins at the same epoch and sequence: a cloned machine.
  await put(other, "b", manyBytes(BIG, 2));
  assert.deepEqual(other.journal.refused, [fixture.journal.taken[0]]);
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 1));
  assert.deepEqual(await get(fixture, "b"), manyBytes(BIG, 2));
  assert.deepEqual(faultsOf(fixture), []);
});

test("put: every name is refused: PIECE_EXISTS after the limit", async () => {
  const fixture = await openPhotos({ limits: { blobNamesMax: 2 } });
  fixture.data.before = (operation) => {
    if (operation === "create") throw new ConcordError("PIECE_EXISTS", "taken");
  };
  await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "PIECE_EXISTS" });
  assert.equal(fixture.journal.refused.length, 2);
});

test("put: the blob cannot be made or written: the store's error, nothing is left", async () => {
  for (const failing of ["create", "write", "seal"] as const) {
    const fixture = await openPhotos();
    fixture.data.before = (operation) => {
      if (operation === failing) throw new ConcordError("STORAGE_FULL", "full");
    };
    await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "STORAGE_FULL", applied: "no" });
    assert.deepEqual(fixture.data.contents(), []);
    assert.deepEqual([...fixture.journal.resolved.values()], ["absent"]);
  }
});

test("[OGD3] put: the epoch is closed before the seal: EPOCH_FENCED, the blob is recovery's", async () => {
  const fixture = await openPhotos();
  fixture.data.before = (operation) => {
    if (operation === "seal") throw new ConcordError("EPOCH_FENCED", "closed", { applied: "no" });
  };
  await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "EPOCH_FENCED" });
  assert.deepEqual(fixture.journal.refused, fixture.journal.taken);
  assert.equal(fixture.journal.resolved.size, 0);
  assert.equal(fixture.data.contents().length, 1);
});

test("put: to an unknown bucket, a bad key or too much metadata: refused before the body is read", async () => {
  const fixture = await openPhotos();
  const body = {
    lengthBytes: 1,
    chunks: {
      [Symbol.asyncIterator]: (): never => {
        throw new Error("the body was read");
      },
    },
    finish: (): never => {
      throw new Error("the body was read");
    },
  };
  const attempt = (bucket: string, key: string, metadata = {}, precondition = {}): Promise<unknown> =>
    fixture.store.putObject({ bucket, key, body, attributes: { ...NO_ATTRIBUTES, metadata }, precondition });
  await assert.rejects(attempt("nothing", "a"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(attempt("photos", ""), { code: "MALFORMED_REQUEST" });
  await assert.rejects(attempt("photos", "x".repeat(1025)), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(attempt("photos", "a", { m: "x".repeat(2048) }), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(attempt("photos", "a", {}, { ifMatch: ["x"] }), { code: "OBJECT_UNKNOWN" });
});

test("put: the upload takes longer than the longest request: ended, nothing is left", async () => {
  const fixture = await openPhotos({ limits: { longestRequestMs: 1000, writeBytes: 8192 } });
  fixture.data.before = (operation) => {
    if (operation === "write") fixture.clock.advance(600);
  };
  await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "DEADLINE_EXCEEDED", applied: "no" });
  assert.deepEqual(fixture.data.contents(), []);
});
