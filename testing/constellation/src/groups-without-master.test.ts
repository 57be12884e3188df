import assert from "node:assert/strict";
import { test } from "node:test";
import { resolutions } from "./groups-without-master.ts";
import type { SentCommit } from "./list-load.ts";

test("resolutions: each unanswered commit is counted once; one still under way is unresolved", () => {
  const results: readonly SentCommit["result"][] = ["committed", "not applied", "unknown", "committed", "under way"];
  const unanswered = results.map((result) => ({ group: "g", sentAt: 0, result }));
  assert.equal(resolutions(unanswered), "5 commits unanswered: 2 found committed, 1 not applied and run again, 2 unresolved");
});
