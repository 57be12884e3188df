import type { SeededFault } from "./seeded-fault.ts";

const STORE = "libs/store/src/store.ts";
const OPEN = "libs/store/src/open.ts";

/** Mistakes in what the journal, the table and the backing store promise together. */
export const STORE_FAULTS: readonly SeededFault[] = [
  {
    name: "reply-before-durable",
    about: "The store answers when the write was handed to the journal, not when it is on disk (TX27, LBD2).",
    scenario: "txn",
    edits: [{ file: STORE, search: "    this.#handed.push(write);\n", replace: "    this.#handed.push(write);\n    write.resolve();\n" }],
  },
  {
    name: "position-before-flush",
    about: "A checkpoint writes its position while LevelDB has its values in log files that are not synced.",
    scenario: "txn",
    edits: [{ file: STORE, search: "    await backing.flush();\n", replace: "" }],
  },
  {
    name: "trim-before-checkpoint",
    about: "The journal is trimmed up to a checkpoint that is not durable yet.",
    scenario: "txn",
    edits: [
      {
        file: STORE,
        search: "    await this.#writeRows(written);\n",
        replace: "    await this.#journal.trim(position);\n    await this.#writeRows(written);\n",
      },
    ],
  },
  {
    name: "checkpoint-forgets-a-value",
    about: "A checkpoint leaves out one value that no earlier one holds.",
    scenario: "txn",
    edits: [{ file: STORE, search: "[this.#table.freeze(), this.#applied", replace: "[this.#table.freeze().slice(1), this.#applied" }],
  },
  {
    name: "replay-forgets-what-was-left",
    about: "Replay begins at a checkpoint's position and misses the log entries that the checkpoint left in the journal.",
    scenario: "txn",
    edits: [
      {
        file: "libs/store/src/replay.ts",
        search: "sequence >= position || left",
        replace: "sequence >= position || left.from < 0n && left",
      },
    ],
  },
  {
    name: "checkpoint-before-its-keys",
    about: "A checkpoint with one new key is durable before the file of keys has it: after a start that key is called absent.",
    scenario: "txn",
    edits: [
      {
        file: "libs/store/src/stored-keys.ts",
        search: 'this.#file.kind === "written" && this.#waiting.length > 0',
        replace: 'this.#file.kind === "written" && this.#waiting.length > 1',
      },
    ],
  },
  {
    name: "tombstone-collected-too-early",
    about:
      "A replica forgets a deletion that another one has not applied, and readers take that one's word: a row that they saw go comes back (TX30).",
    scenario: "album",
    edits: [
      {
        file: "libs/group-log/src/replica-steps.ts",
        search: "return { group, seq: heard < own ? heard : own };",
        replace: "return { group, seq: heard < own ? own : own };",
      },
      {
        file: "libs/quorum/src/quorum-row-store.ts",
        search: "return row.isLacking && row.place !== undefined",
        replace: "return row.stale.length < 0 && row.place !== undefined",
      },
    ],
  },
  {
    name: "serve-before-replay",
    about: "The store serves what the backing store has, without what the journal holds behind the checkpoint.",
    scenario: "txn",
    edits: [
      {
        file: OPEN,
        search: 'import { replay, type Replayed } from "./replay.ts";',
        replace: 'import { DirtyTable } from "./dirty-table.ts";\nimport { replay, type Replayed } from "./replay.ts";',
      },
      {
        file: OPEN,
        search: "return { ...replayed, ...contents, journal,",
        replace: "return { ...replayed, table: new DirtyTable(), ...contents, journal,",
      },
    ],
  },
];
