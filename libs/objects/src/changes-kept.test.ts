// Each way to change an object, its gateway dying at each point of it: before or after, never between; blobs are exactly what rows name.
import type { Oid } from "@concord/ports";
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeRow, referencesOf } from "./row-codec.ts";
import {
  bytes,
  faults,
  get,
  openGateway,
  openWorld,
  put,
  quiesce,
  remove,
  restart,
  turns,
  type Gateway,
  type World,
} from "./test/gateway.ts";

/** In the head row, beside it, and in a blob. */
const SIZES: Readonly<Record<string, (name: string) => string>> = {
  "in its row": (name) => name.slice(0, 2),
  "beside its row": (name) => name.slice(0, 2).padEnd(8, "-"),
  "in a blob": bytes,
};

interface Change {
  readonly isThereBefore: boolean;
  readonly steps: readonly ("put" | "delete")[];
}

const CHANGES: Readonly<Record<string, Change>> = {
  insert: { isThereBefore: false, steps: ["put"] },
  update: { isThereBefore: true, steps: ["put"] },
  delete: { isThereBefore: true, steps: ["delete"] },
  "delete and insert": { isThereBefore: true, steps: ["delete", "put"] },
};

/** Gateways that go on after the death: the same one, or another of another name. */
const NEXT: Readonly<Record<string, (dead: Gateway) => Promise<Gateway>>> = {
  "begins anew": (dead) => restart(dead),
  "is replaced by another": async (dead) => {
    await turns();
    return openGateway(dead.world, { instance: "two" });
  },
};

/** Blobs that both a living row and a GC entry name. */
function liveGarbage(world: World): readonly Oid[] {
  const rows = world.metadata.contents("photos/0").map(({ value }) => decodeRow(value));
  const named = (isGarbage: boolean): Oid[] =>
    rows.filter(({ kind }) => (kind === "garbage") === isGarbage).flatMap((row) => referencesOf(row).oids);
  const live = new Set(named(false));
  return named(true).filter((oid) => live.has(oid));
}

for (const [what, { isThereBefore, steps }] of Object.entries(CHANGES)) {
  for (const [where, contentOf] of Object.entries(SIZES)) {
    for (const [how, nextOf] of Object.entries(NEXT)) {
      test(`[OG4] [OG18] [OGD1] [OGD4] ${what} of an object ${where}: its gateway dies at each point and ${how}: old or new, what was answered stays, nothing leaks or dangles`, async () => {
        let isOver = false;
        let points = 0;
        for (let point = 1; !isOver; point += 1) {
          assert.ok(point < 100, "there are few points");
          const { world, gateway } = await openWorld();
          await put(gateway, "kept", contentOf("kept"));
          if (isThereBefore) await put(gateway, "k", contentOf("old"));
          let left = Number.POSITIVE_INFINITY;
          const failpoint = (_: string, { die }: { readonly die: () => never }): void => void ((left -= 1) === 0 && die());
          const dying = await restart(gateway, { failpoint });
          left = point;
          // Before each call of a store too.
          const call = (): void => {
            if ((left -= 1) === 0) dying.kill();
          };
          world.metadata.before = call;
          world.data.before = call;
          // States that a reader may find: of before, and after each step from the last answered one on.
          let possible = [isThereBefore ? contentOf("old") : undefined];
          const act = async (): Promise<void> => {
            for (const step of steps) {
              possible.push(step === "put" ? contentOf("new") : undefined);
              await (step === "put" ? put(dying, "k", contentOf("new")) : remove(dying, "k"));
              possible = possible.slice(-1);
            }
          };
          await Promise.race([act().catch(() => undefined), dying.killed]);
          isOver = !dying.isDead();
          left = Number.POSITIVE_INFINITY;
          if (isOver) dying.kill();
          const next = await nextOf(dying);
          await next.recovery.recoverAll();
          assert.deepEqual(liveGarbage(world), [], `point ${point}: recovery condemned what a row names`);
          await quiesce(next);
          const found = await get(next, "k");
          assert.ok(possible.includes(found), `point ${point}: ${found}, of ${possible.join()}`);
          assert.equal(await get(next, "kept"), contentOf("kept"));
          assert.deepEqual(await faults(next), [], `point ${point}`);
          for (const step of steps) await (step === "put" ? put(next, "k", contentOf("new")) : remove(next, "k"));
          await quiesce(next);
          assert.equal(await get(next, "k"), steps.at(-1) === "put" ? contentOf("new") : undefined);
          assert.deepEqual(await faults(next), [], `point ${point}, repeated`);
          const blobs = (where === "in a blob" ? 1 : 0) * (steps.at(-1) === "put" ? 2 : 1);
          assert.equal(world.data.contents().length, blobs, `point ${point}`);
          points = point;
        }
        assert.ok(points > 2, `it died at ${points} points`);
      });
    }
  }
}
