import type { SeededFault } from "./seeded-fault.ts";

const PUT_OBJECT = "libs/objects/src/put-object.ts";
const EVENT_PAGE = "libs/objects/src/events/event-page.ts";

/** Mistakes in the events of buckets. */
export const EVENT_FAULTS: readonly SeededFault[] = [
  {
    name: "event-in-a-commit-of-its-own",
    about: "A put writes its event in the next commit: a gateway that dies between them has stored what is never announced (OGD19).",
    scenario: "object",
    edits: [
      { file: PUT_OBJECT, search: "        ...event,\n", replace: "" },
      {
        file: PUT_OBJECT,
        search: "    return { object, result };\n",
        replace:
          '    if (result.kind === "committed" && event.length > 0) {\n' +
          "      const told = { partition: view.partition, conditions: [], writes: event };\n" +
          "      await context.metadata.commit(told);\n" +
          "      context.outbox.note(told);\n" +
          "    }\n    return { object, result };\n",
      },
    ],
  },
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
