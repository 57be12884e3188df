import type { SeededFault } from "./seeded-fault.ts";

const JSON_PATH = "libs/dedup/src/json-path.ts";

/** Mistakes about where the id of a message is, and what becomes of one without (DDD8). */
export const MESSAGE_FAULTS: readonly SeededFault[] = [
  {
    name: "member-by-its-length",
    about: "A member's name in a JSON value is compared by its length alone: another member's text is taken for the id.",
    scenario: "dedup",
    edits: [
      {
        file: JSON_PATH,
        search: "bytes.length === text.length && bytes.every((byte, index) => byte === text[index]);",
        replace: "bytes.length === text.length;",
      },
    ],
  },
  {
    name: "escapes-left-in-ids",
    about: "An id in a JSON value is taken with its escapes: it is another one than the same id that its producer gave.",
    scenario: "dedup",
    edits: [
      { file: JSON_PATH, search: "  if (!inner.includes(BACKSLASH)) return inner;\n", replace: "  if (inner.length > 0) return inner;\n" },
    ],
  },
  {
    name: "content-not-rebuilt",
    about: "A window that is made again from the output knows none of the messages that are compared by their content.",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/read-page.ts",
        search: '      else if (origin?.kind === "content") packContent(message.value, this.#keys, this.#hash, words, at);\n',
        replace: "",
      },
    ],
  },
  {
    name: "dead-letters-not-published",
    about: "A message without an id is acknowledged as a dead letter, and the dead letters do not have it.",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/classify-page.ts",
        search: "  const publication = { output, deadLetters, rerouted,",
        replace: "  const publication = { output, deadLetters: [], rerouted,",
      },
    ],
  },
];
