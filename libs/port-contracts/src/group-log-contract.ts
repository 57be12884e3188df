import { epochOf, seqOf, timestampUsOf, type Epoch } from "@concord/runtime";
import type { AppendOutcome, AppendRequest, DecidedMark, GroupLog, LogTail, RaiseOutcome } from "@concord/ports";
import { expectCode, expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

/** An empty log, and what tests can do to it. */
export interface GroupLogSubject {
  readonly log: GroupLog;
  /** Stops everything and opens what is on disk. */
  restart(): Promise<GroupLog>;
}

type Case = ContractCase<GroupLogSubject>;

/** Of what must succeed: a real engine shares its machine with everything else. */
const TIMEOUT_MS = 60_000;
const GROUP = "albums-0";
const MIB = 1024 * 1024;

const NOTHING_DECIDED: DecidedMark = { seq: seqOf(0n), epoch: epochOf(0n) };

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

/** A log and one owner's calls on it. */
class Owner {
  readonly log: GroupLog;
  readonly name: string;
  readonly epoch: Epoch;

  constructor(log: GroupLog, name: string, epoch: bigint) {
    this.log = log;
    this.name = name;
    this.epoch = epochOf(epoch);
  }

  async raise(): Promise<LogTail> {
    const outcome = await this.log.raise({ group: GROUP, epoch: this.epoch, owner: this.name }, TIMEOUT_MS);
    if (outcome.kind === "raised") return outcome.tail;
    expectEqual(outcome, "raised", `raise of epoch ${this.epoch} by ${this.name}`);
    throw new Error("not reached");
  }

  append(
    seq: bigint,
    content: Uint8Array,
    previousEpoch: bigint = seq === 1n ? 0n : this.epoch,
    ceilingUs = 100n,
    decided: DecidedMark = NOTHING_DECIDED,
  ): Promise<AppendOutcome> {
    const request: AppendRequest = {
      group: GROUP,
      epoch: this.epoch,
      owner: this.name,
      seq: seqOf(seq),
      previousEpoch: epochOf(previousEpoch),
      timestampCeilingUs: timestampUsOf(ceilingUs),
      bytes: content,
      rows: new Uint8Array(),
      decided,
    };
    return this.log.append(request, TIMEOUT_MS);
  }

  async logs(seq: bigint, content: Uint8Array, previousEpoch?: bigint, ceilingUs?: bigint): Promise<void> {
    expectEqual(await this.append(seq, content, previousEpoch, ceilingUs), { kind: "logged" }, `append of ${seq}`);
  }

  advance(seq: bigint, epoch: bigint = this.epoch): Promise<"advanced" | "unknown"> {
    const decided = { seq: seqOf(seq), epoch: epochOf(epoch) };
    return this.log.advance({ group: GROUP, epoch: this.epoch, owner: this.name, decided }, TIMEOUT_MS);
  }
}

function simple(name: string, run: (log: GroupLog, subject: GroupLogSubject) => Promise<void>): Case {
  return {
    name,
    async run(open) {
      const subject = await open();
      await run(subject.log, subject);
    },
  };
}

/** Owner "a" of epoch 1 with `count` logged entries: content of seq n is the one byte n. */
async function withEntries(log: GroupLog, count: number): Promise<Owner> {
  const owner = new Owner(log, "a", 1n);
  await owner.raise();
  for (let seq = 1; seq <= count; seq += 1) await owner.logs(BigInt(seq), bytes(seq));
  return owner;
}

const entriesOf = (tail: LogTail): unknown[] => tail.entries.map((entry) => [entry.seq, entry.epoch, Uint8Array.from(entry.bytes)]);

const EPOCH_CASES: readonly Case[] = [
  simple("status: never raised: epoch 0 without owner", async (log) => {
    expectEqual(await log.status(GROUP, TIMEOUT_MS), { promisedEpoch: 0n, owner: "" }, "status");
  }),
  simple("raise: first: an empty tail", async (log) => {
    const { appliesRows: _either, ...tail } = await new Owner(log, "a", 1n).raise();
    expectEqual(tail, { appliedSeq: 0n, appliedEpoch: 0n, entries: [], timestampCeilingUs: 0n }, "tail");
  }),
  simple("status: after a raise: that promise", async (log) => {
    await new Owner(log, "a", 7n).raise();
    expectEqual(await log.status(GROUP, TIMEOUT_MS), { promisedEpoch: 7n, owner: "a" }, "status");
  }),
  simple("raise: same epoch and owner again: raised", async (log) => {
    await new Owner(log, "a", 2n).raise();
    await new Owner(log, "a", 2n).raise();
  }),
  simple("raise: same epoch of another owner: refused, the promise told", async (log) => {
    await new Owner(log, "a", 2n).raise();
    expectEqual(
      await log.raise({ group: GROUP, epoch: epochOf(2n), owner: "b" }, TIMEOUT_MS),
      { kind: "refused", promisedEpoch: 2n, owner: "a" },
      "raise",
    );
  }),
  simple("raise: older epoch: refused", async (log) => {
    await new Owner(log, "a", 3n).raise();
    expectEqual(
      await log.raise({ group: GROUP, epoch: epochOf(2n), owner: "b" }, TIMEOUT_MS),
      { kind: "refused", promisedEpoch: 3n, owner: "a" },
      "raise",
    );
  }),
  simple("raise: older epoch of the same owner: refused", async (log) => {
    await new Owner(log, "a", 3n).raise();
    expectEqual((await log.raise({ group: GROUP, epoch: epochOf(2n), owner: "a" }, TIMEOUT_MS)).kind, "refused", "raise");
  }),
  simple("raise: newer epoch of another owner: raised", async (log) => {
    await new Owner(log, "a", 3n).raise();
    await new Owner(log, "b", 4n).raise();
    expectEqual(await log.status(GROUP, TIMEOUT_MS), { promisedEpoch: 4n, owner: "b" }, "status");
  }),
  simple("verify: the promised owner: current", async (log) => {
    await new Owner(log, "a", 1n).raise();
    expectEqual(await log.verify({ group: GROUP, epoch: epochOf(1n), owner: "a" }, TIMEOUT_MS), "current", "verify");
  }),
  simple("verify: after a newer raise: fenced", async (log) => {
    await new Owner(log, "a", 1n).raise();
    await new Owner(log, "b", 2n).raise();
    expectEqual(await log.verify({ group: GROUP, epoch: epochOf(1n), owner: "a" }, TIMEOUT_MS), "fenced", "verify");
  }),
  simple("verify: another owner of the epoch: fenced", async (log) => {
    await new Owner(log, "a", 1n).raise();
    expectEqual(await log.verify({ group: GROUP, epoch: epochOf(1n), owner: "b" }, TIMEOUT_MS), "fenced", "verify");
  }),
];

const APPEND_CASES: readonly Case[] = [
  simple("append: in sequence: the next owner's tail has all of it in order", async (log) => {
    await withEntries(log, 3);
    const tail = await new Owner(log, "b", 2n).raise();
    expectEqual(
      entriesOf(tail),
      [
        [1n, 1n, bytes(1)],
        [2n, 1n, bytes(2)],
        [3n, 1n, bytes(3)],
      ],
      "tail",
    );
  }),
  simple("append: never raised: fenced, nothing kept", async (log) => {
    expectEqual((await new Owner(log, "a", 1n).append(1n, bytes(1))).kind, "fenced", "append");
    expectEqual(entriesOf(await new Owner(log, "b", 2n).raise()), [], "tail");
  }),
  simple("append: epoch above the promised one: fenced", async (log) => {
    await new Owner(log, "a", 1n).raise();
    expectEqual((await new Owner(log, "a", 2n).append(1n, bytes(1))).kind, "fenced", "append");
  }),
  simple("append: after a newer raise: fenced with the newer epoch, nothing kept", async (log) => {
    const old = await withEntries(log, 1);
    const fresh = new Owner(log, "b", 5n);
    await fresh.raise();
    expectEqual(await old.append(2n, bytes(2)), { kind: "fenced", promisedEpoch: 5n }, "append");
    expectEqual(entriesOf(await fresh.raise()), [[1n, 1n, bytes(1)]], "tail");
  }),
  simple("append: another owner of the epoch: fenced", async (log) => {
    await new Owner(log, "a", 1n).raise();
    expectEqual((await new Owner(log, "b", 1n).append(1n, bytes(1))).kind, "fenced", "append");
  }),
  simple("append: the identical one again: logged, held once", async (log) => {
    const owner = await withEntries(log, 2);
    await owner.logs(2n, bytes(2));
    await owner.logs(1n, bytes(1));
    expectEqual(
      entriesOf(await owner.raise()),
      [
        [1n, 1n, bytes(1)],
        [2n, 1n, bytes(2)],
      ],
      "tail",
    );
  }),
  simple("append: other content under the same seq and epoch: refused, the first stays", async (log) => {
    const owner = await withEntries(log, 1);
    await expectCode(() => owner.append(1n, bytes(9)), "IDEMPOTENCY_MISMATCH", "append");
    expectEqual(entriesOf(await owner.raise()), [[1n, 1n, bytes(1)]], "tail");
  }),
  simple("append: leaves a gap: refused, nothing kept", async (log) => {
    const owner = await withEntries(log, 1);
    await expectCode(() => owner.append(3n, bytes(3)), "SEQUENCE_GAP", "append");
    const { appliedSeq, entries } = await owner.raise();
    expectEqual(appliedSeq + BigInt(entries.length), 1n, "last entry");
  }),
  simple("append: on top of another epoch than the held one: refused", async (log) => {
    await withEntries(log, 1);
    const next = new Owner(log, "b", 3n);
    await next.raise();
    await expectCode(() => next.append(2n, bytes(2), 2n), "SEQUENCE_GAP", "append");
  }),
  simple("append: a tail again under a new epoch: its epoch changes, what follows stays", async (log) => {
    await withEntries(log, 2);
    const next = new Owner(log, "b", 2n);
    await next.raise();
    await next.logs(1n, bytes(1), 0n);
    const third = new Owner(log, "c", 3n);
    expectEqual(
      entriesOf(await third.raise()),
      [
        [1n, 2n, bytes(1)],
        [2n, 1n, bytes(2)],
      ],
      "tail",
    );
  }),
  simple("append: after a tail appended again: goes on", async (log) => {
    await withEntries(log, 1);
    const next = new Owner(log, "b", 2n);
    await next.raise();
    await next.logs(1n, bytes(1), 0n);
    await next.logs(2n, bytes(7));
    expectEqual(
      entriesOf(await next.raise()),
      [
        [1n, 2n, bytes(1)],
        [2n, 2n, bytes(7)],
      ],
      "tail",
    );
  }),
  simple("append: ceilings: the largest is reported", async (log) => {
    const owner = await withEntries(log, 0);
    await owner.logs(1n, bytes(1), 0n, 500n);
    await owner.logs(2n, bytes(2), 1n, 400n);
    expectEqual((await new Owner(log, "b", 2n).raise()).timestampCeilingUs, 500n, "ceiling");
  }),
  simple("append: 1 MiB: logged; a byte more: LIMIT_EXCEEDED", async (log) => {
    const owner = await withEntries(log, 0);
    await owner.logs(1n, new Uint8Array(MIB).fill(7));
    await expectCode(() => owner.append(2n, new Uint8Array(MIB + 1)), "LIMIT_EXCEEDED", "append");
  }),
  simple("groups: independent of each other", async (log) => {
    await withEntries(log, 1);
    expectEqual(await log.status("albums-1", TIMEOUT_MS), { promisedEpoch: 0n, owner: "" }, "status");
    const outcome = await log.raise({ group: "albums-1", epoch: epochOf(1n), owner: "z" }, TIMEOUT_MS);
    expectEqual(outcome.kind === "raised" && outcome.tail.entries.length, 0, "entries");
  }),
];

const ADVANCE_CASES: readonly Case[] = [
  simple("advance: entries up to the mark leave the tail, the mark is reported", async (log) => {
    const owner = await withEntries(log, 3);
    await owner.advance(2n);
    const tail = await new Owner(log, "b", 2n).raise();
    expectEqual([tail.appliedSeq, tail.appliedEpoch, entriesOf(tail)], [2n, 1n, [[3n, 1n, bytes(3)]]], "tail");
  }),
  simple("advance: an older mark: changes nothing", async (log) => {
    const owner = await withEntries(log, 3);
    await owner.advance(2n);
    await owner.advance(1n);
    const tail = await owner.raise();
    expectEqual([tail.appliedSeq, tail.entries.length], [2n, 1], "tail");
  }),
  simple("advance: by a fenced owner: changes nothing", async (log) => {
    const owner = await withEntries(log, 2);
    const next = new Owner(log, "b", 2n);
    await next.raise();
    await owner.advance(2n).catch(() => undefined);
    expectEqual((await next.raise()).appliedSeq, 0n, "applied");
  }),
  simple("advance: appends go on after it", async (log) => {
    const owner = await withEntries(log, 2);
    await owner.advance(2n);
    await owner.logs(3n, bytes(3));
    expectEqual(entriesOf(await owner.raise()), [[3n, 1n, bytes(3)]], "tail");
  }),
  simple("advance: the ceiling stays", async (log) => {
    const owner = await withEntries(log, 2);
    await owner.advance(2n);
    expectEqual((await owner.raise()).timestampCeilingUs, 100n, "ceiling");
  }),
  simple("append: its mark leaves the tail as an advance does", async (log) => {
    const owner = await withEntries(log, 2);
    const decided = { seq: seqOf(2n), epoch: owner.epoch };
    expectEqual(await owner.append(3n, bytes(3), owner.epoch, 100n, decided), { kind: "logged" }, "append");
    const tail = await new Owner(log, "b", 2n).raise();
    expectEqual([tail.appliedSeq, entriesOf(tail)], [2n, [[3n, 1n, bytes(3)]]], "tail");
  }),
  simple("append: an applied entry again: logged, not held", async (log) => {
    const owner = await withEntries(log, 2);
    await owner.advance(2n);
    await owner.logs(2n, bytes(2));
    expectEqual(entriesOf(await owner.raise()), [], "tail");
  }),
  simple("restart: promise, entries, mark and ceiling are there", async (log, subject) => {
    const owner = await withEntries(log, 3);
    await owner.advance(1n);
    const reopened = await subject.restart();
    expectEqual(await reopened.status(GROUP, TIMEOUT_MS), { promisedEpoch: 1n, owner: "a" }, "status");
    const tail = await new Owner(reopened, "b", 2n).raise();
    expectEqual(
      [tail.appliedSeq, tail.appliedEpoch, tail.timestampCeilingUs, entriesOf(tail)],
      [
        1n,
        1n,
        100n,
        [
          [2n, 1n, bytes(2)],
          [3n, 1n, bytes(3)],
        ],
      ],
      "tail",
    );
  }),
  simple("restart: a fenced owner stays fenced", async (log, subject) => {
    const old = await withEntries(log, 1);
    await new Owner(log, "b", 2n).raise();
    const reopened = new Owner(await subject.restart(), old.name, old.epoch);
    expectEqual((await reopened.append(2n, bytes(2))).kind, "fenced", "append");
  }),
];

const race = (log: GroupLog, owners: readonly Owner[]): Promise<RaiseOutcome[]> =>
  Promise.all(owners.map(({ epoch, name: owner }) => log.raise({ group: GROUP, epoch, owner }, TIMEOUT_MS)));

const RACE_CASES: readonly Case[] = [
  simple("race: one epoch, five owners at once: at most one has it, and it is the one that status names", async (log) => {
    const owners = ["a", "b", "c", "d", "e"].map((name) => new Owner(log, name, 3n));
    const raised = (await race(log, owners)).flatMap((outcome, at) => (outcome.kind === "raised" ? [owners[at]!.name] : []));
    expectEqual(raised.length <= 1, true, "at most one");
    if (raised.length === 1) expectEqual(await log.status(GROUP, TIMEOUT_MS), { promisedEpoch: 3n, owner: raised[0] }, "status");
    await new Owner(log, "f", 4n).raise();
  }),
  simple("race: ten epochs at once: the highest is raised, every other one is fenced", async (log) => {
    const owners = Array.from({ length: 10 }, (_, at) => new Owner(log, `o${at}`, BigInt(at + 1)));
    const outcomes = await race(log, owners);
    expectEqual(outcomes.at(-1)?.kind, "raised", "highest");
    for (const owner of owners.slice(0, -1)) expectEqual((await owner.append(1n, bytes(1))).kind, "fenced", `append of ${owner.name}`);
    await owners.at(-1)!.logs(1n, bytes(10));
  }),
  simple("race: an append and a newer raise: what was logged is in the tail, what was fenced is the next owner's to say", async (log) => {
    const old = await withEntries(log, 1);
    const fresh = new Owner(log, "b", 2n);
    const [appended, tail] = await Promise.all([old.append(2n, bytes(2)), fresh.raise()]);
    const seen = tail.entries.map(({ seq }) => seq);
    if (appended.kind === "logged") expectEqual(seen, [1n, 2n], "tail");
    expectEqual(seen[0], 1n, "first entry");
    expectEqual((await old.append(2n, bytes(2))).kind, "fenced", "append after it");
  }),
  simple("race: both epochs append the same seq: only the newer one's content is logged", async (log) => {
    const old = await withEntries(log, 1);
    const fresh = new Owner(log, "b", 2n);
    await fresh.raise();
    await fresh.logs(1n, bytes(1), 0n);
    const [late, logged] = await Promise.all([old.append(2n, bytes(66)), fresh.append(2n, bytes(22))]);
    expectEqual([late.kind, logged.kind], ["fenced", "logged"], "appends");
    expectEqual(entriesOf(await fresh.raise()).at(-1), [2n, 2n, bytes(22)], "last entry");
  }),
  simple("race: the identical append ten times at once: logged, held once", async (log) => {
    const owner = await withEntries(log, 1);
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => owner.append(2n, bytes(2))));
    expectEqual(
      outcomes.map(({ kind }) => kind),
      outcomes.map(() => "logged"),
      "outcomes",
    );
    expectEqual((await owner.raise()).entries.length, 2, "entries");
  }),
];

