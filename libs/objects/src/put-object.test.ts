import { test } from "node:test";
import assert from "node:assert/strict";
import { ConcordError } from "@concord/runtime";
import { OBJECT_LIMITS } from "./limits.ts";
import { bodyOf, faultsOf, get, manyBytes, md5, NO_ATTRIBUTES, openPhotos, openRoom, put, referencesIn, rowsOf } from "./test/room.ts";

const BIG = 40_000;

test("put: a small object: in its row, with its attributes and checksum", async () => {
  const room = await openPhotos();
  const attributes = { headers: { "content-type": "text/plain" }, metadata: { author: "Ä" }, tags: { t: "1" } };
  const checksum = { algorithm: "CRC32C", type: "FULL_OBJECT", value: "x" } as const;
  const stored = await room.store.putObject({
    bucket: "photos",
    key: "a",
    body: bodyOf("hello", { checksum }),
    attributes,
    precondition: {},
  });
  assert.deepEqual(stored, { etag: md5(Buffer.from("hello")), checksum, modifiedMs: room.clock.nowMs() });
  const object = await room.store.headObject({ bucket: "photos", key: "a", precondition: {} });
  assert.deepEqual([object.attributes, object.checksum, object.sizeBytes, object.content.kind], [attributes, checksum, 5, "inline"]);
  assert.equal(Buffer.from((await get(room, "a"))!).toString(), "hello");
});

test("[OGD14] put: below, at and above the inline limit: no piece, no piece, one piece", async () => {
  const room = await openPhotos();
  const max = OBJECT_LIMITS.inlineBytesMax;
  for (const [bytes, pieces] of [
    [0, 0],
    [max - 1, 0],
    [max, 0],
    [max + 1, 1],
  ] as const) {
    for (const unannounced of [false, true]) {
      const before = room.data.contents().length;
      await put(room, `${bytes}${unannounced}`, manyBytes(bytes), { unannounced });
      assert.equal(room.data.contents().length - before, pieces);
      assert.deepEqual(await get(room, `${bytes}${unannounced}`), manyBytes(bytes));
    }
  }
  assert.deepEqual(faultsOf(room), []);
});

test("put: a body in chunks of any size: written in large ones, whole", async () => {
  for (const [bytes, chunkBytes, writeBytes] of [
    [BIG, 1000, 16_384],
    [BIG, BIG, 7001],
    [65_536 * 2, 65_536, 65_536],
    [200_001, 3333, 100_000],
  ] as const) {
    const room = await openPhotos({ limits: { writeBytes, inlineBytesMax: 100 } });
    const writes: number[] = [];
    room.data.before = (operation) => {
      if (operation === "write") writes.push(1);
    };
    for (const unannounced of [false, true]) {
      await put(room, "k", manyBytes(bytes, 3), { chunkBytes, unannounced });
      assert.deepEqual(await get(room, "k"), manyBytes(bytes, 3));
    }
    assert.equal(writes.length, 2 * Math.ceil(bytes / writeBytes));
  }
});

test("put: larger than the limit, announced or not: LIMIT_EXCEEDED, nothing is left", async () => {
  const room = await openPhotos({ limits: { pieceBytesMax: BIG, writeBytes: 8192 } });
  await put(room, "at", manyBytes(BIG));
  for (const unannounced of [false, true]) {
    await assert.rejects(put(room, "above", manyBytes(BIG + 1), { unannounced }), { code: "LIMIT_EXCEEDED" });
  }
  assert.equal(room.data.contents().length, 1);
  assert.deepEqual(faultsOf(room), []);
  assert.deepEqual(room.journal.unsettled, []);
});

test("[OG2] put: the row comes after the seal: one read, one piece, one commit", async () => {
  const room = await openPhotos();
  await room.store.headBucket("photos");
  const order: string[] = [];
  room.data.before = (operation) => void order.push(operation);
  room.metadata.before = (operation) => void order.push(operation);
  await put(room, "a", manyBytes(BIG));
  assert.deepEqual(order, ["read", "create", "write", "seal", "commit"]);
});

for (const size of [100, BIG]) {
  test(`[OG3] put: ${size} bytes break off or fail their checks: nothing is left`, async () => {
    const room = await openPhotos({ limits: { writeBytes: 8192 } });
    for (const faults of [{ breaksAfter: 0 }, { breaksAfter: size / 2, chunkBytes: 10 }, { badDigest: true }]) {
      await assert.rejects(put(room, "a", manyBytes(size), faults), ConcordError);
      assert.equal(await get(room, "a"), undefined);
    }
    assert.deepEqual(room.data.contents(), []);
    assert.ok([...room.journal.settled.values()].every((how) => how === "absent"));
    assert.deepEqual(room.journal.unsettled, []);
    assert.deepEqual(
      rowsOf(room).filter((row) => row.kind === "garbage"),
      [],
    );
  });
}

