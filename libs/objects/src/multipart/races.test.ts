// Complete against abort, late parts, second completes and crashes: the upload's row decides (OGD11).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { CommitFate } from "@concord/port-contracts";
import { OBJECT_LIMITS } from "../limits.ts";
import { decodeRowAs } from "../row-codec.ts";
import { doneUploadKey, uploadKey } from "../row-keys.ts";
import {
  abort,
  begin,
  bytes,
  codeOf,
  complete,
  faults,
  get,
  openGateway,
  openWorld,
  part,
  put,
  quiesce,
  restart,
  turns,
  type World,
} from "../test/gateway.ts";

const PARTITION = "photos/0";
const A = bytes("a");
const B = bytes("b");
const BOTH = [
  { number: 1, content: A },
  { number: 2, content: B },
];

async function twoParts() {
  const { world, gateway } = await openWorld();
  const other = await openGateway(world, { instance: "two" });
  const uploadId = await begin(gateway, "k");
  for (const { number, content } of BOTH) await part(gateway, "k", uploadId, number, content);
  return { world, gateway, other, uploadId };
}

/** Holds the so-many-th commit to the bucket's partition from here until it is released. */
function holdCommit(world: World, count: number): { readonly arrived: Promise<void>; readonly release: () => void } {
  const arrived = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let seen = 0;
  world.metadata.before = async (operation, partition) => {
    if (operation !== "commit" || partition !== PARTITION || (seen += 1) !== count) return;
    arrived.resolve();
    await gate.promise;
  };
  return { arrived: arrived.promise, release: gate.resolve };
}

test("[OGD11] complete: an abort and its collection between the look at the upload and at its parts: UPLOAD_UNKNOWN, not PART_INVALID", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  world.metadata.before = async (operation, partition) => {
    if (operation !== "range" || partition !== PARTITION) return;
    world.metadata.before = () => undefined;
    await abort(other, "k", uploadId);
    await other.collector.runAhead(0);
  };
  assert.equal(await codeOf(complete(gateway, "k", uploadId, BOTH)), "UPLOAD_UNKNOWN");
  assert.deepEqual(world.data.contents(), []);
  assert.deepEqual(await faults(gateway), []);
});

test("[OGD11] abort while another request completes: refused; the object is whole", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 2);
  const completing = complete(gateway, "k", uploadId, BOTH);
  await arrived;
  assert.equal(await codeOf(abort(other, "k", uploadId)), "UPLOAD_STATE");
  assert.equal(await codeOf(part(other, "k", uploadId, 3, "c")), "UPLOAD_STATE");
  release();
  await completing;
  assert.equal(await codeOf(abort(other, "k", uploadId)), "UPLOAD_UNKNOWN");
  await quiesce(other);
  assert.equal(await get(other, "k"), A + B);
});

test("[OGD11] abort commits before the acquisition of a complete: the complete finds no upload, nothing is left", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 1);
  const completing = codeOf(complete(gateway, "k", uploadId, BOTH));
  await arrived;
  await abort(other, "k", uploadId);
  release();
  assert.equal(await completing, "UPLOAD_UNKNOWN");
  await quiesce(other);
  assert.deepEqual(world.data.contents(), []);
  assert.equal(await get(other, "k"), undefined);
});

test("[OGD11] a late part: its bytes are there, the upload was completed meanwhile: refused, its blob is garbage", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 1);
  const late = codeOf(part(other, "k", uploadId, 2, bytes("late")));
  await arrived;
  await complete(gateway, "k", uploadId, BOTH);
  release();
  assert.equal(await late, "UPLOAD_UNKNOWN");
  assert.deepEqual(await faults(gateway), []);
  await gateway.collector.runAhead(OBJECT_LIMITS.garbageGraceMs);
  assert.equal(world.data.contents().length, 2);
  assert.equal(await get(gateway, "k"), A + B);
});

