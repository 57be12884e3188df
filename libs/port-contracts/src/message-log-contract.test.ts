// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog } from "./memory-message-log.ts";
import type { LogBounds, LogPage, LogSession, LogTopic, NewMessage, PageLimits, Publication } from "@concord/ports";
import { failedCases } from "./contract.ts";
import { MESSAGE_LOG_CASES, messageLogContract, type MessageLogSubject } from "./message-log-contract.ts";

function subjectOf(log: MemoryMessageLog): MessageLogSubject {
  return { log, restart: async () => log.restart() };
}

/** A log whose sessions publish otherwise. */
abstract class Publishes extends MemoryMessageLog {
  override async open(partition: number, owner: string): Promise<LogSession> {
    const session = await super.open(partition, owner);
    return { ...session, publish: (publication) => this.publishBy(session, publication, partition) };
  }

  abstract publishBy(session: LogSession, publication: Publication, partition: number): ReturnType<LogSession["publish"]>;
}

/** As an input that others write to in transactions. */
class LeavesGaps extends MemoryMessageLog {
  override async append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    const appended = await super.append(partition, messages);
    this.skip("input", partition, 1);
    return appended;
  }
}

class LeavesGapsInside extends MemoryMessageLog {
  override async append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    const [first, ...others] = messages;
    const appended = await super.append(partition, first === undefined ? [] : [first]);
    for (const message of others) {
      this.skip("input", partition, 1);
      await super.append(partition, [message]);
    }
    return appended;
  }
}

class TakesAnySize extends MemoryMessageLog {
  override readonly appendBytesMax = 1 << 20;
}

class IsNeverAssigned extends MemoryMessageLog {
  override async isAssigned(): Promise<boolean> {
    return false;
  }
}

class AcknowledgesByItself extends Publishes {
  #acknowledged = 0n;

  override async open(partition: number, owner: string): Promise<LogSession> {
    const session = await super.open(partition, owner);
    return { ...session, acknowledgedInput: this.#acknowledged };
  }

  async publishBy(session: LogSession, publication: Publication): ReturnType<LogSession["publish"]> {
    this.#acknowledged = publication.acknowledgedInput;
    return session.publish({ ...publication, acknowledgedInput: 0n });
  }
}

class NeverAcknowledges extends Publishes {
  async publishBy(session: LogSession, publication: Publication): ReturnType<LogSession["publish"]> {
    return session.publish({ ...publication, acknowledgedInput: session.acknowledgedInput });
  }
}

/** The zombie gets in: any publisher becomes the owner again. */
class FencesNoOwner extends Publishes {
  async publishBy(_session: LogSession, publication: Publication, partition: number): ReturnType<LogSession["publish"]> {
    return (await MemoryMessageLog.prototype.open.call(this, partition, "zombie")).publish(publication);
  }
}

class FencesByName extends MemoryMessageLog {
  readonly #sessions = new Map<string, LogSession>();

  override async open(partition: number, owner: string): Promise<LogSession> {
    const name = `${partition} ${owner}`;
    const session = await super.open(partition, owner);
    this.#sessions.set(name, session);
    return { ...session, publish: (publication) => this.#sessions.get(name)!.publish(publication) };
  }
}

class JumpsToTheStart extends MemoryMessageLog {
  override async read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    const { start } = await this.bounds(topic, partition);
    return super.read(topic, partition, from < start ? start : from, limits);
  }
}

class JumpsToTheEnd extends MemoryMessageLog {
  override async read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    const { end } = await this.bounds(topic, partition);
    return super.read(topic, partition, from > end ? end : from, limits);
  }
}

class LosesDeadLetters extends Publishes {
  async publishBy(session: LogSession, publication: Publication): ReturnType<LogSession["publish"]> {
    return session.publish({ ...publication, deadLetters: publication.deadLetters.slice(1) });
  }
}

class LosesRerouted extends Publishes {
  async publishBy(session: LogSession, publication: Publication): ReturnType<LogSession["publish"]> {
    return session.publish({ ...publication, rerouted: [] });
  }
}

/** The output is visible though the publication was refused. */
class WritesBeforeItChecks extends Publishes {
  async publishBy(session: LogSession, publication: Publication): ReturnType<LogSession["publish"]> {
    const { acknowledgedInput } = session;
    await session.publish({ output: publication.output, deadLetters: [], rerouted: [], acknowledgedInput });
    return session.publish({ ...publication, output: [] });
  }
}

class IgnoresPageMessages extends MemoryMessageLog {
  override read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    return super.read(topic, partition, from, { ...limits, messages: 1000 });
  }
}

class IgnoresPageBytes extends MemoryMessageLog {
  override read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    return super.read(topic, partition, from, { ...limits, bytes: 1 << 20 });
  }
}