test("[OG3] put: its digest is another: the piece is never sealed", async () => {
  const room = await openPhotos();
  const operations: string[] = [];
  room.data.before = (operation) => void operations.push(operation);
  await assert.rejects(put(room, "a", manyBytes(BIG), { badDigest: true }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(operations, ["create", "write", "remove"]);
});

test("[OG3] put: a broken upload over an object: the old one stays", async () => {
  const room = await openPhotos();
  await put(room, "a", manyBytes(BIG, 1));
  await assert.rejects(put(room, "a", manyBytes(BIG, 2), { breaksAfter: 20_000 }), { code: "CANCELLED" });
  assert.deepEqual(await get(room, "a"), manyBytes(BIG, 1));
  assert.deepEqual(faultsOf(room), []);
});

test("[OG3] put: the broken upload's piece can not be removed: it is garbage", async () => {
  const room = await openPhotos();
  room.data.before = (operation) => {
    if (operation === "remove") throw new ConcordError("STORE_FAILED", "no");
  };
  await assert.rejects(put(room, "a", manyBytes(BIG), { badDigest: true }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(referencesIn(room).garbage, room.journal.taken);
  assert.deepEqual([...room.journal.settled.values()], ["garbage"]);
});

test("put: neither removed nor put to garbage: the resolver goes on", async () => {
  const room = await openPhotos();
  room.data.before = (operation) => {
    if (operation === "remove") throw new ConcordError("STORE_FAILED", "no");
  };
  room.metadata.nextFates("lost");
  await assert.rejects(put(room, "a", manyBytes(BIG), { badDigest: true }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(room.journal.settled.size, 0);
  assert.deepEqual(room.unresolved[0]?.oids, room.journal.taken);
  assert.equal(await room.unresolved[0]!.attempt(), true);
  assert.deepEqual(faultsOf(room), []);
});

test("[OGD4] put: over an object: its piece is garbage in the same commit, due after the grace", async () => {
  const room = await openPhotos();
  await put(room, "a", manyBytes(BIG, 1));
  const commits: number[] = [];
  room.metadata.fate = (commit) => {
    commits.push(commit.writes.length);
    return "answered";
  };
  await put(room, "a", manyBytes(BIG, 2));
  assert.equal(commits.length, 1);
  const [garbage] = rowsOf(room).filter((row) => row.kind === "garbage");
  assert.deepEqual(garbage, {
    kind: "garbage",
    bucket: "photos",
    key: "a",
    dueMs: room.clock.nowMs() + OBJECT_LIMITS.garbageGraceMs,
    what: { kind: "pieces", oids: [room.journal.taken[0]] },
  });
  assert.deepEqual(referencesIn(room).live, [room.journal.taken[1]]);
});

test("[OGD5] put: the clock steps back: versions of a row still grow", async () => {
  const room = await openPhotos();
  let last = 0n;
  for (let round = 0; round < 4; round += 1) {
    await put(room, "a", `${round}`);
    room.clock.advance(-60_000);
    const row = room.metadata.contents("photos/0").find(({ key }) => key[0] === 0x10);
    assert.ok(row!.version.commit > last);
    last = row!.version.commit;
  }
  assert.equal(Buffer.from((await get(room, "a"))!).toString(), "3");
});

test("[OGD5] put: a refused name: another is taken, the refused one is not touched", async () => {
  const room = await openPhotos();
  const other = openRoom({ beside: room, epoch: 1 });
  await put(room, "a", manyBytes(BIG, 1));
  // The other gateway's journal begins at the same epoch and sequence: a cloned machine.
  await put(other, "b", manyBytes(BIG, 2));
  assert.deepEqual(other.journal.refused, [room.journal.taken[0]]);
  assert.deepEqual(await get(room, "a"), manyBytes(BIG, 1));
  assert.deepEqual(await get(room, "b"), manyBytes(BIG, 2));
  assert.deepEqual(faultsOf(room), []);
});

test("put: every name is refused: PIECE_EXISTS after the limit", async () => {
  const room = await openPhotos({ limits: { pieceNamesMax: 2 } });
  room.data.before = (operation) => {
    if (operation === "create") throw new ConcordError("PIECE_EXISTS", "taken");
  };
  await assert.rejects(put(room, "a", manyBytes(BIG)), { code: "PIECE_EXISTS" });
  assert.equal(room.journal.refused.length, 2);
});

test("put: the piece can not be made or written: the store's error, nothing is left", async () => {
  for (const failing of ["create", "write", "seal"] as const) {
    const room = await openPhotos();
    room.data.before = (operation) => {
      if (operation === failing) throw new ConcordError("STORAGE_FULL", "full");
    };
    await assert.rejects(put(room, "a", manyBytes(BIG)), { code: "STORAGE_FULL", applied: "no" });
    assert.deepEqual(room.data.contents(), []);
    assert.deepEqual([...room.journal.settled.values()], ["absent"]);
  }
});

test("[OGD3] put: the epoch is closed before the seal: EPOCH_FENCED, the piece is recovery's", async () => {
  const room = await openPhotos();
  room.data.before = (operation) => {
    if (operation === "seal") throw new ConcordError("EPOCH_FENCED", "closed", { applied: "no" });
  };
  await assert.rejects(put(room, "a", manyBytes(BIG)), { code: "EPOCH_FENCED" });
  assert.deepEqual(room.journal.refused, room.journal.taken);
  assert.equal(room.journal.settled.size, 0);
  assert.equal(room.data.contents().length, 1);
});

test("put: to an unknown bucket, a bad key or too much metadata: refused before the body is read", async () => {
  const room = await openPhotos();
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
    room.store.putObject({ bucket, key, body, attributes: { ...NO_ATTRIBUTES, metadata }, precondition });
  await assert.rejects(attempt("nothing", "a"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(attempt("photos", ""), { code: "MALFORMED_REQUEST" });
  await assert.rejects(attempt("photos", "x".repeat(1025)), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(attempt("photos", "a", { m: "x".repeat(2048) }), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(attempt("photos", "a", {}, { ifMatch: ["x"] }), { code: "OBJECT_UNKNOWN" });
});

test("put: the upload takes longer than the longest request: ended, nothing is left", async () => {
  const room = await openPhotos({ limits: { longestRequestMs: 1000, writeBytes: 8192 } });
  room.data.before = (operation) => {
    if (operation === "write") room.clock.advance(600);
  };
  await assert.rejects(put(room, "a", manyBytes(BIG)), { code: "DEADLINE_EXCEEDED", applied: "no" });
  assert.deepEqual(room.data.contents(), []);
});