test("[OGD11] a part is replaced between a complete's look and its acquisition: the complete is refused, the upload open", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 1);
  const completing = codeOf(complete(gateway, "k", uploadId, BOTH));
  await arrived;
  await part(other, "k", uploadId, 1, bytes("new"));
  release();
  assert.equal(await completing, "PART_INVALID");
  assert.equal(await get(gateway, "k"), undefined);
  await complete(other, "k", uploadId, [{ number: 1, content: bytes("new") }, BOTH[1]!]);
  assert.equal(await get(gateway, "k"), bytes("new") + B);
});

test("[OGD11] the same complete twice at once: both get the same answer", async () => {
  const { gateway, other, uploadId } = await twoParts();
  const [first, second] = await Promise.all([complete(gateway, "k", uploadId, BOTH), complete(other, "k", uploadId, BOTH)]);
  assert.equal(first.etag, second.etag);
  await quiesce(gateway);
  assert.equal(await get(gateway, "k"), A + B);
});

test("[OGD11] two completes of different parts at once: one wins, the other finds no upload", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const codes = await Promise.all([
    codeOf(complete(gateway, "k", uploadId, BOTH)),
    codeOf(complete(other, "k", uploadId, BOTH.slice(0, 1))),
  ]);
  assert.deepEqual(codes.sort(), ["UPLOAD_UNKNOWN", "done"]);
  await quiesce(gateway);
  const value = await get(gateway, "k");
  assert.ok(value === A + B || value === A);
  assert.equal(world.data.contents().length, value === A ? 1 : 2);
});

test("[OGD4] a put between a complete's look at the head and its commit: one after the other, the loser's blobs are garbage", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 2);
  const completing = complete(gateway, "k", uploadId, BOTH);
  await arrived;
  await put(other, "k", bytes("put"));
  release();
  await completing;
  assert.equal(await get(gateway, "k"), A + B);
  assert.deepEqual(await faults(gateway), []);
  await gateway.collector.runAhead(OBJECT_LIMITS.garbageGraceMs);
  assert.equal(world.data.contents().length, 2);
});

test("[OGD11] If-None-Match: a put wins while the upload is acquired: refused, and the upload is open again", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 2);
  const completing = codeOf(complete(gateway, "k", uploadId, BOTH, true));
  await arrived;
  await put(other, "k", "first");
  release();
  assert.equal(await completing, "PRECONDITION_FAILED");
  await part(gateway, "k", uploadId, 3, "c");
  assert.equal(await get(gateway, "k"), "first");
});

test("[OGD11] a completer is paused until it is stale, another takes over, it wakes: its commit fails, the answer is the same", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 2);
  const paused = complete(gateway, "k", uploadId, BOTH);
  await arrived;
  await world.clock.advance(OBJECT_LIMITS.completeStaleMs);
  const taken = await complete(other, "k", uploadId, BOTH);
  release();
  assert.equal((await paused).etag, taken.etag);
  await quiesce(other);
  assert.equal(await get(other, "k"), A + B);
});

test("[OGD11] a completer is paused until it is stale, its upload is aborted, it wakes: nothing becomes visible", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 2);
  const paused = codeOf(complete(gateway, "k", uploadId, BOTH));
  await arrived;
  await world.clock.advance(OBJECT_LIMITS.completeStaleMs);
  await abort(other, "k", uploadId);
  await other.collector.runOnce();
  release();
  assert.equal(await paused, "UPLOAD_UNKNOWN");
  assert.equal(await get(other, "k"), undefined);
  assert.deepEqual(await faults(other), []);
});

test("[OGD11] a completer is paused until it is stale, a part is replaced, it wakes: it looks at the parts again, and is refused", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 2);
  const paused = codeOf(complete(gateway, "k", uploadId, BOTH));
  await arrived;
  await world.clock.advance(OBJECT_LIMITS.completeStaleMs);
  await part(other, "k", uploadId, 1, bytes("new"));
  release();
  assert.equal(await paused, "PART_INVALID");
  assert.equal(await get(other, "k"), undefined);
  assert.deepEqual(await faults(other), []);
});

