import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { approximateBytes, BoundedCache } from "./bounded-cache.ts";

const boxOf = (text: string): { readonly text: string } => ({ text });

test("bounded cache: entries: below and at the limit all stay, above it the oldest go, an eighth at once", () => {
  const cache = new BoundedCache<string, object>({ entriesMax: 16, bytesMax: 1_000 });
  for (let n = 1; n <= 16; n += 1) cache.set(`k${n}`, boxOf(""), 1);
  assert.deepEqual([cache.size, cache.bytes, cache.get("k1")], [16, 16, boxOf("")]);
  cache.set("k17", boxOf(""), 1);
  assert.deepEqual([cache.size, cache.bytes], [14, 14]);
  assert.deepEqual([cache.get("k3"), cache.get("k4"), cache.get("k17")], [undefined, boxOf(""), boxOf("")]);
});

test("bounded cache: bytes: at the limit all stay, one byte above it the oldest go; few entries may be all of it", () => {
  const cache = new BoundedCache<string, object>({ entriesMax: 1_000, bytesMax: 800 });
  for (const key of ["a", "b", "c", "d"]) cache.set(key, boxOf(key), 200);
  assert.deepEqual([cache.size, cache.bytes], [4, 800]);
  cache.set("e", boxOf("e"), 1);
  assert.deepEqual([cache.get("a"), cache.get("b"), cache.bytes], [undefined, boxOf("b"), 601]);
  cache.set("all", boxOf("all"), 800);
  assert.deepEqual([cache.size, cache.bytes, cache.get("all")], [1, 800, boxOf("all")]);
});

test("bounded cache: a value that is larger than the limit: not kept, and takes no other's space", () => {
  const cache = new BoundedCache<string, object>({ entriesMax: 10, bytesMax: 100 });
  cache.set("small", boxOf("small"), 100);
  cache.set("large", boxOf("large"), 101);
  assert.deepEqual([cache.get("small"), cache.get("large"), cache.bytes], [boxOf("small"), undefined, 100]);
  cache.set("small", boxOf("grown"), 101);
  assert.deepEqual([cache.get("small"), cache.size, cache.bytes], [undefined, 0, 0]);
});

test("bounded cache: set again, deleted: counted once, young again", () => {
  const cache = new BoundedCache<string, object>({ entriesMax: 2, bytesMax: 100 });
  for (const key of ["a", "b", "a", "c"]) cache.set(key, boxOf(key), 10);
  assert.deepEqual([cache.get("a"), cache.get("b"), cache.get("c"), cache.bytes], [boxOf("a"), undefined, boxOf("c"), 20]);
  cache.delete("a");
  cache.delete("b");
  assert.deepEqual([cache.size, cache.bytes], [1, 10]);
});

test("bounded cache: made: once while it is kept; nothing is kept of what throws", () => {
  const cache = new BoundedCache<string, { readonly text: string }>({ entriesMax: 2, bytesMax: 10_000 });
  let made = 0;
  const make = (): { readonly text: string } => {
    made += 1;
    return boxOf(`${made}`);
  };
  assert.deepEqual([cache.getOrMake("a", make), cache.getOrMake("a", make), made], [boxOf("1"), boxOf("1"), 1]);
  const fail = (): never => {
    throw new Error("no");
  };
  assert.throws(() => cache.getOrMake("b", fail), /no/);
  assert.equal(cache.size, 1);
});

const TREES: Readonly<Record<string, (n: number) => object>> = {
  "long strings": (n) => ({ policy: `${n}`.padEnd(60_000, "x") }),
  "long strings that are not Latin": (n) => ({ policy: `${n}`.padEnd(60_000, "\u{4e16}") }),
  "short strings": (n) => Array.from({ length: 2_000 }, (_, at) => `${n} and ${at}`),
  "small objects": (n) => Array.from({ length: 2_000 }, (_, at) => ({ kind: "bind", index: at, at: { offset: n, line: 1, column: at } })),
  "sets of bigints": (n) => new Set(Array.from({ length: 2_000 }, (_, at) => BigInt(n) * 10n ** 20n + BigInt(at))),
  "maps and bytes": (n) => new Map(Array.from({ length: 1_000 }, (_, at) => [`${n}.${at}`, new Uint8Array(at)])),
};

for (const [what, make] of Object.entries(TREES)) {
  test(`bounded cache: estimate: ${what}: at least what the heap holds, at most four times as much`, () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const used = (): number => {
      collect();
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      return heapUsed + arrayBuffers;
    };
    // Text of parsed documents is flat: a string that was put together would be built when it is first read.
    const flat = (tree: object): object => structuredClone(tree);
    make(0);
    const before = used();
    const kept = Array.from({ length: 50 }, (_, n) => flat(make(n)));
    const held = used() - before;
    const estimated = kept.reduce((bytes, tree) => bytes + approximateBytes(tree), 0);
    assert.ok(estimated >= held * 0.9 && estimated <= 4 * held, `estimated ${estimated}, held ${held}`);
  });
}
