// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryGroupLog } from "./memory-group-log.ts";
import type { AdvanceRequest, AppendOutcome, AppendRequest, GroupOwner, RaiseOutcome } from "@concord/ports";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { failedCases } from "./contract.ts";
import { GROUP_LOG_CASES, groupLogContract, type GroupLogSubject } from "./group-log-contract.ts";

function subjectOf(make: () => MemoryGroupLog): () => Promise<GroupLogSubject> {
  return async () => {
    const log = make();
    return { log, restart: async () => log };
  };
}

/** Accepts what a fenced owner sends: raises the epoch back first. */
class AcceptsOldEpochs extends MemoryGroupLog {
  override async append(request: AppendRequest): Promise<AppendOutcome> {
    const { promisedEpoch, owner } = await this.status(request.group);
    return request.epoch < promisedEpoch ? super.append({ ...request, epoch: promisedEpoch, owner }) : super.append(request);
  }
}

class AnyOwnerOfTheEpoch extends MemoryGroupLog {
  override async append(request: AppendRequest): Promise<AppendOutcome> {
    const { promisedEpoch, owner } = await this.status(request.group);
    return super.append(request.epoch === promisedEpoch ? { ...request, owner } : request);
  }
}

class SharesAnEpoch extends MemoryGroupLog {
  override async raise(owner: GroupOwner): Promise<RaiseOutcome> {
    const outcome = await super.raise(owner);
    return outcome.kind === "refused" && outcome.promisedEpoch === owner.epoch ? super.raise({ ...owner, owner: outcome.owner }) : outcome;
  }
}

class AnswersBeforeItLogs extends MemoryGroupLog {
  override async append(request: AppendRequest): Promise<AppendOutcome> {
    return request.seq % 2n === 0n ? { kind: "logged" } : super.append(request);
  }
}

class AcceptsGaps extends MemoryGroupLog {
  override async append(request: AppendRequest): Promise<AppendOutcome> {
    try {
      return await super.append(request);
    } catch {
      return { kind: "logged" };
    }
  }
}

class ForgetsTheCeiling extends MemoryGroupLog {
  override append(request: AppendRequest): Promise<AppendOutcome> {
    return super.append({ ...request, timestampCeilingUs: timestampUsOf(0n) });
  }
}

class AdvancesForAnyOwner extends MemoryGroupLog {
  override async advance(request: AdvanceRequest): Promise<"advanced" | "unknown"> {
    const { promisedEpoch, owner } = await this.status(request.group);
    return super.advance({ ...request, epoch: promisedEpoch, owner });
  }
}

class ForgetsMarksOfAppends extends MemoryGroupLog {
  override append(request: AppendRequest): Promise<AppendOutcome> {
    return super.append({ ...request, decided: { seq: seqOf(0n), epoch: epochOf(0n) } });
  }
}

class VerifiesByOwnerOnly extends MemoryGroupLog {
  override async verify({ group, epoch }: GroupOwner): Promise<"current" | "fenced" | "unknown"> {
    return epoch === (await this.status(group)).promisedEpoch ? "current" : "fenced";
  }
}

class SevenBits extends MemoryGroupLog {
  override append(request: AppendRequest): Promise<AppendOutcome> {
    return super.append({ ...request, bytes: request.bytes.map((byte) => byte & 127) });
  }
}

class AnswersAPageOfTheTail extends MemoryGroupLog {
  override async raise(owner: GroupOwner): Promise<RaiseOutcome> {
    const outcome = await super.raise(owner);
    return outcome.kind === "raised" ? { ...outcome, tail: { ...outcome.tail, entries: outcome.tail.entries.slice(0, 100) } } : outcome;
  }
}

/** Judges by the promise of before it waited. */
class ChecksThenRaises extends MemoryGroupLog {
  override async raise(owner: GroupOwner): Promise<RaiseOutcome> {
    const { promisedEpoch } = await this.status(owner.group);
    await Promise.resolve();
    const outcome = await super.raise(owner);
    if (outcome.kind !== "refused" || owner.epoch <= promisedEpoch) return outcome;
    return super.raise({ group: owner.group, epoch: outcome.promisedEpoch, owner: outcome.owner });
  }
}

class NamesInASCII extends MemoryGroupLog {
  readonly #ascii = (name: string): string => name.replaceAll(/[^ -~]/gu, "?");

  override raise(owner: GroupOwner): Promise<RaiseOutcome> {
    return super.raise({ ...owner, owner: this.#ascii(owner.owner) });
  }
}

groupLogContract(
  test,
  subjectOf(() => new MemoryGroupLog()),
);

test("GroupLog contract: size: at least 50 cases", () => assert.ok(GROUP_LOG_CASES.length >= 50));

test("GroupLog contract: seeded fault loses its state at restart: found", async () => {
  const open = async (): Promise<GroupLogSubject> => ({ log: new MemoryGroupLog(), restart: async () => new MemoryGroupLog() });
  assert.notDeepEqual(await failedCases(GROUP_LOG_CASES, open), []);
});

const FAULTS = [
  AcceptsOldEpochs,
  AnyOwnerOfTheEpoch,
  SharesAnEpoch,
  AnswersBeforeItLogs,
  AcceptsGaps,
  ForgetsTheCeiling,
  AdvancesForAnyOwner,
  ForgetsMarksOfAppends,
  VerifiesByOwnerOnly,
  SevenBits,
  AnswersAPageOfTheTail,
  ChecksThenRaises,
  NamesInASCII,
];

for (const Fault of FAULTS) {
  test(`GroupLog contract: seeded fault ${Fault.name}: found`, async () => {
    assert.notDeepEqual(
      await failedCases(
        GROUP_LOG_CASES,
        subjectOf(() => new Fault()),
      ),
      [],
    );
  });
}
