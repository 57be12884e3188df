import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { RotatingMap } from "./rotating-map.ts";

interface Box {
  readonly value: number;
}

test("rotating map: thousands come and go: what it answers is what a Map answers, in its order", () => {
  const [map, expected] = [new RotatingMap<string, Box>(), new Map<string, Box>()];
  let state = 7;
  const draw = (below: number): number => (state = (state * 48_271) % 2_147_483_647) % below;
  for (let step = 0; step < 20_000; step += 1) {
    // Now many keys, now few.
    const key = `key ${draw(step % 4_000 < 2_000 ? 3_000 : 30)}`;
    if (draw(5) < 3) {
      const box = { value: step };
      map.set(key, box);
      expected.set(key, box);
    } else {
      assert.equal(map.delete(key), expected.delete(key));
    }
    const asked = `key ${draw(3_000)}`;
    assert.equal(map.get(asked), expected.get(asked));
    assert.equal(map.has(asked), expected.has(asked));
    assert.equal(map.size, expected.size);
    if (step % 500 === 0) assert.deepEqual([...map], [...expected]);
  }
  assert.deepEqual([...map.keys()], [...expected.keys()]);
  assert.deepEqual([...map.values()], [...expected.values()]);
  map.clear();
  assert.deepEqual([map.size, [...map]], [0, []]);
});

test("rotating map: entries are deleted while it is iterated over: each is seen once", () => {
  const map = new RotatingMap<number, Box>();
  for (let key = 0; key < 1_000; key += 1) map.set(key, { value: key });
  const seen: number[] = [];
  for (const [key, { value }] of map) {
    seen.push(value);
    map.delete(key);
  }
  assert.deepEqual([map.size, seen], [0, Array.from({ length: 1_000 }, (_, at) => at)]);
});

test("rotating map: what was deleted is collected with the young, whatever became of the map's first tables", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { readonly type: "minor" }) => void;
  const collectYoung = (): void => collect({ type: "minor" });
  const map = new RotatingMap<number, Box>();
  const deleted: WeakRef<Box>[] = [];
  for (let key = 0; key < 20_000; key += 1) {
    const box = { value: key };
    if (key % 10 === 0) deleted.push(new WeakRef(box));
    map.set(key, box);
    map.delete(key - 64);
    if (key % 500 !== 499) continue;
    // A weak reference keeps its box until the turn ends.
    await new Promise(setImmediate);
    collectYoung();
  }
  for (const key of map.keys()) map.delete(key);
  await new Promise(setImmediate);
  collectYoung();
  collectYoung();
  const kept = deleted.filter((box) => box.deref() !== undefined).length;
  // A Map keeps nearly all of them.
  assert.ok(kept < deleted.length / 20, `${kept} of ${deleted.length} were kept`);
});