const CONTENT_CASES: readonly Case[] = [
  simple("append: every byte value: as it was given", async (log) => {
    const owner = await withEntries(log, 0);
    const content = Uint8Array.from({ length: 256 }, (_, at) => at);
    await owner.logs(1n, content);
    expectEqual(entriesOf(await owner.raise()), [[1n, 1n, content]], "tail");
  }),
  simple("append: 120 entries: the next owner's tail has all of them in order", async (log) => {
    await withEntries(log, 120);
    const { entries } = await new Owner(log, "b", 2n).raise();
    expectEqual(
      entries.map(({ seq, bytes: [first] }) => [seq, first]),
      Array.from({ length: 120 }, (_, at) => [BigInt(at + 1), at + 1]),
      "tail",
    );
  }),
  simple("append: three entries of 1 MiB: each whole in the tail", async (log) => {
    const owner = await withEntries(log, 0);
    for (const seq of [1n, 2n, 3n]) await owner.logs(seq, new Uint8Array(MIB).fill(Number(seq)));
    const { entries } = await new Owner(log, "b", 2n).raise();
    expectEqual(
      entries.map(({ bytes: content }) => [content.length, content.every((byte) => byte === content[0]), content[0]]),
      [1, 2, 3].map((seq) => [MIB, true, seq]),
      "tail",
    );
  }),
  simple("names: beyond ASCII, or the beginning of another: groups and owners of their own", async (log) => {
    const names = ["albums", "albums-\u00e4\u{1f600}", "albums-a\u0308", "\u00e4"];
    for (const [at, group] of names.entries()) {
      const outcome = await log.raise({ group, epoch: epochOf(BigInt(at + 1)), owner: `\u00fc${group}` }, TIMEOUT_MS);
      expectEqual(outcome.kind, "raised", group);
    }
    for (const [at, group] of names.entries())
      expectEqual(await log.status(group, TIMEOUT_MS), { promisedEpoch: BigInt(at + 1), owner: `\u00fc${group}` }, group);
  }),
  simple("verify: never raised, or an epoch above the promised one: fenced", async (log) => {
    const owner = { group: GROUP, epoch: epochOf(2n), owner: "a" };
    expectEqual(await log.verify(owner, TIMEOUT_MS), "fenced", "never raised");
    await new Owner(log, "a", 1n).raise();
    expectEqual(await log.verify(owner, TIMEOUT_MS), "fenced", "above");
    expectEqual((await log.status(GROUP, TIMEOUT_MS)).promisedEpoch, 1n, "verify promises nothing");
  }),
  simple("restart: twice, with appends in between: nothing is missing, the mark does not go back", async (log, subject) => {
    await withEntries(log, 2);
    const again = new Owner(await subject.restart(), "a", 1n);
    await again.logs(3n, bytes(3));
    await again.advance(2n);
    const next = new Owner(await subject.restart(), "b", 2n);
    const tail = await next.raise();
    expectEqual([tail.appliedSeq, entriesOf(tail)], [2n, [[3n, 1n, bytes(3)]]], "tail");
    await next.logs(3n, bytes(3), 1n);
    await next.logs(4n, bytes(4));
  }),
];

