import type { AssertionFault } from "./assertion-fault.ts";

type Seed = readonly [message: string, file: string, search: string, replace: string, test: string];

const WORKER = "partition-worker";
const WINDOW = "segmented-window";
const SNAPSHOTS = "snapshots";

const SEEDS: readonly Seed[] = [
  [
    "a page has an id and a look-up for each message",
    "read-page",
    "known: await window.lookUp(words)",
    "known: await window.lookUp(words.subarray(4))",
    WORKER,
  ],
  ["DD4: every message has one result", "classify-page", '      kinds.push("duplicate");\n', "", WORKER],
  ["each new id has its place in the output", "classify-page", "      freshPositions.push(positions[index]!);\n", "", WORKER],
  ["a table is half full at most: a search ends", "id-table", "if (this.#count * 2 === this.#slots.length) this.#grow();", "", WINDOW],
  ["ids are whole", "segment", "parts.push(unpackIds(words))", "parts.push(unpackIds(words.subarray(1)))", SNAPSHOTS],
  ["no waiter is left behind", "input-results", "    this.#waiting -= waiters.length;\n", "", WORKER],
  ["a listed segment is open or missing", "segmented-window", "    if (written !== undefined) this.#segments.push(written);\n", "", WINDOW],
  ["DD9: an origin that is written is one that is read", "origin", "    .u64(BigInt(publishedMs))\n    .finish()", "    .finish()", WORKER],
  [
    "DD9: a window has the whole output before its partition runs",
    "rebuild-window",
    "outputPages(source, from, output.end)) {\n    foreign",
    "outputPages(source, from, from)) {\n    foreign",
    WORKER,
  ],
  ["the window is where the output is", "partition-worker", "    await window.apply(published);\n", "", WORKER],
  [
    "the window goes on behind what was applied",
    "segmented-window",
    "    this.#next = entry.next;\n",
    "    this.#next = entry.from;\n",
    WINDOW,
  ],
  [
    "one segment is written at a time",
    "segmented-window",
    "    this.#writing = undefined;\n    this.#dropped",
    "    this.#dropped",
    WINDOW,
  ],
  [
    "a segment has at most one id for each output offset",
    "segmented-window",
    "{ store, from, to, ids: table.count, oldestMs",
    "{ store, from, to: from + 1n, ids: table.count, oldestMs",
    WINDOW,
  ],
  [
    "a manifest never goes back",
    "segmented-window",
    "segmentsTo: to, nextStore: this.#manifest.nextStore + 1n }, segment",
    "segmentsTo: to, nextStore: this.#manifest.nextStore - 1n }, segment",
    WINDOW,
  ],
  ["a snapshot names every blob of its segments", "take-snapshot", "      blobs.push(blob);\n", "", SNAPSHOTS],
  [
    "a segment's ids are in order",
    "sort-ids",
    "compareIds(ids, left * ID_WORDS, ids, right * ID_WORDS)",
    "compareIds(ids, right * ID_WORDS, ids, left * ID_WORDS)",
    WINDOW,
  ],
  [
    "segments follow each other, up to where the journal begins",
    "segmented-window",
    "[...this.#manifest.segments, written.description]",
    "[written.description, ...this.#manifest.segments]",
    WINDOW,
  ],
  [
    "a journal record goes on from a later offset",
    "segmented-window",
    "entries.push({ from, next, ids",
    "entries.push({ from, next: from, ids",
    WINDOW,
  ],
  [
    "a clock that jumps is followed by its step alone",
    "steady-time",
    "Math.min(this.#stepMs, Math.max(0, wallMs - this.#ms - movedMs))",
    "Math.max(0, wallMs - this.#ms - movedMs)",
    "steady-time",
  ],
  [
    "the time that ids age by never goes back",
    "steady-time",
    "Math.min(elapsedMs, Math.max(0, wallMs - this.#ms))",
    "Math.min(elapsedMs, wallMs - this.#ms)",
    "steady-time",
  ],
];

export const DEDUP_FAULTS: readonly AssertionFault[] = SEEDS.map(([message, file, search, replace, test]) => ({
  message,
  file: `libs/dedup/src/${file}.ts`,
  search,
  replace,
  test: `libs/dedup/src/${test}.test.ts`,
}));