class GoesOnTooFar extends MemoryMessageLog {
  override async read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    const page = await super.read(topic, partition, from, limits);
    return { ...page, next: (await this.bounds(topic, partition)).end };
  }
}

class ResolvesAtOnce extends MemoryMessageLog {
  override async whenBeyond(): Promise<void> {
    await Promise.resolve();
  }
}

class NeverResolves extends MemoryMessageLog {
  override whenBeyond(): Promise<void> {
    return new Promise(() => undefined);
  }
}

/** Waits for appends only. */
class MissesAborts extends MemoryMessageLog {
  override whenBeyond(topic: LogTopic, partition: number, offset: bigint): Promise<void> {
    return super.whenBeyond(topic, partition, offset, new AbortController().signal);
  }
}

class StaleBounds extends MemoryMessageLog {
  readonly #first: LogBounds = { start: 0n, end: 0n };

  override async open(partition: number, owner: string): Promise<LogSession> {
    return { ...(await super.open(partition, owner)), output: this.#first };
  }
}

class DropsHeaders extends MemoryMessageLog {
  override append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    return super.append(
      partition,
      messages.map((message) => ({ ...message, headers: [...new Map(message.headers.map((each) => [each.name, each])).values()] })),
    );
  }
}

class DeduplicatesByItself extends MemoryMessageLog {
  readonly #seen = new Set<string>();

  override append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    const fresh = messages.filter(({ value }) => !this.#seen.has(`${partition} ${String(value)}`));
    for (const { value } of fresh) this.#seen.add(`${partition} ${String(value)}`);
    return super.append(partition, fresh);
  }
}

class TakesWhatFits extends MemoryMessageLog {
  override async append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    const answers = [];
    for (const message of messages) answers.push(await super.append(partition, [message]));
    return answers[0] ?? super.append(partition, messages);
  }
}

class ReordersLargePublications extends Publishes {
  async publishBy(session: LogSession, publication: Publication): ReturnType<LogSession["publish"]> {
    const { output } = publication;
    return session.publish({ ...publication, output: output.length > 100 ? output.toReversed() : output });
  }
}

class NullsAreEmpty extends MemoryMessageLog {
  override append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    return super.append(
      partition,
      messages.map((message) => ({ ...message, value: message.value ?? new Uint8Array() })),
    );
  }
}

class ForgetsEmptyValues extends MemoryMessageLog {
  override append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    return super.append(
      partition,
      messages.filter(({ value }) => value === null || value.length > 0),
    );
  }
}

/** The open finishes before what the old owner has on its way. */
class LetsTheLateOneLand extends Publishes {
  async publishBy(session: LogSession, publication: Publication, partition: number): ReturnType<LogSession["publish"]> {
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    const outcome = await session.publish(publication);
    return outcome.kind === "fenced" ? (await super.open(partition, "late")).publish(publication) : outcome;
  }
}

messageLogContract(test, async () => subjectOf(new MemoryMessageLog(2)));

test("MessageLog contract: gaps between appends: kept", async () => {
  assert.deepEqual(await failedCases(MESSAGE_LOG_CASES, async () => subjectOf(new LeavesGaps(2))), []);
});

test("MessageLog contract: size: at least 50 cases", () => assert.ok(MESSAGE_LOG_CASES.length >= 50));

test("MessageLog contract: seeded fault loses its state at restart: found", async () => {
  const open = async (): Promise<MessageLogSubject> => ({ log: new MemoryMessageLog(2), restart: async () => new MemoryMessageLog(2) });
  assert.notDeepEqual(await failedCases(MESSAGE_LOG_CASES, open), []);
});

const FAULTS = [
  LeavesGapsInside,
  TakesAnySize,
  IsNeverAssigned,
  AcknowledgesByItself,
  NeverAcknowledges,
  FencesNoOwner,
  FencesByName,
  JumpsToTheStart,
  JumpsToTheEnd,
  LosesDeadLetters,
  LosesRerouted,
  WritesBeforeItChecks,
  IgnoresPageMessages,
  IgnoresPageBytes,
  GoesOnTooFar,
  ResolvesAtOnce,
  NeverResolves,
  MissesAborts,
  StaleBounds,
  DropsHeaders,
  LetsTheLateOneLand,
  DeduplicatesByItself,
  TakesWhatFits,
  ReordersLargePublications,
  ForgetsEmptyValues,
  NullsAreEmpty,
];

for (const Fault of FAULTS) {
  test(`MessageLog contract: seeded fault ${Fault.name}: found`, async () => {
    assert.notDeepEqual(await failedCases(MESSAGE_LOG_CASES, async () => subjectOf(new Fault(2))), []);
  });
}
