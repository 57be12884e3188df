import assert from "node:assert/strict";
import { test } from "node:test";
import { faultsOf } from "./start-checks.ts";

const GOOD: Readonly<Record<string, string>> = {
  paxos_variant: "v2",
  commitlog_sync: "group",
  cas_contention_timeout: "1s",
  max_mutation_size: "4096KiB",
  max_hint_window: "3h",
};

const faults = (change: Readonly<Record<string, string | undefined>> = {}, version = "5.0.9"): readonly string[] => {
  const settings = Object.entries({ ...GOOD, ...change }).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return faultsOf(version, new Map(settings));
};

test("[TXC3] start check: a node as it must be: nothing", () => {
  assert.deepEqual(faults(), []);
  assert.deepEqual(faults({ commitlog_sync: "batch", cas_contention_timeout: "1800ms" }, "4.1.6"), []);
  assert.deepEqual(faults({ max_mutation_size: undefined, commitlog_segment_size: "32MiB" }), []);
});

const WRONG: readonly (readonly [string, string | undefined])[] = [
  ["paxos_variant", "v1"],
  ["paxos_variant", "v2_without_linearizable_reads"],
  ["paxos_variant", undefined],
  ["commitlog_sync", "periodic"],
  ["cas_contention_timeout", "999ms"],
  ["cas_contention_timeout", "soon"],
  ["max_mutation_size", "3072KiB"],
  ["max_hint_window", "10d"],
];

for (const [name, value] of WRONG) {
  test(`[TXC3] start check: ${name} is ${value ?? "missing"}: refused by its name`, () => {
    const found = faults({ [name]: value });
    assert.equal(found.length, 1);
    assert.ok(found[0]!.startsWith(name), found[0]);
  });
}

for (const version of ["4.0.12", "4.1.5", "3.11.16", "6.0.0", "unknown"]) {
  test(`[TXC3] start check: version ${version}: refused`, () => assert.match(faults({}, version).join(), /^version/));
}
