import type { SeededFault } from "./seeded-fault.ts";

const TENURE = "libs/adapter-embedded-log/src/tenure.ts";
const EMBEDDED_LOG = "libs/adapter-embedded-log/src/embedded-log.ts";
const OWNERS = "libs/ownership/src/owners.ts";
const UNITS = "libs/ownership/src/units.ts";
const INGEST = "apps/dedup-worker/src/ingest/ingest.ts";

/** Such a worker ends when it asks the log after a loss, whatever else has told it. */
const OVERTAKEN_UNNOTICED: SeededFault["edits"][number] = {
  file: "apps/dedup-worker/src/partitions/partition-unit.ts",
  search: '    if (!isHeld) this.#overtaken.resolve("fenced");\n',
  replace: "",
};

/** Mistakes in who owns a partition, and in what an owner before can still do. */
export const OWNERSHIP_FAULTS: readonly SeededFault[] = [
  {
    name: "old-owner-answers",
    about: "An owner does not look whether another one took over before it answers: what it wrote is behind the end of the log (DDD4).",
    scenario: "ownership",
    edits: [
      {
        file: TENURE,
        search: "    return this.#isOver ? Promise.reject(notOwner(this.folder)) : this.#looks.join();",
        replace: "    return Promise.resolve();",
      },
    ],
  },
  {
    name: "partition-epoch-not-raised",
    about: "A takeover leaves the epoch as it is: the owner before looks for its folder and finds it (DDD4).",
    scenario: "ownership",
    edits: [{ file: TENURE, search: "    const next = (epoch ?? 0) + 1;", replace: "    const next = Math.max(1, epoch ?? 0);" }],
  },
  {
    name: "segment-of-two-owners",
    about: "A new owner appends to the segment of the one before, which may still write there (I9 of the journal README).",
    scenario: "ownership",
    edits: [{ file: EMBEDDED_LOG, search: "    takesOver: isShared,", replace: "    takesOver: false," }],
  },
  {
    name: "two-owners-in-one-view",
    about: "The first standby owns a partition too while its owner works: they fence each other for ever (TX17, DDD4).",
    scenario: "ownership",
    edits: [
      {
        file: OWNERS,
        search: "    return this.works && this.ownerOf(unit) === this.#options.nodeName;",
        replace: "    return this.works && this.#view.placement.get(unit)!.slice(0, 2).includes(this.#options.nodeName);",
      },
      {
        file: UNITS,
        search: "    const isOwner = owners.ownerOf(held.name) === owners.self;",
        replace: "    const isOwner = owners.view.placement.get(held.name)!.slice(0, 2).includes(owners.self);",
      },
    ],
  },
  {
    name: "partition-not-released",
    about: "A worker goes on with a partition that belongs to another one by now.",
    scenario: "ownership",
    edits: [
      {
        file: UNITS,
        search: "    void this.#leave(held, graceMs).then(() => this.#look(held));",
        replace: "    if (graceMs === -1) void this.#leave(held, graceMs);",
      },
      OVERTAKEN_UNNOTICED,
    ],
  },
  {
    name: "overtaken-unnoticed",
    about:
      "A worker that stood still while another one took its partition over goes on with it: one that publishes nothing is fenced by nothing (DDD4).",
    scenario: "workers",
    edits: [OVERTAKEN_UNNOTICED],
  },
  {
    name: "released-in-mid-call",
    about:
      "A partition is released while calls wait for the results of what they appended: they end with unknown outcomes (I7 of the dedup-worker README).",
    scenario: "ownership",
    edits: [{ file: UNITS, search: "    await this.#leave(held, times.drainMs);", replace: "    await this.#leave(held, 0);" }],
  },
  {
    name: "taken-without-asking",
    about:
      "A worker that returns, or follows one that leaves, fences the one that serves instead of asking it (I7 of the ownership README).",
    scenario: "ownership",
    edits: [
      {
        file: UNITS,
        search: "owners.askedToRelease(held.name, held.follows).map((member) => this.#askRelease(held.name, member))",
        replace: "([] as Promise<void>[])",
      },
    ],
  },
  {
    name: "leave-not-forgotten",
    about:
      "A worker that left counts as leaving in its next life too: it and the others take its partitions from each other without end (TX17).",
    scenario: "ownership",
    edits: [
      { file: OWNERS, search: "        this.#leaving.delete(about);", replace: "" },
      { file: OWNERS, search: "    this.#leaving.delete(name);", replace: "" },
    ],
  },
  {
    name: "refused-while-it-moves",
    about: "A call for a partition that is on its way is refused instead of waiting for its next owner.",
    scenario: "ownership",
    edits: [{ file: INGEST, search: 'new Set(["STARTING", "NOT_OWNER", "DRAINING", "CONNECTION_LOST"])', replace: "new Set()" }],
  },
  {
    name: "window-of-an-earlier-tenure",
    about: "A worker that gets a partition back takes its own window for current: ids that others published meanwhile come again (DD9).",
    scenario: "ownership",
    edits: [
      {
        file: "libs/dedup/src/rebuild-window.ts",
        search: "  for await (const page of outputPages(source, from, output.end)) {",
        replace: "  for await (const page of outputPages(source, next === undefined ? from : output.end, output.end)) {",
      },
    ],
  },
  {
    name: "epoch-recovered-unfenced",
    about: "A gateway's epoch is recovered at the verdict without closing it at the data store: the gateway lives and seals on (OGD3).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/recovery/recover-epoch.ts",
        search: '  await context.data.closeEpoch(epoch);\n  context.failpoint("recovery:after-close-epoch");',
        replace: '  context.failpoint("recovery:after-close-epoch");',
      },
    ],
  },
];
