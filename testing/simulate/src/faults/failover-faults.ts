import type { SeededFault } from "./seeded-fault.ts";

const TAKE_OVER = "libs/group-log/src/take-over.ts";
const GROUP_STATE = "libs/group-log/src/group-state.ts";
const OWNERS = "libs/ownership/src/owners.ts";
const UNITS = "libs/ownership/src/units.ts";
const VERDICTS = "libs/failure-detection/src/verdicts.ts";
const OPINIONS = "libs/failure-detection/src/opinions.ts";
const HEAR_BEAT = "libs/failure-detection/src/hear-beat.ts";
const SERVING_MASTER = "libs/transactions/src/serving-master.ts";

/** Mistakes in who may serve a group, and in how a standby takes it over. */
export const FAILOVER_FAULTS: readonly SeededFault[] = [
  {
    name: "no-self-fence",
    about: "A coordinator opens transactions whatever the others think of it and however old its lease is (TX14).",
    scenario: "failover",
    edits: [
      {
        file: OWNERS,
        search: 'return this.#self === "works" && clock.monotonicMs() < membership.leaseEndMs();',
        replace: 'return this.#self !== "joining" || clock.monotonicMs() < membership.leaseEndMs();',
      },
      {
        file: UNITS,
        search: "return this.#held.get(name)?.confirmedAt === this.#options.owners.losses;",
        replace: "return this.#held.has(name);",
      },
    ],
  },
  {
    name: "back-without-asking-the-log",
    about: "A coordinator that was lost and is heard again opens transactions before the log has confirmed its epoch (TX14).",
    scenario: "failover",
    edits: [
      {
        file: UNITS,
        search: "return this.#held.get(name)?.confirmedAt === this.#options.owners.losses;",
        replace: "return this.#held.has(name);",
      },
    ],
  },
  {
    name: "verdict-by-one-opinion",
    about: "One observer that lost a member calls it gone (TX14).",
    scenario: "failover",
    edits: [{ file: VERDICTS, search: 'if (count("lost") >= majority) return "gone";', replace: 'if (count("lost") >= 1) return "gone";' }],
  },
  {
    name: "own-opinion-ignored",
    about: "A member's own opinion does not count in its verdicts (TX14): of three, no two are left to call the third gone.",
    scenario: "failover",
    edits: [{ file: VERDICTS, search: "const said: Opinion[] = [peer.opinion];", replace: "const said: Opinion[] = [];" }],
  },
  {
    name: "lost-before-the-lease-ended",
    about: "A member counts as lost after two missed beats, when its lease may still hold (TX15, I2 of the failure-detection README).",
    scenario: "detection",
    edits: [
      {
        file: OPINIONS,
        search: "const lostMs = limits.lostMs + state.health * limits.healthStepMs;",
        replace: "const lostMs = 1.5 * limits.beatMs;",
      },
    ],
  },
  {
    name: "lease-not-waited-for",
    about: "A member relies on its lease for longer than others wait before they call it lost (I2 of the failure-detection README).",
    scenario: "failover",
    edits: [
      {
        file: "libs/failure-detection/src/lease.ts",
        search: "return Math.min(heldSinceMs + limits.lostMs,",
        replace: "return Math.min(heldSinceMs + 10 * limits.lostMs,",
      },
    ],
  },
  {
    name: "old-reports-count",
    about: "Reports that waited in a socket while this process stood still decide about others (V1 to V5 of the failure-detection README).",
    scenario: "detection",
    edits: [
      {
        file: OPINIONS,
        search: ".filter(({ peer }) => isHeard(peer) && nowMs - peer.reportedAfterMs <= state.limits.lostMs);",
        replace: ".filter(({ peer }) => isHeard(peer));",
      },
    ],
  },
  {
    name: "statement-without-age",
    about: "In a ring of observers a statement counts however old the grounds of its verdict are (I6 of the failure-detection README).",
    scenario: "detection",
    edits: [
      {
        file: "libs/failure-detection/src/far.ts",
        search: "return nowMs - speaker.groundsAtMs[slot]! <= limits.lostMs;",
        replace: "return nowMs - speaker.groundsAtMs[slot]! <= Number.POSITIVE_INFINITY;",
      },
    ],
  },
  {
    name: "next-list-not-waiting",
    about:
      "The list of members changes again while members may still count by the version before the last (I5 of the failure-detection README).",
    scenario: "detection",
    edits: [{ file: "libs/failure-detection/src/limits.ts", search: "nextListAfterMs: 7_000,", replace: "nextListAfterMs: 100," }],
  },
  {
    name: "list-outlives-its-reading",
    about: "A member that cannot read the list goes on to rely on the one that it read last (I5 of the failure-detection README).",
    scenario: "detection",
    edits: [
      {
        file: "libs/failure-detection/src/list.ts",
        search: 'return state.kind === "configured" ? Number.POSITIVE_INFINITY : state.untilMs;',
        replace: 'return state.kind === "configured" ? Number.POSITIVE_INFINITY : state.untilMs + 60_000;',
      },
    ],
  },
  {
    name: "incarnation-ignored",
    about: "Any life of a member counts as the one heard before (I1 of the failure-detection README).",
    scenario: "detection",
    edits: [
      {
        file: HEAR_BEAT,
        search: "beat.incarnation === peer.incarnation ? beat.sequence <= peer.sequence : !mayBegin(state, peer, beat, nowMs)",
        replace: "beat.sequence <= peer.sequence || (peer.incarnation === 0n && !mayBegin(state, peer, beat, nowMs))",
      },
    ],
  },
  {
    name: "standby-beside-its-master",
    about: "The first standby serves a group while its master works (TX17).",
    scenario: "failover",
    edits: [
      {
        file: OWNERS,
        search: "return this.works && this.ownerOf(unit) === this.#options.nodeName;",
        replace: "return this.works && (this.ownerOf(unit) === this.self || this.#view.placement.get(unit)![1] === this.self);",
      },
      {
        file: UNITS,
        search: "const isOwner = owners.ownerOf(held.name) === owners.self;",
        replace: "const isOwner = owners.ownerOf(held.name) === owners.self || owners.view.placement.get(held.name)![1] === owners.self;",
      },
    ],
  },
  {
    name: "stand-down-ignored",
    about: "A standby whose master has taken the group back goes on when the log says so (TX17).",
    scenario: "failover",
    edits: [
      {
        file: "apps/txn-coordinator/src/groups/group-unit.ts",
        search: 'if (verified === "fenced") this.group.overtaken();',
        replace: "",
      },
    ],
  },
  {
    name: "fenced-master-goes-on",
    about: "A master whose append was refused for a newer epoch stays the master (TXD1).",
    scenario: "failover",
    edits: [
      {
        file: "libs/transactions/src/transaction-group.ts",
        search: '    if (state.kind !== "serving") return;\n    this.#context.log.warn(',
        replace: '    if (state.kind !== "serving" || error.code === "EPOCH_FENCED") return;\n    this.#context.log.warn(',
      },
    ],
  },
  {
    name: "epoch-not-raised",
    about: "A takeover uses the epoch it finds, and replicas promise it to a second owner (TXR1, TXR3).",
    scenario: "log",
    edits: [
      {
        file: TAKE_OVER,
        search: "const epoch = nextEpoch(promisedEpoch);",
        replace: "const epoch = promisedEpoch > 0n ? promisedEpoch : nextEpoch(promisedEpoch);",
      },
      {
        file: GROUP_STATE,
        search: "return epoch > state.promisedEpoch || isPromised",
        replace: "return epoch >= state.promisedEpoch || isPromised",
      },
    ],
  },
  {
    name: "promise-below-the-highest",
    about: "A replica promises an epoch below one that it has promised before (TXR1).",
    scenario: "log",
    edits: [
      {
        file: GROUP_STATE,
        search: "return epoch > state.promisedEpoch || isPromised",
        replace: "return epoch !== state.promisedEpoch || isPromised",
      },
      {
        file: "libs/group-log/src/replica-steps.ts",
        search: "assert(request.epoch >= before.promisedEpoch,",
        replace: "assert(request.epoch >= 0n,",
      },
    ],
  },
  {
    name: "tail-without-its-newest",
    about: "A takeover leaves out the newest entry that the old master logged (TXR3).",
    scenario: "log",
    edits: [
      {
        file: TAKE_OVER,
        search: 'return { kind: "raised", epoch, tail: outcome.tail };',
        replace: 'return { kind: "raised", epoch, tail: { ...outcome.tail, entries: outcome.tail.entries.slice(0, -1) } };',
      },
    ],
  },
  {
    name: "tail-not-appended-again",
    about: "A takeover takes what the old master logged for decided without logging it under its own epoch (TXR3).",
    scenario: "log",
    edits: [
      {
        file: TAKE_OVER,
        search: "for (const { seq, bytes, rows } of tail.entries) {",
        replace: "for (const { seq, bytes, rows } of tail.entries.slice(tail.entries.length)) {",
      },
    ],
  },
  {
    name: "served-before-applied",
    about:
      "A new master leaves it to its first append to say that the old one's pending entries are decided, and reads rows without waiting for them (TXD2, TXD14).",
    scenario: "failover",
    edits: [
      {
        file: TAKE_OVER,
        search: '  if (!(await advanceTo(calls, advance, tail))) return { kind: "unavailable" };\n',
        replace: "",
      },
      {
        file: SERVING_MASTER,
        search: "      appliedSeq: taken.lastSeq,\n",
        replace: "      appliedSeq: (taken.lastSeq - taken.lastSeq) as typeof taken.lastSeq,\n",
      },
    ],
  },
  {
    name: "overloaded-taken-for-failure",
    about: "A commit that finds the queue full is queued all the same: OVERLOADED says that nothing happened, and it happens (TX6, TXD10).",
    scenario: "txn",
    edits: [
      {
        file: SERVING_MASTER,
        search: "    this.#commit.requireRoom();\n    const { clock, settings, noSpace } = this.#context;\n",
        replace:
          "    let overloaded: unknown;\n    try { this.#commit.requireRoom(); } catch (thrown) { overloaded = thrown; }\n    const { clock, settings, noSpace } = this.#context;\n",
      },
      {
        file: SERVING_MASTER,
        search: "    return decision;\n",
        replace: "    decision.catch(() => undefined);\n    if (overloaded !== undefined) throw overloaded;\n    return decision;\n",
      },
    ],
  },
  {
    name: "drain-drops-a-commit",
    about: "A master that hands its group over does not wait for the append on its way, and says that nothing was applied (TX17, TXD7).",
    scenario: "failover",
    edits: [
      {
        file: SERVING_MASTER,
        search: "while (this.#open.size > 0 && clock.monotonicMs() < endsAtMs)",
        replace: "if (clock.monotonicMs() >= endsAtMs)",
      },
      { file: SERVING_MASTER, search: "    await this.#commit.drained();\n", replace: "" },
      {
        file: "libs/transactions/src/group-commit.ts",
        search: "    this.#lose(flush, outcomeUnknown());\n  }\n",
        replace: '    this.#lose(flush, new ConcordError("DRAINING", "the master has ended"));\n  }\n',
      },
    ],
  },
  {
    name: "read-only-not-verified",
    about: "A read-only commit does not ask whether the epoch still holds: a zombie master answers from the past (TXD1).",
    scenario: "failover",
    edits: [
      {
        file: SERVING_MASTER,
        search: "    try {\n      await this.#epochCheck.current();",
        replace: "    try {\n      await Promise.resolve();",
      },
    ],
  },
];
