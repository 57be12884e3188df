import assert from "node:assert/strict";
import { test } from "node:test";
import { phasesText, resolutions } from "./groups-without-master.ts";
import type { SentCommit } from "./list-load.ts";

test("resolutions: each unanswered commit is counted once; one still under way is unresolved", () => {
  const results: readonly SentCommit["result"][] = ["committed", "not applied", "unknown", "committed", "under way"];
  const unanswered = results.map((result) => ({ group: "g", sentAt: 0, result }));
  assert.equal(resolutions(unanswered), "5 commits unanswered: 2 found committed, 1 not applied and run again, 2 unresolved");
});

test("phases of a loss: the first and last group served, and of the slowest group all", () => {
  const groups = [
    { group: "g1", servedMs: 144.2, firstCommitMs: 160, wasUnanswered: false },
    { group: "g2", servedMs: 152.1, firstCommitMs: 189.9, wasUnanswered: true },
  ];
  const text = "detected 131 ms; served 144 ms to 152 ms; slowest g2: served 152 ms, first commit 190 ms, after an unanswered one";
  assert.equal(phasesText({ detectedMs: 131.4, groups }), text);
  assert.equal(phasesText({ detectedMs: undefined, groups: [] }), "detected ?; served ? to ?");
});
