// The takeover's order of steps, told by a log that writes down every call.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryGroupLog } from "@concord/port-contracts";
import type { AdvanceRequest, AppendOutcome, AppendRequest, DecidedMark, GroupLog, GroupOwner, RaiseOutcome } from "@concord/ports";
import { ConcordError, epochOf, seqOf, sleep, timestampUsOf } from "@concord/runtime";
import { TAKE_OVER_ATTEMPTS_MAX } from "./limits.ts";
import { takeOver, type TakeOverOptions, type TakeOverOutcome } from "./take-over.ts";
import { bytesOf, text } from "./test/history.ts";
import { VirtualTime } from "./test/virtual-time.ts";

const GROUP = "albums";
const NOTHING: DecidedMark = { seq: seqOf(0n), epoch: epochOf(0n) };

/** A log that writes down what is asked of it; `fault` may answer in its place. */
class Recorded implements GroupLog {
  exchangesMax = 1;
  readonly inner = new MemoryGroupLog();
  readonly calls: string[] = [];
  readonly raiseBudgetsMs: number[] = [];
  readonly appendBudgetsMs: number[] = [];
  /** Of every raise and append; one that has less time is undecided, and carried out. */
  takesMs = 0;
  time = new VirtualTime();
  fault: (call: string) => "unknown" | "lost" | undefined = () => undefined;
  appliesRows = false;

  status(group: string): ReturnType<GroupLog["status"]> {
    if (this.fault("status") !== undefined) return Promise.reject(new ConcordError("REPLICAS_UNAVAILABLE", "no replica answers"));
    return this.inner.status(group);
  }

