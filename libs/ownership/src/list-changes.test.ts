import assert from "node:assert/strict";
import { test } from "node:test";
import { DETECTION_LIMITS } from "@concord/failure-detection";
import { foundingList, stepList, type RecordedList } from "./index.ts";

const founders = ["a", "b", "c"].map((name) => ({ name, address: `${name}:1`, datacenter: "" }));
const { members, ...rest } = foundingList(founders);
const LIST: RecordedList = {
  ...rest,
  version: 1,
  members: members.map((member) => (member.name === "c" ? { ...member, state: "leaving" } : member)),
};
const REMOVAL = { kind: "remove", name: "c" } as const;

/** One step of the removal of c, and the list that was written. */
async function step(
  options: {
    readonly works?: boolean;
    readonly hears?: readonly string[];
    readonly sinceReadMs?: number;
    readonly servesNothing: () => Promise<boolean>;
  },
  isWritten = true,
): Promise<readonly [string, RecordedList | undefined]> {
  let written: RecordedList | undefined;
  let current = LIST;
  const lists = {
    get current() {
      return current;
    },
    refresh: () => Promise.resolve(),
    sinceReadMs: options.sinceReadMs ?? Number.POSITIVE_INFINITY,
  };
  const write = (list: RecordedList, before: RecordedList): Promise<boolean> => {
    assert.equal(before, LIST);
    if (isWritten) current = written = list;
    return Promise.resolve(isWritten);
  };
  const owners = {
    works: options.works ?? true,
    hears: (name: string) => (options.hears ?? ["a", "b", "c"]).includes(name),
    member: (name: string) => LIST.members.find((member) => member.name === name),
  };
  const taken = await stepList(REMOVAL, { lists, write, owners, placesMax: 16, servesNothing: options.servesNothing });
  assert.equal(taken.list, current);
  return [taken.step.kind, written];
}

const noAnswer = (): Promise<boolean> => Promise.reject(new Error("no answer"));

test("[TX32] list step: one that leaves reports that it serves: waits; nothing: it is taken out", async () => {
  assert.deepEqual(await step({ servesNothing: () => Promise.resolve(false) }), ["wait", undefined]);
  const [kind, written] = await step({ servesNothing: () => Promise.resolve(true) });
  assert.deepEqual([kind, written?.members.map(({ name }) => name)], ["write", ["a", "b"]]);
});

test("[TX32] list step: one that leaves does not answer: taken out only once this member works and a majority has lost it", async () => {
  assert.deepEqual(await step({ servesNothing: noAnswer }), ["wait", undefined]);
  assert.deepEqual(await step({ servesNothing: noAnswer, works: false, hears: ["a", "b"] }), ["wait", undefined]);
  const [kind] = await step({ servesNothing: noAnswer, hears: ["a", "b"] });
  assert.equal(kind, "write");
});

test("[TX32] list step: one that is lost still reports that it serves: waits", async () => {
  assert.deepEqual(await step({ servesNothing: () => Promise.resolve(false), hears: ["a", "b"] }), ["wait", undefined]);
});

test("[TX32] list step: another member wrote the version first: waits", async () => {
  const [kind] = await step({ servesNothing: () => Promise.resolve(true) }, false);
  assert.equal(kind, "wait");
});

test("[TX32] list step: the version was read a moment ago: waits until all go by it or a newer one", async () => {
  const servesNothing = (): Promise<boolean> => Promise.resolve(true);
  assert.deepEqual(await step({ servesNothing, sinceReadMs: DETECTION_LIMITS.nextListAfterMs - 1 }), ["wait", undefined]);
  assert.equal((await step({ servesNothing, sinceReadMs: DETECTION_LIMITS.nextListAfterMs }))[0], "write");
});