const MALFORMED: readonly (readonly [string, (owner: Owner) => Promise<unknown>])[] = [
  ["raise: no group", ({ log }) => log.raise({ group: "", epoch: epochOf(2n), owner: "a" }, TIMEOUT_MS)],
  ["raise: no owner", ({ log }) => log.raise({ group: GROUP, epoch: epochOf(2n), owner: "" }, TIMEOUT_MS)],
  ["raise: epoch 0", ({ log }) => log.raise({ group: GROUP, epoch: epochOf(0n), owner: "a" }, TIMEOUT_MS)],
  ["append: seq 0", (owner) => owner.append(0n, bytes(1))],
  ["append: seq 1 on top of an epoch", (owner) => owner.append(1n, bytes(1), 1n)],
  ["append: no content", (owner) => owner.append(1n, bytes())],
];

const MALFORMED_CASES: readonly Case[] = MALFORMED.map(([name, act]) =>
  simple(`${name}: MALFORMED_REQUEST, nothing changed`, async (log) => {
    const owner = await withEntries(log, 0);
    await expectCode(() => act(owner), "MALFORMED_REQUEST", name);
    expectEqual(await log.status(GROUP, TIMEOUT_MS), { promisedEpoch: 1n, owner: "a" }, "status");
    expectEqual(entriesOf(await owner.raise()), [], "tail");
  }),
);

/** What every GroupLog keeps (TXD1, TXD4, TXR1-TXR3). */
export const GROUP_LOG_CASES: readonly Case[] = [
  ...EPOCH_CASES,
  ...APPEND_CASES,
  ...ADVANCE_CASES,
  ...RACE_CASES,
  ...CONTENT_CASES,
  ...MALFORMED_CASES,
];

export function groupLogContract(test: TestFunction, open: () => Promise<GroupLogSubject>): void {
  registerContract(test, "GroupLog", GROUP_LOG_CASES, open);
}
