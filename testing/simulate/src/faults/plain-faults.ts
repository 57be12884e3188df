import type { SeededFault } from "./seeded-fault.ts";

const WRITE = "apps/storage-proxy/src/rpc/write.ts";
const ROW_STORE = "libs/quorum/src/quorum-row-store.ts";
const EXECUTE_BATCH = "libs/logged-batch/src/execute-batch.ts";

/** Mistakes in what plain writes promise: timestamps, what `superseded` reports, the size of rows, and what replicas get that no hint is kept for. */
export const PLAIN_FAULTS: readonly SeededFault[] = [
  {
    name: "write-mark-not-kept",
    about:
      "The mark of the write clock is raised in memory alone: a node that starts with a clock set right draws below what it acknowledged (I8 of the storage-proxy README).",
    scenario: "plain",
    edits: [
      {
        file: "apps/storage-proxy/src/ring/write-mark.ts",
        search: 'run: () => ({ persist: [{ kind: "put", key: WRITE_MARK_KEY, value }], reply: undefined })',
        replace: 'run: () => ({ persist: value.length > 0 ? [] : [{ kind: "put", key: WRITE_MARK_KEY, value }], reply: undefined })',
      },
    ],
  },
  {
    name: "drawn-below-the-row",
    about: "A timestamp that lost to cells of the future is drawn again by the clock alone, below them (I9 of the storage-proxy README).",
    scenario: "plain",
    edits: [
      {
        file: WRITE,
        search: "drawnUs > newestUs ? drawnUs : plusUs(newestUs, 1n)",
        replace: "drawnUs > newestUs ? drawnUs : plusUs(drawnUs, 1n)",
      },
    ],
  },
  {
    name: "superseded-reported-as-stored",
    about: "A write with a timestamp of its own that lost to a newer cell is answered as stored (I9 of the storage-proxy README).",
    scenario: "plain",
    edits: [{ file: WRITE, search: "if (newestUs === undefined) break;", replace: "if (newestUs === undefined || !isDrawn) break;" }],
  },
  {
    name: "row-outlives-its-deletion",
    about: "A deletion that leaves a newer cell alive does not count as superseded.",
    scenario: "plain",
    edits: [
      {
        file: "libs/rows/src/row-image.ts",
        search: "  if (deletedAtUs === undefined) return newest;",
        replace: "  if (deletedAtUs === undefined || newest === TIMESTAMP_ZERO) return newest;",
      },
    ],
  },
  {
    name: "superseded-by-one-answer",
    about: "Only the first replica that answers says to which cell a write lost (I13 of the quorum README).",
    scenario: "plain",
    edits: [
      {
        file: ROW_STORE,
        search: "for (const { value } of result.answers) if (value > newestUs) newestUs = value;",
        replace: "for (const { value } of result.answers.slice(0, 1)) if (value > newestUs) newestUs = value;",
      },
    ],
  },
  {
    name: "size-of-the-write-alone",
    about: "The size of a row is that of what is written, without what is stored (I13 of the quorum README).",
    scenario: "plain",
    edits: [
      {
        file: "libs/quorum/src/row-sizes.ts",
        search: "const merged = image === undefined ? change : mergeImages(image, change);",
        replace: "const merged = image === undefined || image.cells.size > 0 ? change : mergeImages(image, change);",
      },
    ],
  },
  {
    name: "hint-without-space-forgotten",
    about:
      "A write for which there is no space among the hints leaves no note that a comparison with its peer is due (I14 of the repair README).",
    scenario: "plain",
    edits: [
      {
        file: "libs/repair/src/hint-store.ts",
        search: 'return { persist: [this.due.dropped(peer)], reply: "comparison" };',
        replace: 'return { persist: [], reply: "comparison" };',
      },
    ],
  },
  {
    name: "due-comparison-left-to-the-interval",
    about: "A comparison that is due begins no earlier than one that nothing asks for (I14 of the repair README).",
    scenario: "plain",
    edits: [
      {
        file: "libs/repair/src/anti-entropy.ts",
        search: "return due.isDue(round.peer.name) ? isRested : round.isOwn",
        replace: "return due.isDue(round.peer.name) ? isRested && clock.monotonicMs() >= round.nextAtMs : round.isOwn",
      },
    ],
  },
  {
    name: "lost-store-takes-late-writes",
    about:
      "A node that copied its store does not note which deletions its peers have forgotten: a late write brings a deleted row back (I12 of the quorum README).",
    scenario: "plain",
    edits: [
      {
        file: "apps/storage-proxy/src/ring/formation/copy-store.ts",
        search: "if (newestUs > TIMESTAMP_ZERO) await store.batch(",
        replace: "if (newestUs < TIMESTAMP_ZERO) await store.batch(",
      },
    ],
  },
  {
    name: "forgotten-until-a-restart",
    about:
      "A node notes in memory alone which deletions it has forgotten: after a restart a late write brings a deleted row back (I12 of the quorum README).",
    scenario: "plain",
    edits: [
      {
        file: "libs/repair/src/local-tombstones.ts",
        search: "if (dropped > 0) persist.push(forgotten.collected(newestUs));",
        replace: "if (dropped > 0) forgotten.collected(newestUs);",
      },
    ],
  },
  {
    name: "unlogged-batch-without-hints",
    about: "No hint is kept for a replica that did not confirm an unlogged batch (LB9).",
    scenario: "plain",
    edits: [
      {
        file: EXECUTE_BATCH,
        search: "if (mayBeThere) await Promise.allSettled(",
        replace: "if (mayBeThere && createdMs < 0) await Promise.allSettled(",
      },
    ],
  },
];
