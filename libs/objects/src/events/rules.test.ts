import assert from "node:assert/strict";
import { test } from "node:test";
import { approximateBytes } from "@concord/runtime";
import { EVENT_RULES_CACHED } from "./limits.ts";
import { eventRulesOf, type EventRule } from "./rules.ts";

const textOf = (n: number): string => {
  const rules = Array.from({ length: 100 }, (_, at): EventRule => ({
    id: `${n}.${at}`,
    kind: "queue",
    arn: "arn",
    target: "q",
    events: ["ObjectCreated:*"],
  }));
  return JSON.stringify(rules);
};

test("event rules: parsed rules are kept up to a limit of bytes: the oldest go, the newest stay", () => {
  const each = approximateBytes(textOf(1_000)) + approximateBytes(JSON.parse(textOf(1_000)));
  const fitting = Math.floor(EVENT_RULES_CACHED.bytesMax / each);
  assert.ok(fitting > 10 && fitting < EVENT_RULES_CACHED.entriesMax / 2, `${fitting} buckets' rules of ${each} bytes`);
  const first = eventRulesOf(textOf(1_000));
  for (let n = 1; n < fitting; n += 1) eventRulesOf(textOf(1_000 + n));
  assert.equal(eventRulesOf(textOf(1_000)), first, "all that fit are kept");
  const last = eventRulesOf(textOf(1_000 + fitting));
  assert.notEqual(eventRulesOf(textOf(1_000)), first, "the oldest made space");
  assert.equal(eventRulesOf(textOf(1_000 + fitting)), last);
});
