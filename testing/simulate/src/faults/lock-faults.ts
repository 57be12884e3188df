import type { SeededFault } from "./seeded-fault.ts";

const OPERATIONS = "libs/transactions/src/operations.ts";
const LOCK_TABLE = "libs/locks/src/lock-table.ts";

/** Mistakes in what keeps ranges still while a transaction has read them (TXD6). */
export const LOCK_FAULTS: readonly SeededFault[] = [
  {
    name: "index-scan-without-lock",
    about: "A scan of an index locks nothing: rows come and go behind it.",
    scenario: "txn",
    edits: [{ file: OPERATIONS, search: "for (const scan of scans) await this.#lockScan(definition, scan);", replace: "" }],
  },
  {
    name: "range-read-without-lock",
    about: "A range of a base table is read without its lock.",
    scenario: "txn",
    edits: [
      {
        file: OPERATIONS,
        search: "locks.acquireRange(this.#transaction, partitionText(range.table, range.partition), this.#lockDeadlineMs(nowMs), nowMs)",
        replace: "nowMs < 0 ? locks.waiting : undefined",
      },
    ],
  },
  {
    name: "write-passes-range-lock",
    about: "A write does not ask for the range that another transaction has read.",
    scenario: "txn",
    edits: [{ file: LOCK_TABLE, search: "return this.#ranges > 0;", replace: "return this.#ranges > 1_000_000;" }],
  },
  {
    name: "range-ignores-earlier-writers",
    about: "A range is locked although transactions hold rows of it, and have written them.",
    scenario: "txn",
    edits: [{ file: LOCK_TABLE, search: "if (!this.#locks.has(range)) this.#addWriters(range);", replace: "" }],
  },
];
