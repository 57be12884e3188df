// What rules say of versions and uploads: rules x version x time, one row each.
import assert from "node:assert/strict";
import { test } from "node:test";
import { abortOf, expiryOf, type JudgedVersion, type LifecycleRule } from "./rules.ts";

const DAY = 86_400_000;
/** Midnight of day 10, and some hours into it. */
const TEN = 10 * DAY;
const NOON = TEN + DAY / 2;

const rule = (more: Partial<LifecycleRule>): LifecycleRule => ({ id: "r", isEnabled: true, form: "filter", tags: {}, ...more });
const days = (count: number): Partial<LifecycleRule> => ({ expiration: { kind: "days", days: count } });
const MARKERS = { expiration: { kind: "markers" } } as const;
const object = { sizeBytes: 5, tags: { a: "1", b: "2" } };
const current: JudgedVersion = { key: "logs/x", modifiedMs: NOON, object, place: { kind: "current", isOnly: false } };
const marker = (isOnly: boolean): JudgedVersion => ({ ...current, object: undefined, place: { kind: "current", isOnly } });
const older = (newer: number, sinceMs = NOON): JudgedVersion => ({
  ...current,
  modifiedMs: 1,
  place: { kind: "non-current", sinceMs, newer },
});

const TABLE: readonly (readonly [name: string, rules: readonly LifecycleRule[], version: JudgedVersion, dueMs: number | undefined])[] = [
  ["a day from noon: the midnight after it", [rule(days(1))], current, 12 * DAY],
  ["a day from midnight: the next midnight", [rule(days(1))], { ...current, modifiedMs: TEN }, 11 * DAY],
  ["a date", [rule({ expiration: { kind: "date", dateMs: 3 * DAY } })], current, 3 * DAY],
  ["a rule that is off", [rule({ ...days(1), isEnabled: false })], current, undefined],
  ["two rules: the earlier", [rule(days(9)), rule(days(2))], current, 13 * DAY],
  ["its prefix", [rule({ ...days(1), prefix: "logs/" })], current, 12 * DAY],
  ["another prefix", [rule({ ...days(1), prefix: "logs/y" })], current, undefined],
  ["its tags", [rule({ ...days(1), tags: { a: "1", b: "2" } })], current, 12 * DAY],
  ["a tag with another value", [rule({ ...days(1), tags: { a: "2" } })], current, undefined],
  ["a tag that it has not", [rule({ ...days(1), tags: { c: "1" } })], current, undefined],
  ["a tag by the name of what every object has", [rule({ ...days(1), tags: { constructor: "1" } })], current, undefined],
  ["larger than its size", [rule({ ...days(1), sizeAboveBytes: 4 })], current, 12 * DAY],
  ["not larger", [rule({ ...days(1), sizeAboveBytes: 5 })], current, undefined],
  ["smaller", [rule({ ...days(1), sizeBelowBytes: 6 })], current, 12 * DAY],
  ["not smaller", [rule({ ...days(1), sizeBelowBytes: 5 })], current, undefined],
  ["days, of a delete marker with versions behind it", [rule(days(1))], marker(false), undefined],
  ["days, of a delete marker alone", [rule(days(1))], marker(true), 12 * DAY],
  ["markers, of one with versions behind it", [rule(MARKERS)], marker(false), undefined],
  ["markers, of one alone: at once", [rule(MARKERS)], marker(true), NOON],
  ["markers, of an object", [rule(MARKERS)], current, undefined],
  ["size, of a delete marker", [rule({ ...days(1), sizeAboveBytes: 0 })], marker(true), undefined],
  ["tags, of a delete marker", [rule({ ...days(1), tags: { a: "1" } })], marker(true), undefined],
  ["days, of an earlier version", [rule(days(1))], older(0), undefined],
  ["earlier versions: from when they became so", [rule({ nonCurrent: { days: 2 } })], older(0), 13 * DAY],
  ["earlier versions, of the current one", [rule({ nonCurrent: { days: 2 } })], current, undefined],
  ["fewer are newer than are kept", [rule({ nonCurrent: { days: 2, newerKept: 2 } })], older(1), undefined],
  ["as many are newer as are kept", [rule({ nonCurrent: { days: 2, newerKept: 2 } })], older(2), 13 * DAY],
  ["an earlier delete marker", [rule({ nonCurrent: { days: 2 } })], { ...older(0), object: undefined }, 13 * DAY],
];

for (const [name, rules, version, dueMs] of TABLE) {
  test(`lifecycle rules: ${name}: due ${dueMs === undefined ? "never" : `at day ${dueMs / DAY}`}`, () => {
    assert.equal(expiryOf(rules, version, DAY)?.dueMs, dueMs);
  });
}

test("lifecycle rules: uploads: by prefix and age", () => {
  const upload = { key: "logs/x", initiatedMs: NOON };
  assert.equal(abortOf([rule({ abortDays: 1 })], upload, DAY)?.dueMs, 12 * DAY);
  assert.equal(abortOf([rule({ abortDays: 1, prefix: "other" })], upload, DAY), undefined);
  assert.equal(abortOf([rule(days(1))], upload, DAY), undefined);
});
