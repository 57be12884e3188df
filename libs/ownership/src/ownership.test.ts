import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { place, servingMember, type Member, type Placement, type View } from "./index.ts";

const RANKS = 3;
const members = fc
  .uniqueArray(fc.record({ name: fc.stringMatching(/^[a-z]{1,4}$/), datacenter: fc.constantFrom("d1", "d2", "d3", "d4") }), {
    minLength: 1,
    maxLength: 12,
    selector: ({ name }) => name,
  })
  .map((list): readonly Member[] => list);
const units = fc.nat(60).map((count) => Array.from({ length: count }, (_, at) => `g${at}`));

const owned = (placement: Placement, name: string): number => [...placement.values()].filter((ranks) => ranks[0] === name).length;
const view = (placement: Placement, list: readonly Member[]): View => ({ version: 1n, members: list, placement });

test("[TX16] placement: any members and units: one owner each, balanced to one unit, the same in any order of the members (I1, I2)", () => {
  fc.assert(
    fc.property(members, units, fc.infiniteStream(fc.float({ noNaN: true })), (list, all, keys) => {
      const placement = place(all, list, { ranks: RANKS });
      assert.deepEqual([...placement.keys()], all);
      for (const ranks of placement.values()) {
        assert.equal(ranks.length, Math.min(RANKS, list.length));
        assert.equal(new Set(ranks).size, ranks.length);
      }
      const loads = list.map(({ name }) => owned(placement, name));
      assert.ok(Math.max(...loads) - Math.min(...loads) <= 1);
      const shuffled = list.map((one) => [keys.next().value!, one] as const).sort(([a], [b]) => a - b);
      assert.deepEqual(
        place(
          all,
          shuffled.map(([, one]) => one),
          { ranks: RANKS },
        ),
        placement,
      );
    }),
  );
});

test("[TX16] placement: datacenters: the first standby in another than the owner, the second in a third, when there are so many (I3)", () => {
  fc.assert(
    fc.property(members, units, (list, all) => {
      const datacenterOf = new Map(list.map(({ name, datacenter }) => [name, datacenter]));
      const distinct = Math.min(RANKS, new Set(datacenterOf.values()).size);
      for (const ranks of place(all, list, { ranks: RANKS }).values()) {
        assert.equal(new Set(ranks.slice(0, distinct).map((name) => datacenterOf.get(name))).size, distinct);
      }
    }),
  );
});

test("[TX32] placement: a member added or removed: only as many units move as balance needs (I4)", () => {
  fc.assert(
    fc.property(members, members, units, (first, second, all) => {
      const before = place(all, first, { ranks: RANKS });
      const after = place(all, second, { ranks: RANKS, before });
      const moved = all.filter((unit) => before.get(unit)![0] !== after.get(unit)![0]).length;
      const kept = second.map(({ name }) => owned(before, name)).sort((a, b) => b - a);
      const [share, extra] = [Math.floor(all.length / second.length), all.length % second.length];
      const stay = kept.reduce((sum, load, at) => sum + Math.min(load, share + (at < extra ? 1 : 0)), 0);
      assert.equal(moved, all.length - stay);
      assert.deepEqual(place(all, second, { ranks: RANKS, before: after }), after, "nothing moves twice");
    }),
  );
});

test("[TX16] placement together: one owner for all, the one that had most before; one order of standbys, in other datacenters", () => {
  fc.assert(
    fc.property(members, members, units, (first, second, all) => {
      const before = place(all, first, { ranks: RANKS, owners: "together" });
      assert.equal(new Set([...before.values()].map((ranks) => ranks.join())).size, Math.min(1, all.length));
      const datacenterOf = new Map(first.map(({ name, datacenter }) => [name, datacenter]));
      const distinct = Math.min(RANKS, new Set(datacenterOf.values()).size);
      for (const ranks of before.values())
        assert.equal(new Set(ranks.slice(0, distinct).map((name) => datacenterOf.get(name))).size, distinct);
      const after = place(all, second, { ranks: RANKS, before, owners: "together" });
      for (const [unit, [owner]] of after) {
        const kept = before.get(unit)![0]!;
        if (second.some(({ name }) => name === kept)) assert.equal(owner, kept);
      }
    }),
  );
});

test("[TX17] duty: any failures: exactly one member serves a unit, the first of its ranks that has not failed", () => {
  fc.assert(
    fc.property(members, units, fc.func(fc.boolean()), (list, all, failed) => {
      const now = view(place(all, list, { ranks: RANKS }), list);
      for (const [unit, ranks] of now.placement) {
        assert.equal(servingMember(now, unit, failed), ranks.find((name) => !failed(name)) ?? ranks.at(-1));
      }
    }),
  );
});

test("[TX17] duty: master, first and second standby fail one after the other: each next one serves, the first again when it is back", () => {
  const list = [
    { name: "a", datacenter: "d1" },
    { name: "b", datacenter: "d2" },
    { name: "c", datacenter: "d3" },
  ];
  const now = view(new Map([["g0", ["a", "b", "c"]]]), list);
  const serving = (...failed: string[]): string => servingMember(now, "g0", (name) => failed.includes(name));
  assert.deepEqual([serving(), serving("a"), serving("a", "b"), serving("b"), serving("a", "c")], ["a", "b", "c", "a", "b"]);
});