test("[OGD11] complete commits before an abort's commit: the abort finds it done, its row and parts stay", async () => {
  const { world, gateway, other, uploadId } = await twoParts();
  const { arrived, release } = holdCommit(world, 1);
  const aborting = codeOf(abort(other, "k", uploadId));
  await arrived;
  const done = await complete(gateway, "k", uploadId, BOTH);
  release();
  assert.equal(await aborting, "UPLOAD_UNKNOWN");
  assert.equal((await other.collector.runOnce()).rows, 0);
  assert.deepEqual(await complete(other, "k", uploadId, BOTH), done);
});

test("[OGD11] acquired by a dead gateway: UPLOAD_STATE below the stale time, at it a part, an abort or a complete works", async () => {
  for (const next of ["part", "abort", "complete"] as const) {
    const { world, gateway } = await openWorld({
      failpoint: (name, { die }) => (name === "multipart:after-completing" ? die() : undefined),
    });
    const other = await openGateway(world, { instance: "two" });
    const uploadId = await begin(gateway, "k");
    await part(gateway, "k", uploadId, 1, A);
    await Promise.race([complete(gateway, "k", uploadId, BOTH.slice(0, 1)).catch(() => undefined), gateway.killed]);
    assert.equal(stateOf(world), "completing");
    const act = (): Promise<unknown> => {
      if (next === "part") return part(other, "k", uploadId, 2, B);
      return next === "abort" ? abort(other, "k", uploadId) : complete(other, "k", uploadId, BOTH.slice(0, 1));
    };
    await world.clock.advance(OBJECT_LIMITS.completeStaleMs - 1000);
    assert.equal(await codeOf(act()), "UPLOAD_STATE");
    await world.clock.advance(1000);
    assert.equal(await codeOf(act()), "done");
    await quiesce(other);
    assert.equal(await get(other, "k"), next === "complete" ? A : undefined);
    assert.deepEqual(await faults(other), []);
  }
});

function stateOf(world: World): string | undefined {
  const kinds = [uploadKey("", 0n), doneUploadKey("", 0n)].map(([kind]) => kind);
  const [row] = world.metadata.contents(PARTITION).filter(({ key }) => kinds.includes(key[0]));
  return row === undefined ? undefined : decodeRowAs("upload", row.value).state.kind;
}

const POINTS = [
  "multipart:after-part-data",
  "multipart:after-part-commit",
  "multipart:after-completing",
  "multipart:after-unnamed",
  "multipart:before-complete-commit",
  "multipart:after-complete-commit",
];

for (const point of POINTS) {
  test(`[OG15] the gateway dies at ${point}: parts that arrived are there, complete can be repeated, nothing leaks`, async () => {
    let armed = false;
    const { world, gateway } = await openWorld({ failpoint: (name, { die }) => (armed && name === point ? die() : undefined) });
    const uploadId = await begin(gateway, "k");
    for (const { number, content } of BOTH) await part(gateway, "k", uploadId, number, content);
    if (point === "multipart:after-unnamed")
      for (let number = 3; number <= 250; number += 1) await part(gateway, "k", uploadId, number, `${number}`);
    armed = true;
    const acts = async (): Promise<void> => {
      await part(gateway, "k", uploadId, 3, "c");
      await complete(gateway, "k", uploadId, BOTH);
    };
    await Promise.race([acts().catch(() => undefined), gateway.killed]);
    assert.ok(gateway.isDead(), "the point is on the way");
    const next = await restart(gateway);
    await world.clock.advance(OBJECT_LIMITS.completeStaleMs);
    await complete(next, "k", uploadId, BOTH);
    assert.equal(await get(next, "k"), A + B);
    await quiesce(next);
    assert.equal(world.data.contents().length, 2);
    assert.deepEqual(await faults(next), []);
  });
}

