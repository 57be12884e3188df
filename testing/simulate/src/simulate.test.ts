// The simulator's own promises on the real services: one seed of each scenario twice, and seeded faults that still fit the code. The
// long runs are `npm run simulate`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { FAULT_SEEDS_MAX, SEEDS_BESIDE_KNOWN, seedsToTry, staleReason } from "./seeded-faults.ts";
import { SEEDED_FAULTS } from "./faults/faults.ts";
import { runSeed, SCENARIO_NAMES } from "./run-seed.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SEED = 4;

for (const scenario of SCENARIO_NAMES) {
  test(`simulate: ${scenario}, one seed twice: no violation, byte-equal traces`, async () => {
    const first = await runSeed(scenario, SEED, { keepTrace: true });
    const second = await runSeed(scenario, SEED, { keepTrace: false });
    assert.deepEqual(first.report.violations, []);
    assert.ok(first.report.outcomes.ok > 5, JSON.stringify(first.report.outcomes));
    const seen = ["log", "repair", "detection", "histories"].includes(scenario) ? [" history "] : [" msg ", " disk ", " fault "];
    for (const kind of seen) assert.ok(first.trace.includes(kind), kind);
    assert.equal(first.report.digest, second.report.digest);
  });
}

for (const fault of SEEDED_FAULTS) {
  test(`seeded faults: ${fault.name}: its patch still fits the code`, () => {
    assert.ok(SCENARIO_NAMES.includes(fault.scenario));
    for (const { file, search } of fault.edits) assert.equal(staleReason(join(ROOT, file), file, search), undefined);
  });
}

test("seeded faults: a known seed is tried first, then a few others; none known: all", () => {
  const seeds = seedsToTry(7);
  assert.deepEqual(seeds.slice(0, 3), [7, 1, 2]);
  assert.equal(new Set(seeds).size, 1 + SEEDS_BESIDE_KNOWN);
  assert.equal(new Set(seedsToTry(undefined)).size, FAULT_SEEDS_MAX);
});

for (const [args, says] of [
  [["--seeds", "0"], /--seeds takes a whole number above 0/],
  [["--scenario", "none"], /no scenario is called none/],
  [["txn"], /only --seeded-faults takes names/],
  [["--known-first"], /go with --seeded-faults/],
] as const) {
  test(`command line: ${args.join(" ")}: says what is wrong, exit code 2, nothing runs`, () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "simulate.ts"), ...args], {
      encoding: "utf8",
    });
    assert.equal(status, 2);
    assert.match(stderr, says);
    assert.equal(stdout, "");
  });
}

test("command line: --help: every option, exit code 0", () => {
  const { status, stdout } = spawnSync(process.execPath, [join(import.meta.dirname, "simulate.ts"), "--help"], { encoding: "utf8" });
  assert.equal(status, 0);
  for (const option of ["seeds", "first", "scenario", "workers", "coverage", "replay", "trace", "seeded-faults", "known-first", "record"])
    assert.match(stdout, new RegExp(`--${option} `));
});
