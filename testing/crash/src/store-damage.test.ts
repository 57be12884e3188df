// Damage of the files of a store, few trials per kind; `node testing/crash/src/damage.ts --per-kind 200` makes many.
import assert from "node:assert/strict";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openLevel } from "@concord/adapter-level";
import { nodeDescriptors } from "@concord/adapter-node-runtime";
import { DamageTrials, FOLDER, keyOf, KINDS, open, valueOf } from "./store-damage.ts";

const TRIALS = 2;
const root = await mkdtemp(join(tmpdir(), "concord-damage-"));
const trials = await DamageTrials.make();
after(async () => {
  await trials.remove();
  await rm(root, { recursive: true });
});

for (const kind of KINDS) {
  test(`[TX27] a ${kind.kind} is damaged: opening refuses, or says what may be gone, or everything acknowledged is there`, async () => {
    for (const journal of ["holds rows", "trimmed"] as const) {
      for (const harm of ["bit flip", "lost block"] as const) {
        assert.equal((await trials.run(kind, journal, harm, TRIALS)).unreported, 0, `${harm}, the journal ${journal}`);
      }
    }
  });
}

test("a folder of a program without a journal: every row is there, also when the first opening was interrupted", async () => {
  const old = join(root, "old");
  const rows = 500;
  const level = await openLevel(join(old, FOLDER), nodeDescriptors());
  await level.batch(Array.from({ length: rows }, (_, n) => ({ kind: "put", key: keyOf(n), value: valueOf(n) })));
  await level.flush();
  await level.close();
  for (const point of ["store:migrating", undefined]) {
    const copy = join(root, `old-${point}`);
    await cp(old, copy, { recursive: true });
    const stop = (name: string): void => {
      if (name === point) throw new Error(`killed at ${name}`);
    };
    await open(copy, stop).then(
      (store) => store.close(),
      (thrown: unknown) => assert.match(String(thrown), /killed at/),
    );
    const store = await open(copy);
    assert.equal((await store.range({ from: keyOf(0), to: keyOf(999_999), limit: 10_000 })).length, rows, point);
    assert.deepEqual(Buffer.from((await store.get(keyOf(7)))!), Buffer.from(valueOf(7)));
    await store.batch([{ kind: "delete", key: keyOf(7) }], { sync: true });
    await store.close();
    const again = await open(copy);
    assert.equal(await again.get(keyOf(7)), undefined);
    await again.close();
  }
});
