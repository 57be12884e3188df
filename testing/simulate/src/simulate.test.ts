// The simulator's own promises on the real services: one seed of each scenario twice, and seeded faults that still fit the code. The
// long runs are `npm run simulate`.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { staleReason } from "./seeded-faults.ts";
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
    const seen = ["log", "repair", "detection"].includes(scenario) ? [" history "] : [" msg ", " disk ", " fault "];
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
