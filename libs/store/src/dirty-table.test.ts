import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { KeyValueOperation } from "@concord/ports";
import { DirtyTable } from "./dirty-table.ts";
import { DirtyEntry, valueOf } from "./dirty-entry.ts";

const keyOf = (n: number): Uint8Array => new TextEncoder().encode(String(n).padStart(3, "0"));
const write = (n: number, value: number | undefined): KeyValueOperation =>
  value === undefined ? { kind: "delete", key: keyOf(n) } : { kind: "put", key: keyOf(n), value: Uint8Array.of(value) };

test("property: writes, freezes and releases: each key and range has the newest write that was not released", () => {
  const action = fc.oneof(
    { weight: 8, arbitrary: fc.record({ n: fc.nat(40), value: fc.option(fc.nat(255), { nil: undefined }) }) },
    { weight: 1, arbitrary: fc.constant("checkpoint" as const) },
  );
  fc.assert(
    fc.property(
      fc.array(action, { maxLength: 120, size: "max" }),
      fc.nat(40),
      fc.nat(40),
      fc.integer({ min: 1, max: 50 }),
      (actions, from, to, limit) => {
        const table = new DirtyTable();
        let [current, frozen] = [new Map<number, number | undefined>(), new Map<number, number | undefined>()];
        let isFrozen = false;
        for (const each of actions) {
          if (each !== "checkpoint") {
            table.put(new DirtyEntry(write(each.n, each.value)));
            current.set(each.n, each.value);
          } else if (isFrozen) {
            table.release();
            [isFrozen, frozen] = [false, new Map()];
          } else {
            assert.equal(table.freeze().length, current.size);
            [isFrozen, frozen, current] = [true, current, new Map()];
          }
        }
        const expected = [...new Map([...frozen, ...current])].sort(([left], [right]) => left - right);
        for (const [n, value] of expected) assert.deepEqual(valueOf(table.get(keyOf(n))!)?.[0], value);
        assert.equal(table.size, current.size + frozen.size);
        const within = expected.filter(([n]) => n >= from && n < to);
        for (const reverse of [false, true]) {
          const { entries, isCut } = table.within({ from: keyOf(from), to: keyOf(to), limit, reverse });
          const found = entries.map((entry) => [Number(new TextDecoder().decode(entry.key)), valueOf(entry)?.[0]]);
          const ordered = reverse ? within.toReversed() : within;
          assert.deepEqual(found, ordered.slice(0, found.length));
          if (!isCut) assert.equal(found.length, ordered.length);
          else assert.equal(found.filter(([, value]) => value !== undefined).length, limit);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("base: what lies below is known from the frozen entry once that has an image; a table without the key says so", () => {
  const table = new DirtyTable();
  const entryOf = (value: number): DirtyEntry => new DirtyEntry(write(1, value));
  const [first, second, third] = [entryOf(1), entryOf(2), entryOf(3)];
  assert.equal(table.put(first), true);
  table.freeze();
  assert.deepEqual([table.put(second), second.base], [false, first]);
  table.release();
  assert.deepEqual([table.put(third), third.base], [false, first]);
  assert.equal(table.get(keyOf(1)), third);
});
