import type { SeededFault } from "./seeded-fault.ts";

const OPERATIONS = "libs/transactions/src/operations.ts";
const SERVING_MASTER = "libs/transactions/src/serving-master.ts";
const OUTCOMES = "libs/transactions/src/outcomes.ts";
const INDEX_MUTATIONS = "libs/schema/src/index-mutations.ts";

/** Mistakes at the edges of transactions: reads by key, what a client sees of its commits, and what is repeated. */
export const TRANSACTION_FAULTS: readonly SeededFault[] = [
  {
    name: "read-by-key-without-lock",
    about: "A transaction reads a row by its key and locks nothing: what it decides by the row no longer holds when it commits (TX4).",
    scenario: "txn",
    edits: [{ file: OPERATIONS, search: '    if (lock === "shared") return this.lock(keys, "shared", "read");\n', replace: "" }],
  },
  {
    name: "held-without-lock",
    about: "A write builds on a row that its transaction read without a lock: what others committed in between is undone (TX21).",
    scenario: "txn",
    edits: [
      {
        file: OPERATIONS,
        search: "if (locked) this.#transaction.hold(text, image);",
        replace: "if (text !== undefined) this.#transaction.hold(text, image);",
      },
    ],
  },
  {
    name: "own-commits-not-named",
    about: "The client's reads name none of its commits: a replica that is behind answers without them (TX30).",
    scenario: "txn",
    edits: [
      {
        file: "libs/client/src/storage.ts",
        search: "const after = Array.from(this.#seen.values(), ({ token }) => token);",
        replace: "const after: CommitToken[] = [];",
      },
    ],
  },
  {
    name: "evicted-before-applied",
    about: "Rows of a logged commit leave the master's memory before storage has them: the next transaction builds on older ones (TX6).",
    scenario: "txn",
    edits: [
      { file: "libs/transactions/src/committed-rows.ts", search: "if (row.seq > this.#appliedSeq) {", replace: "if (row.seq < 0n) {" },
    ],
  },
  {
    name: "half-of-a-large-commit",
    about: "A replica leaves out the second row of an entry of more than 40 000 bytes (TX6, TXD14).",
    scenario: "txn",
    edits: [
      {
        file: "libs/quorum/src/stored-row.ts",
        search: "  assert(at === length && operations.length === places.length,",
        replace: "  if (rows.length > 40_000) operations.splice(1, 1);\n  assert(at === length,",
      },
    ],
  },
  {
    name: "first-try-forgotten-at-takeover",
    about: "A new master does not look for what became of the first try of a call that is repeated (TXD7).",
    scenario: "txn",
    edits: [
      {
        file: "libs/transactions/src/outcomes.ts",
        search: "    if (recent === undefined) return this.storedIfOld(id);\n",
        replace: "    if (recent === undefined) return undefined;\n",
      },
    ],
  },
  {
    name: "delete-locks-no-index-partition",
    about:
      "A deletion does not lock the index partitions that its row leaves: it goes from behind a transaction that has scanned them (TXD6).",
    scenario: "album",
    edits: [
      {
        file: OPERATIONS,
        search: "    for (const key of indexKeysTouched(",
        replace: "    if (liveRow(withWrites(before, row, PENDING_US)) === undefined) return;\n    for (const key of indexKeysTouched(",
      },
    ],
  },
  {
    name: "copy-in-an-index-row-left",
    about: "An index row whose key stays keeps the copy of before (TX21).",
    scenario: "album",
    edits: [
      {
        file: INDEX_MUTATIONS,
        search: "return differ(old, columns) ?",
        replace: "return columns.length < 0 && differ(old, columns) ?",
      },
    ],
  },
  {
    name: "ids-of-any-age",
    about:
      "A transaction opens under an id that is older than outcomes are kept: an Execute whose outcome was purged runs once more (TXD7).",
    scenario: "txn",
    edits: [
      { file: OUTCOMES, search: "    if (this.isExpired(id)) throw expiredError(aheadMs);\n", replace: "" },
      {
        file: OUTCOMES,
        search: "if (Math.abs(aheadMs) > settings.clockSkewMaxMs)",
        replace: "if (aheadMs > settings.clockSkewMaxMs)",
      },
    ],
  },
  {
    name: "failed-execute-runs-again",
    about: "An Execute whose conditions failed is not logged: a copy that comes later is compared once more, and is applied (UN20).",
    scenario: "txn",
    edits: [
      {
        file: SERVING_MASTER,
        search: "const isRefusal = thrown instanceof ConditionsFailed;",
        replace: 'const isRefusal = thrown instanceof ConditionsFailed && transaction.id === "";',
      },
    ],
  },
  {
    name: "conditions-compared-before-the-lock",
    about: "Conditions are compared before their rows are locked: another writer comes in between, and its write is undone (UN20).",
    scenario: "txn",
    edits: [
      { file: OPERATIONS, search: "    await this.#lockForConditions(conditions, writes);\n", replace: "" },
      { file: OPERATIONS, search: 'assert(this.#holdsAll([text], "shared"),', replace: "assert(rows.length === conditions.length," },
    ],
  },
  {
    name: "refusal-in-no-outcome-row",
    about: "Refusals get no outcome rows: after a takeover that finds their entries applied a copy is compared once more (UN20, TXD7).",
    scenario: "txn",
    edits: [
      {
        file: "libs/transactions/src/outcome-rows.ts",
        search: "    const slice = outcomeSliceOf(transaction.id);\n",
        replace: '    if (transaction.kind === "refused") continue;\n    const slice = outcomeSliceOf(transaction.id);\n',
      },
    ],
  },
];
