import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

/** Makes 2 GiB of buffers that live for a moment, as uploads and downloads do, and prints how often all garbage was collected meanwhile. */
const PROGRAM = `
const { constants, PerformanceObserver } = await import("node:perf_hooks");
let collections = 0;
const count = (list) => { for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections += 1; };
const observer = new PerformanceObserver(count);
observer.observe({ entryTypes: ["gc"] });
for (let at = 0; at < 32768; at += 1) {
  new Uint8Array(65536).fill(at);
  if (at % 512 === 0) await new Promise((resolve) => setImmediate(resolve));
}
await new Promise((resolve) => setTimeout(resolve, 50));
console.log(collections);
`;

function majorCollections(prelude: string): number {
  const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", prelude + PROGRAM], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return Number(stdout);
}

test("tuneHeap: buffers that live for a moment: full collections are few, without it they were many", () => {
  const heap = JSON.stringify(new URL("./heap.ts", import.meta.url).href);
  const tuned = majorCollections(`const { tuneHeap } = await import(${heap}); tuneHeap();`);
  const untuned = majorCollections("");
  assert.ok(tuned * 3 <= untuned, `${tuned} full collections, ${untuned} without it`);
});