  async raise(owner: GroupOwner, timeoutMs?: number): Promise<RaiseOutcome> {
    this.calls.push(`raise ${owner.epoch}`);
    if (timeoutMs !== undefined) this.raiseBudgetsMs.push(timeoutMs);
    const fault = this.fault("raise");
    if (fault === "unknown") return { kind: "unknown" };
    const outcome = await this.inner.raise(owner);
    if (fault === "lost" || !(await this.#inTime(timeoutMs))) return { kind: "unknown" };
    return outcome.kind === "raised" ? { kind: "raised", tail: { ...outcome.tail, appliesRows: this.appliesRows } } : outcome;
  }

  async append(request: AppendRequest, timeoutMs?: number): Promise<AppendOutcome> {
    if (timeoutMs !== undefined) this.appendBudgetsMs.push(timeoutMs);
    const mark = this.appliesRows ? `, decided ${request.decided.seq}@${request.decided.epoch}` : "";
    this.calls.push(`append ${request.seq}@${request.epoch} on ${request.previousEpoch} ${text(request.bytes)}${mark}`);
    const fault = this.fault("append");
    if (fault === "unknown") return { kind: "unknown" };
    const outcome = await this.inner.append(request);
    return fault === "lost" || !(await this.#inTime(timeoutMs)) ? { kind: "unknown" } : outcome;
  }

  async #inTime(timeoutMs = Infinity): Promise<boolean> {
    if (this.takesMs > 0) await sleep(this.time, Math.min(timeoutMs, this.takesMs));
    return this.takesMs <= timeoutMs;
  }

  verify(owner: GroupOwner): Promise<"current" | "fenced" | "unknown"> {
    return this.inner.verify(owner);
  }

  async advance(request: AdvanceRequest): Promise<"advanced" | "unknown"> {
    this.calls.push(`advance ${request.decided.seq}@${request.decided.epoch}`);
    const fault = this.fault("advance");
    if (fault === "unknown") return "unknown";
    const outcome = await this.inner.advance(request);
    return fault === "lost" ? "unknown" : outcome;
  }
}

/** A log whose first owner logged two entries and died. */
async function abandoned(rows = ""): Promise<Recorded> {
  const log = new Recorded();
  await log.raise({ group: GROUP, epoch: epochOf(1n), owner: "dead" });
  for (const seq of [1n, 2n]) {
    const request = {
      group: GROUP,
      epoch: epochOf(1n),
      owner: "dead",
      seq: seqOf(seq),
      previousEpoch: seq - 1n,
      timestampCeilingUs: timestampUsOf(700n),
      bytes: bytesOf(`e${seq}`),
      rows: bytesOf(rows),
      decided: NOTHING,
    };
    await log.append({ ...request, previousEpoch: epochOf(seq === 1n ? 0n : 1n) });
  }
  log.calls.length = 0;
  return log;
}

function run(log: Recorded, change: Partial<TakeOverOptions> = {}): Promise<TakeOverOutcome> {
  const { time } = log;
  const apply: TakeOverOptions["apply"] = async ({ entries }) => {
    for (const entry of entries) log.calls.push(`apply ${entry.seq} ${text(entry.bytes)}`);
  };
  return time.run(takeOver(log, { group: GROUP, owner: "heir", timeoutMs: 100, clock: time, apply, ...change }), 600_000);
}

test("[TXD2] [TXR3] [LBD13] takeover: master died after logging: all is logged again, then applied in order, then trimmed, before it serves", async () => {
  const log = await abandoned();
  const outcome = await run(log);
  assert.deepEqual(log.calls, ["raise 2", "append 1@2 on 0 e1", "append 2@2 on 2 e2", "apply 1 e1", "apply 2 e2", "advance 2@2"]);
  assert.deepEqual(outcome, {
    kind: "taken",
    epoch: epochOf(2n),
    lastSeq: 2n,
    lastEpoch: epochOf(2n),
    timestampFloorUs: 700n,
    appliesRows: false,
  });
});

test("[TXD4] takeover: the floor of new timestamps is the ceiling the old master reserved", async () => {
  const outcome = await run(await abandoned());
  assert.equal(outcome.kind === "taken" && outcome.timestampFloorUs, 700n);
});

test("[TXD1] takeover: the old master's next append: fenced", async () => {
  const log = await abandoned();
  await run(log);
  const late = {
    group: GROUP,
    epoch: epochOf(1n),
    owner: "dead",
    seq: seqOf(3n),
    previousEpoch: epochOf(1n),
    timestampCeilingUs: timestampUsOf(0n),
    bytes: bytesOf("late"),
    rows: bytesOf(""),
    decided: NOTHING,
  };
  assert.deepEqual(await log.append(late), { kind: "fenced", promisedEpoch: epochOf(2n) });
});

test("[TXR3] takeover: nothing was ever logged: taken at once", async () => {
  const log = new Recorded();
  assert.deepEqual(await run(log), {
    kind: "taken",
    epoch: epochOf(1n),
    lastSeq: 0n,
    lastEpoch: epochOf(0n),
    timestampFloorUs: 0n,
    appliesRows: false,
  });
  assert.deepEqual(log.calls, ["raise 1"]);
});

test("[TXR3] takeover: all was applied: the next entry stands on the mark", async () => {
  const log = await abandoned();
  await run(log);
  log.calls.length = 0;
  const outcome = await run(log, { owner: "next" });
  assert.deepEqual(log.calls, ["raise 3"]);
  assert.deepEqual([outcome.kind === "taken" && outcome.lastSeq, outcome.kind === "taken" && outcome.lastEpoch], [2n, 2n]);
});

for (const fault of ["unknown", "lost"] as const) {
  test(`takeover: answers ${fault}: the same calls again, the same end`, async () => {
    const log = await abandoned();
    let count = 0;
    log.fault = () => ((count += 1) % 2 === 1 ? fault : undefined);
    const outcome = await run(log);
    assert.equal(outcome.kind, "taken");
    assert.deepEqual(
      [...new Set(log.calls)],
      ["raise 2", "append 1@2 on 0 e1", "append 2@2 on 2 e2", "apply 1 e1", "apply 2 e2", "advance 2@2"],
    );
  });
}

test("takeover: an apply fails for a while: tried again, nothing is trimmed before", async () => {
  const log = await abandoned();
  let failures = 3;
  const apply: TakeOverOptions["apply"] = async ({ entries }) => {
    log.calls.push(`apply ${entries.map((entry) => entry.seq).join(" ")}`);
    failures -= 1;
    if (failures >= 0) throw new ConcordError("WRITE_TIMEOUT", "too slow");
  };
  assert.equal((await run(log, { apply })).kind, "taken");
  assert.deepEqual(log.calls.slice(3), ["apply 1 2", "apply 1 2", "apply 1 2", "apply 1 2", "advance 2@2"]);
});

test("takeover: an apply fails for good: its error, nothing trimmed", async () => {
  const log = await abandoned();
  const apply: TakeOverOptions["apply"] = async () => {
    throw new ConcordError("CORRUPT_DATA", "an entry cannot be read");
  };
  await assert.rejects(run(log, { apply }), { code: "CORRUPT_DATA" });
  assert.ok(!log.calls.some((call) => call.startsWith("advance")));
});

test("[TXD1] takeover: another owner raised between status and raise: refused", async () => {
  const log = await abandoned();
  log.status = async () => {
    await log.inner.raise({ group: GROUP, epoch: epochOf(9n), owner: "other" });
    return { promisedEpoch: epochOf(1n), owner: "dead" };
  };
  assert.deepEqual(await run(log), { kind: "refused", promisedEpoch: epochOf(9n) });
});

test("takeover: no replica answers: unavailable after a bounded number of tries", async () => {
  const log = await abandoned();
  log.fault = (call) => (call === "raise" ? "unknown" : undefined);
  assert.deepEqual(await run(log), { kind: "unavailable" });
  assert.equal(log.calls.length, TAKE_OVER_ATTEMPTS_MAX);
});

test("[TX17] takeover: one replica is gone, another was not reachable for a moment: asked again soon, not after the budget of a call", async () => {
  const log = await abandoned();
  let failures = 5;
  log.fault = (call) => (call === "raise" && (failures -= 1) >= 0 ? "unknown" : undefined);
  assert.equal((await run(log, { timeoutMs: 3_000 })).kind, "taken");
  assert.deepEqual(log.raiseBudgetsMs, [200, 400, 800, 1_600, 3_000, 3_000]);
});

test("[TXC1] takeover: the log makes three exchanges in a call: each try has time for three, at most the budget of three", async () => {
  const log = await abandoned();
  log.exchangesMax = 3;
  let failures = 3;
  log.fault = (call) => (call === "raise" && (failures -= 1) >= 0 ? "unknown" : undefined);
  assert.equal((await run(log, { timeoutMs: 1_000 })).kind, "taken");
  assert.deepEqual(log.raiseBudgetsMs, [600, 1_200, 2_400, 3_000]);
});

test("[TXC1] takeover: replicas are slow: the time that a raise needed is what the first try of each append has", async () => {
  const log = await abandoned();
  log.takesMs = 700;
  assert.equal((await run(log, { timeoutMs: 3_000 })).kind, "taken");
  assert.deepEqual(
    [log.raiseBudgetsMs, log.appendBudgetsMs],
    [
      [200, 400, 800],
      [800, 800],
    ],
  );
});

test("takeover: answers fail at once: the next step's first try has no more time for it", async () => {
  const log = await abandoned();
  let failures = 3;
  log.fault = (call) => (call === "raise" && (failures -= 1) >= 0 ? "unknown" : undefined);
  assert.equal((await run(log, { timeoutMs: 3_000 })).kind, "taken");
  assert.deepEqual(
    [log.raiseBudgetsMs, log.appendBudgetsMs],
    [
      [200, 400, 800, 1_600],
      [200, 200],
    ],
  );
});

test("takeover: aborted: unavailable", async () => {
  const signal = AbortSignal.abort();
  assert.deepEqual(await run(await abandoned(), { signal }), { kind: "unavailable" });
});

test("[TXD14] [TXR3] takeover: the replicas apply: each entry's mark with the next, the last one at a majority before it serves", async () => {
  const log = await abandoned("rows");
  log.appliesRows = true;
  let refusals = 2;
  log.fault = (call) => (call === "advance" && (refusals -= 1) >= 0 ? "unknown" : undefined);
  const outcome = await run(log);
  assert.deepEqual(
    [outcome.kind, log.calls],
    [
      "taken",
      [
        "raise 2",
        "append 1@2 on 0 e1, decided 0@0",
        "append 2@2 on 2 e2, decided 1@2",
        "apply 1 e1",
        "apply 2 e2",
        "advance 2@2",
        "advance 2@2",
        "advance 2@2",
      ],
    ],
  );
});

test("[TXD14] takeover: an entry without rows, from before replicas applied: no mark before its owner has applied it", async () => {
  const log = await abandoned();
  log.appliesRows = true;
  await run(log);
  assert.deepEqual(log.calls.slice(1, 3), ["append 1@2 on 0 e1, decided 0@0", "append 2@2 on 2 e2, decided 0@0"]);
});