test("[OGD2] property: any answer of any commit is lost: complete and abort repeated until they answer: one outcome, no leak", async () => {
  const fates = fc.array(fc.constantFrom<CommitFate>("answered", "applied", "lost", "late"), { maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(fates, fates, fc.boolean(), async (ofPart, ofEnd, aborts) => {
      const { world, gateway, uploadId } = await twoParts();
      world.metadata.nextFates(...ofPart);
      await part(gateway, "k", uploadId, 2, B).catch(() => undefined);
      world.metadata.nextFates(...ofEnd);
      const act = (): Promise<unknown> => (aborts ? abort(gateway, "k", uploadId) : complete(gateway, "k", uploadId, BOTH));
      let code = await codeOf(act());
      for (let at = 0; at < 5 && code !== "done" && code !== "UPLOAD_UNKNOWN"; at += 1) {
        await world.clock.advance(OBJECT_LIMITS.completeStaleMs);
        code = await codeOf(act());
      }
      world.metadata.nextFates();
      world.metadata.applyLate();
      await gateway.resolver.resolveNow();
      assert.equal(code, aborts && code === "UPLOAD_UNKNOWN" ? code : "done");
      assert.equal(await get(gateway, "k"), aborts ? undefined : A + B);
      await turns(3);
      await quiesce(await restart(gateway));
      assert.equal(world.data.contents().length, aborts ? 0 : 2);
    }),
    { numRuns: 120 },
  );
});

test("[OGD11] property: two gateways put, complete, abort at once in any interleaving: no leak, nothing dangles, an acknowledged complete is whole", async () => {
  const action = fc.constantFrom("part1", "part2", "complete", "complete1", "abort", "put", "collect");
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { minLength: 2, maxLength: 8 }),
      fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 60, maxLength: 60 }),
      async (actions, waits) => {
        const { world, gateway, other, uploadId } = await twoParts();
        let at = 0;
        world.metadata.before = async () => {
          const wait = waits[(at += 1) % waits.length]!;
          if (wait > 0) await turns(wait);
        };
        const run = async (what: string, index: number): Promise<unknown> => {
          const by = index % 2 === 0 ? gateway : other;
          if (what === "part1" || what === "part2")
            return await part(by, "k", uploadId, what === "part1" ? 1 : 2, what === "part1" ? A : B);
          if (what === "complete") return await complete(by, "k", uploadId, BOTH);
          if (what === "complete1") return await complete(by, "k", uploadId, BOTH.slice(0, 1));
          if (what === "abort") return await abort(by, "k", uploadId);
          if (what === "put") return await put(by, "k", bytes("put"));
          return await by.collector.runOnce();
        };
        const codes = await Promise.all(actions.map((what, index) => codeOf(run(what, index))));
        world.metadata.before = () => undefined;
        for (const code of codes) assert.ok(["done", "UPLOAD_UNKNOWN", "UPLOAD_STATE", "WRITE_CONFLICT"].includes(code), code);
        assert.deepEqual(await faults(gateway), []);
        const value = await get(gateway, "k");
        const ended = (what: string): boolean => actions.some((one, index) => one === what && codes[index] === "done");
        const possible = [
          ...(ended("complete") ? [A + B] : []),
          ...(ended("complete1") ? [A] : []),
          ...(ended("put") ? [bytes("put")] : []),
          ...(ended("complete") || ended("complete1") || ended("put") ? [] : [undefined]),
        ];
        assert.ok(possible.includes(value), `${value} of ${possible.join(", ")}`);
        assert.ok(!(ended("complete") && ended("complete1")), "one of two different completes");
        assert.ok(!(ended("abort") && (ended("complete") || ended("complete1"))), "abort or complete");
        await gateway.collector.runAhead(2 * 24 * 3600_000);
        assert.deepEqual(await faults(gateway), []);
      },
    ),
    { numRuns: 60 },
  );
});
