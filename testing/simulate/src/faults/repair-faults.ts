import type { SeededFault } from "./seeded-fault.ts";

const HINT_STORE = "libs/repair/src/hint-store.ts";
const HINT_DELIVERY = "libs/repair/src/hint-delivery.ts";
const ANTI_ENTROPY = "libs/repair/src/anti-entropy.ts";
const LOCAL_REPLICA = "libs/quorum/src/local-replica.ts";
const ROW_HEALER = "libs/repair/src/row-healer.ts";

/** Mistakes in how replicas catch up. */
export const REPAIR_FAULTS: readonly SeededFault[] = [
  {
    name: "hint-dropped-at-restart",
    about: "A node forgets after a restart that hints wait on its disk (LB9).",
    scenario: "repair",
    edits: [{ file: HINT_STORE, search: "for (const entry of page) hints.#found(entry);", replace: "" }],
  },
  {
    name: "hint-with-a-new-timestamp",
    about: "Hints are handed over as if they were written now (LB10).",
    scenario: "repair",
    edits: [
      {
        file: HINT_DELIVERY,
        search: "import type { HintStore,",
        replace: 'import { decodeMutation, encodeMutation } from "@concord/rows";\nimport type { HintStore,',
      },
      {
        file: HINT_DELIVERY,
        search: "const mutations = hints.flatMap((hint) => hint.mutations);",
        replace:
          "const mutations = hints.flatMap((hint) => hint.mutations).map((one) => encodeMutation({ ...decodeMutation(one), timestampUs: (this.#options.clock.nowUs() + 1_000_000_000n) as never }));",
      },
    ],
  },
  {
    name: "hint-gone-before-it-arrived",
    about: "A hint leaves the disk before its peer has it (LBD5).",
    scenario: "repair",
    edits: [
      {
        file: HINT_DELIVERY,
        search: "const error = await this.#send(peer, live);",
        replace:
          "await this.#options.hints.remove(peer.name, live);\n    const error = await this.#send(peer, live);\n    if (hintsAreGone) return error === undefined;",
      },
      {
        file: HINT_DELIVERY,
        search: "/** The peer will say",
        replace: "const hintsAreGone: boolean = [1].length === 1;\n\n/** The peer will say",
      },
    ],
  },
  {
    name: "orphan-with-a-new-timestamp",
    about: "Replay hints an orphan's rows as if they were written now (LB8).",
    scenario: "batch",
    edits: [
      {
        file: "libs/logged-batch/src/replay.ts",
        search: "import { decodeMutation } from",
        replace: "import { decodeMutation, encodeMutation } from",
      },
      {
        file: "libs/logged-batch/src/replay.ts",
        search: "await this.#ring.hint(name, entry.createdMs, entry.mutations);",
        replace:
          "await this.#ring.hint(name, entry.createdMs, entry.mutations.map((one) => encodeMutation({ ...decodeMutation(one), timestampUs: (this.#ring.clock.nowUs() + 1_000_000n) as never })));",
      },
    ],
  },
  {
    name: "repair-that-resurrects",
    about: "A comparison sends what lives and leaves deletions out: the deleted row comes back.",
    scenario: "repair",
    edits: [
      {
        file: ANTI_ENTROPY,
        search: "const mutations = encodedMutationsOf(row.image);",
        replace: 'const mutations = encodedMutationsOf(row.image).filter((bytes) => decodeMutation(bytes).kind !== "delete");',
      },
      {
        file: ANTI_ENTROPY,
        search: "import { READ_MORE_MS_MAX, writeMs, type StepRunner } from",
        replace: 'import { decodeMutation } from "@concord/rows";\nimport { READ_MORE_MS_MAX, writeMs, type StepRunner } from',
      },
    ],
  },
  {
    name: "sums-of-before",
    about: "A segment's sums are those of an earlier round: rows that changed since count as equal.",
    scenario: "repair",
    edits: [
      {
        file: ANTI_ENTROPY,
        search: "const own = await local.sums({ from, to: LAST_KEY }, 1);",
        replace: "const own = await (this.#old[`${peer.name} ${from.join()}`] ??= local.sums({ from, to: LAST_KEY }, 1));",
      },
      {
        file: ANTI_ENTROPY,
        search: "readonly #unreachable = new Set<string>();",
        replace: 'readonly #unreachable = new Set<string>();\n  readonly #old: Record<string, ReturnType<ComparedRows["sums"]>> = {};',
      },
    ],
  },
  {
    name: "read-without-repair",
    about: "A quorum read answers before a majority holds what it shows: the next read may not see it (TX30).",
    scenario: "repair",
    edits: [
      {
        file: "libs/quorum/src/quorum-row-store.ts",
        search: "    if (rows.every((row) => !row.stale.includes(true))) return;",
        replace: "    if (rows.length > 0) return;",
      },
    ],
  },
  {
    name: "healed-from-one",
    about: "A damaged row is replaced by what one peer has, which may have missed the write.",
    scenario: "repair",
    edits: [
      {
        file: ROW_HEALER,
        search: "const answers = await Promise.all(peers.map((peer) => peer.readRows([key], timeoutMs, after)));",
        replace: "const answers = await Promise.all(peers.slice(0, 1).map((peer) => peer.readRows([key], timeoutMs, after)));",
      },
    ],
  },
  {
    name: "collected-with-one-peers-word",
    about: "A tombstone is dropped when one peer holds it: what the other one still has comes back.",
    scenario: "repair",
    edits: [
      {
        file: "libs/repair/src/plain-tombstones.ts",
        search: "answers.every((held) => held[at] === true)",
        replace: "answers.some((held) => held[at] === true)",
      },
    ],
  },
  {
    name: "stale-copy-taken",
    about: "A replica takes a copy that was read before its last collection of tombstones: the deleted row comes back.",
    scenario: "repair",
    edits: [
      {
        file: LOCAL_REPLICA,
        search: "() => collection !== forgotten.collection",
        replace: '() => collection === forgotten.collection + "?"',
      },
    ],
  },
  {
    name: "write-taken-behind-its-deletion",
    about: "A replica takes a client's write although it has forgotten a newer deletion.",
    scenario: "repair",
    edits: [{ file: LOCAL_REPLICA, search: "oldestUs <= forgotten.newestUs)", replace: "oldestUs > oldestUs)" }],
  },
  {
    name: "missed-write-without-hint",
    about: "The writer keeps no hint for a replica that did not confirm (LB9).",
    scenario: "repair",
    edits: [
      {
        file: "libs/quorum/src/quorum-row-store.ts",
        search: 'if (result.status === "rejected") this.#onMissed(this.#replicas[at]!.name, chunk);',
        replace: 'if (result.status === "rejected" && at < 0) this.#onMissed(this.#replicas[at]!.name, chunk);',
      },
    ],
  },
];
