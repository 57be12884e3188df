import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { assignable, byPlace, foundingList, nextListStep, type ListChange, type ListFacts, type RecordedList } from "./index.ts";

const node = (name: string): { name: string; address: string; datacenter: string } => ({
  name,
  address: `${name}:1`,
  datacenter: `d-${name}`,
});
const THREE = foundingList(["a", "b", "c"].map(node));
const ALL_WORK: ListFacts = { sinceWrittenMs: 100, nextListAfterMs: 100, placesMax: 5, works: () => true, servesNothing: true };
const add = (name: string): ListChange => ({ kind: "add", ...node(name) });
const remove = (name: string): ListChange => ({ kind: "remove", name });
const states = ({ members }: RecordedList): string => members.map(({ name, place, state }) => `${name}${place}:${state}`).join(" ");

function written(list: RecordedList, change: ListChange, facts: Partial<ListFacts> = {}): RecordedList {
  const step = nextListStep(list, change, { ...ALL_WORK, ...facts });
  assert.equal(step.kind, "write", JSON.stringify(step));
  return (step as { list: RecordedList }).list;
}

function says(list: RecordedList, change: ListChange, facts: Partial<ListFacts> = {}): string {
  const step = nextListStep(list, change, { ...ALL_WORK, ...facts });
  return "reason" in step ? `${step.kind}: ${step.reason}` : step.kind;
}

test("[TX32] list: a fourth is added: it arrives, and is a member once it works; then there is nothing to do", () => {
  const works = (name: string): boolean => name !== "d";
  const arriving = written(THREE, add("d"), { works, sinceWrittenMs: Number.POSITIVE_INFINITY });
  assert.deepEqual([arriving.version, states(arriving)], [1, "a0:member b1:member c2:member d3:arriving"]);
  assert.deepEqual(arriving.founders, ["a", "b", "c"]);
  assert.deepEqual(
    assignable(arriving).map(({ name }) => name),
    ["a", "b", "c"],
  );
  assert.match(says(arriving, add("d"), { works }), /^wait: d is in the list, but does not work yet: start it at d:1$/);
  const member = written(arriving, add("d"));
  assert.deepEqual([member.version, states(member)], [2, "a0:member b1:member c2:member d3:member"]);
  assert.equal(says(member, add("d")), "done");
});

test("[TX32] list: one is removed: it leaves, stays while it serves, and its place is free for the next", () => {
  const leaving = written(THREE, remove("b"));
  assert.deepEqual([leaving.version, states(leaving)], [1, "a0:member b1:leaving c2:member"]);
  assert.match(says(leaving, remove("b"), { servesNothing: false }), /^wait: b still hands over what it serves$/);
  const without = written(leaving, remove("b"));
  assert.deepEqual([without.version, states(without)], [2, "a0:member c2:member"]);
  assert.deepEqual(
    byPlace(without).map((member) => member?.name),
    ["a", undefined, "c"],
  );
  assert.equal(says(without, remove("b")), "done");
  assert.equal(states(written(without, add("d"))), "a0:member d1:arriving c2:member");
});

test("[TX32] list: one that arrives and never works: it is removed at once", () => {
  const works = (name: string): boolean => name !== "d";
  const arriving = written(THREE, add("d"), { works });
  assert.equal(states(written(arriving, remove("d"), { works })), "a0:member b1:member c2:member");
});

const refusals: readonly (readonly [what: string, list: RecordedList, change: ListChange, facts: Partial<ListFacts>, reason: RegExp])[] = [
  ["a name at another address", THREE, { ...add("b"), address: "x:1" } as ListChange, {}, /b is in the list already, at b:1 in d-b/],
  ["an address of another", THREE, { ...add("d"), address: "b:1" } as ListChange, {}, /b is at b:1 already/],
  ["one that leaves", written(THREE, remove("b")), add("b"), {}, /finish that first/],
  ["too many", THREE, add("d"), { placesMax: 3 }, /3 already/],
  ["the last one", foundingList([node("a")]), remove("a"), {}, /the only one/],
  ["no majority with it", THREE, add("d"), { works: (name) => name < "c" }, /^refused: 2 of the 4 work then, and 3 must/],
  [
    "no majority without it",
    written(THREE, remove("b")),
    remove("b"),
    { works: (name) => name === "a" },
    /1 of the 2 work then, and 2 must/,
  ],
];

for (const [what, list, change, facts, reason] of refusals) {
  test(`[TX32] [OPS20] list: ${what}: refused`, () => {
    const said = says(list, change, facts);
    assert.match(said, /^refused: /);
    assert.match(said, reason);
  });
}

test("[TX32] list: the version before is too new: the change waits (I9)", () => {
  for (const change of [add("d"), remove("b")])
    assert.match(says(THREE, change, { sinceWrittenMs: 99 }), /^wait: version 0 of the list is too new/);
});

test("[TX32] list: any course of changes: versions differ by one member, places are kept, someone may always serve (I9, I10)", () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  const steps = fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...names), fc.subarray(names), fc.boolean()), {
    maxLength: 40,
    size: "max",
  });
  fc.assert(
    fc.property(steps, (all) => {
      let list = THREE;
      for (const [isAddition, name, working, servesNothing] of all) {
        const facts = { ...ALL_WORK, works: (one: string) => working.includes(one), servesNothing };
        const step = nextListStep(list, isAddition ? add(name) : remove(name), facts);
        if (step.kind !== "write") continue;
        const [before, after] = [new Map(list.members.map((one) => [one.name, one])), step.list];
        assert.equal(after.version, list.version + 1);
        const changed = [...new Set([...before.keys(), ...after.members.map((one) => one.name)])].filter((one) => {
          const found = after.members.find((member) => member.name === one);
          return before.get(one)?.state !== found?.state;
        });
        assert.deepEqual(changed, [name]);
        for (const member of after.members) assert.equal(member.place, before.get(member.name)?.place ?? member.place);
        assert.equal(new Set(after.members.map(({ place }) => place)).size, after.members.length);
        assert.ok(assignable(after).length > 0);
        list = after;
      }
    }),
  );
});
