import type { AssertionFault } from "./assertion-fault.ts";

/** Mistakes in what becomes of a damaged block, and its keys. */
export const STORE_FAULTS: readonly AssertionFault[] = [
  {
    message: "every key that was found suspect, now or before, stays so",
    file: "libs/store/src/admit-suspects.ts",
    search: "shortened(unionOf(checkpoint.suspects, ranges))",
    replace: "shortened(ranges)",
    test: "libs/store/src/admit-suspects.test.ts",
  },
  {
    message: "nothing of before is left in a range that is cleared",
    file: "libs/store/src/suspect-keys.ts",
    search: "entries.map(({ key }) =>",
    replace: "entries.slice(1).map(({ key }) =>",
    test: "libs/store/src/suspect-keys.test.ts",
  },
  {
    message: "what is left of a table is sound, and as long as it was",
    file: "libs/adapter-level/src/write-table.ts",
    search: "  writeEmptyBlock(table, metaindex);\n",
    replace: "",
    test: "libs/adapter-level/src/leave-out-blocks.test.ts",
  },
];
