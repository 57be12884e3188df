import type { SeededFault } from "./faults.ts";

const EVENT_PAGE = "libs/objects/src/events/event-page.ts";

/** Mistakes in the events of buckets. */
export const EVENT_FAULTS: readonly SeededFault[] = [
  {
    name: "event-removed-before-it-is-sent",
    about: "An event is removed before its target has it: one that meets a target that is away is never announced (OGD19).",
    scenario: "object",
    edits: [
      {
        file: EVENT_PAGE,
        search: "  const answers = await send(context, options, { to, sink, due });\n",
        replace: "  await remove(context, options.partition, due);\n  const answers = await send(context, options, { to, sink, due });\n",
      },
    ],
  },
  {
    name: "event-with-a-new-id-each-try",
    about: "Each try of an event has an id of its own: after a lost answer the target takes it again (OGD22).",
    scenario: "object",
    edits: [
      {
        file: EVENT_PAGE,
        search: "({ id: messageId(row, event), timestampMs",
        replace: "({ id: `${messageId(row, event)}:${context.clock.monotonicMs()}`, timestampMs",
      },
    ],
  },
];
