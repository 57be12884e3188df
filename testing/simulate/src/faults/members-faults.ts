import type { SeededFault } from "./faults.ts";

const GROUPS = "apps/txn-coordinator/src/groups/groups.ts";

/** Mistakes with a list of coordinators that changes while they run (TX32). */
export const MEMBERS_FAULTS: readonly SeededFault[] = [
  {
    name: "new-master-asks-none",
    about:
      "A coordinator that a new list makes the master takes a group over without asking the one that serves it to release it (TX17, TX32).",
    scenario: "members",
    edits: [{ file: GROUPS, search: "if (view !== this.#standing.view) follows = false;", replace: "" }],
  },
  {
    name: "verdict-before-its-name",
    about: "A verdict about a new member is lost, since its place has no name yet when the membership reads the list (TX32).",
    scenario: "members",
    edits: [
      {
        file: "apps/txn-coordinator/src/groups/coordinator-lists.ts",
        search:
          "    this.#places = byPlace(list);\n    this.#isIn = true;\n    membership.listRead({ version: list.version, founders: list.founders, members: this.#places, readAtMs });\n",
        replace:
          "    membership.listRead({ version: list.version, founders: list.founders, members: byPlace(list), readAtMs });\n    this.#isIn = true;\n    this.#places = byPlace(list);\n",
      },
    ],
  },
];
