import type { SeededFault } from "./seeded-fault.ts";

const UNITS = "libs/ownership/src/units.ts";

/** Mistakes with lists of coordinators and workers that change while they run (TX32). */
export const MEMBERS_FAULTS: readonly SeededFault[] = [
  {
    name: "new-master-asks-none",
    about:
      "A coordinator that a new list makes the master takes a group over without asking the one that serves it to release it (TX17, TX32).",
    scenario: "members",
    edits: [{ file: UNITS, search: "        held.follows = false;\n        if (held.released", replace: "        if (held.released" }],
  },
  {
    name: "verdict-before-its-name",
    about: "A verdict about a new member is lost, since its place has no name yet when the membership reads the list (TX32).",
    scenario: "members",
    notFoundYet: true,
    edits: [
      {
        file: "libs/ownership/src/member-lists.ts",
        search:
          "    this.#places = byPlace(list);\n    this.#isIn = true;\n    if (isNewer) this.#sinceMs = clock.monotonicMs();\n    membership.listRead({ version: list.version, founders: list.founders, members: this.#places, readAtMs });\n",
        replace:
          "    membership.listRead({ version: list.version, founders: list.founders, members: byPlace(list), readAtMs });\n    this.#isIn = true;\n    if (isNewer) this.#sinceMs = clock.monotonicMs();\n    this.#places = byPlace(list);\n",
      },
    ],
  },
  {
    name: "new-owner-asks-none",
    about:
      "A worker that a new list makes the owner of a partition opens it without asking the one that serves it to release it (TX17, TX32).",
    scenario: "workers",
    edits: [{ file: UNITS, search: "      await this.#askAll(held);\n", replace: "" }],
  },
  {
    name: "hears-none-after-a-list",
    about:
      "A worker forgets what it knows of the others when it reads a new list: none of them is asked, none that is gone is passed over (TX14, TX32).",
    scenario: "workers",
    edits: [{ file: "libs/ownership/src/owners.ts", search: "if (!names.has(name)) known.delete(name);", replace: "known.delete(name);" }],
  },
];
