import { toConcordError } from "@concord/runtime";
import type { LogMessage, LogSession, LogTopic, MessageLog, NewMessage, PageLimits, Publication, PublishOutcome } from "@concord/ports";
import { expectCode, expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

/** Empty logs of two partitions, and what tests can do to them. */
export interface MessageLogSubject {
  readonly log: MessageLog;
  /** Stops everything without a word and opens what is on disk. */
  restart(): Promise<MessageLog>;
}

type Case = ContractCase<MessageLogSubject>;

const ALL: PageLimits = { messages: 1000, bytes: 1 << 20 };
const RESOLVES_WITHIN_READS = 1000;
const NEVER = new AbortController().signal;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function simple(name: string, run: (log: MessageLog, subject: MessageLogSubject) => Promise<void>): Case {
  return {
    name,
    async run(open) {
      const subject = await open();
      await run(subject.log, subject);
    },
  };
}

function message(text: string): NewMessage {
  return { key: encoder.encode(text.slice(0, 8)), value: encoder.encode(text), headers: [], timestampMs: 1000 };
}

const messages = (...texts: string[]): NewMessage[] => texts.map(message);

function publication(change: Partial<Publication>): Publication {
  return { output: [], deadLetters: [], rerouted: [], acknowledgedInput: 0n, ...change };
}

async function texts(log: MessageLog, topic: LogTopic, partition = 0): Promise<string[]> {
  const { start } = await log.bounds(topic, partition);
  return (await readAll(log, topic, partition, start)).map((each) => decoder.decode(each.value));
}

async function readAll(log: MessageLog, topic: LogTopic, partition: number, from: bigint, limits = ALL): Promise<LogMessage[]> {
  const all: LogMessage[] = [];
  let next = from;
  for (;;) {
    const page = await log.read(topic, partition, next, limits);
    if (page.messages.length === 0) return all;
    all.push(...page.messages);
    if (page.next <= next) expectEqual(page.next, next + 1n, "a page with messages goes on");
    next = page.next;
  }
}

async function publishes(session: LogSession, change: Partial<Publication>): Promise<{ outputFrom: bigint; deadLettersFrom: bigint }> {
  const outcome = await session.publish(publication(change));
  if (outcome.kind !== "published") expectEqual(outcome.kind, "published", "publish");
  return outcome as Extract<PublishOutcome, { kind: "published" }>;
}

/** Waits by using the log, because a promise that is broken here never settles. */
async function expectResolves(log: MessageLog, waiting: Promise<unknown>): Promise<void> {
  let over = false;
  void waiting.then(() => (over = true));
  for (let turn = 0; turn < RESOLVES_WITHIN_READS && !over; turn += 1) await log.bounds("input", 0);
  expectEqual(over, true, "whenBeyond resolved");
}

async function expectFenced(session: LogSession, change: Partial<Publication>): Promise<void> {
  expectEqual((await session.publish(publication(change))).kind, "fenced", "publish of a fenced owner");
}

const INPUT_CASES: readonly Case[] = [
  simple("new: all topics are empty", async (log) => {
    expectEqual(log.partitions, 2, "partitions");
    for (const topic of ["input", "output", "dead-letters"] as const) {
      const { start, end } = await log.bounds(topic, 1);
      expectEqual(end, start, `end of ${topic}`);
      expectEqual(await log.read(topic, 1, start, ALL), { messages: [], next: start }, `page of ${topic}`);
    }
  }),
  simple("append: offsets are consecutive over calls", async (log) => {
    const { end } = await log.bounds("input", 0);
    expectEqual(await log.append(0, messages("a", "b")), { from: end }, "first");
    expectEqual(await log.append(0, messages("c")), { from: end + 2n }, "second");
    expectEqual(await log.bounds("input", 0), { start: end, end: end + 3n }, "bounds");
    const offsets = (await readAll(log, "input", 0, end)).map((each) => each.offset);
    expectEqual(offsets, [end, end + 1n, end + 2n], "offsets");
  }),
  simple("append: several at once: each whole and in its place", async (log) => {
    const answers = await Promise.all([["a", "b"], ["c"], ["d", "e"]].map((each) => log.append(0, messages(...each))));
    const all = await readAll(log, "input", 0, (await log.bounds("input", 0)).start);
    const at = (from: bigint, count: number): string[] => {
      const first = all.findIndex((each) => each.offset === from);
      return all.slice(first, first + count).map((each) => decoder.decode(each.value));
    };
    const [first, second, third] = answers.map((answer) => answer.from);
    expectEqual([at(first!, 2), at(second!, 1), at(third!, 2), all.length], [["a", "b"], ["c"], ["d", "e"], 5], "messages");
  }),
  simple("append: everything of a message comes back", async (log) => {
    const headers = [
      { name: "b", value: Uint8Array.of(1) },
      { name: "a", value: Uint8Array.of() },
      { name: "b", value: Uint8Array.of(0, 255) },
    ];
    const sent = { key: Uint8Array.of(), value: Uint8Array.of(0, 1, 255), headers, timestampMs: 1_700_000_000_123 };
    const { from } = await log.append(0, [sent]);
    expectEqual((await log.read("input", 0, from, ALL)).messages, [{ ...sent, offset: from }], "messages");
  }),
  simple("append: the caller's bytes change afterwards: the log's do not", async (log) => {
    const sent = message("before");
    await log.append(0, [sent]);
    sent.value.set(encoder.encode("AFTER!"));
    expectEqual(await texts(log, "input"), ["before"], "input");
  }),
  simple("append: the other partition is left alone", async (log) => {
    await log.append(0, messages("a"));
    expectEqual([await texts(log, "input", 0), await texts(log, "input", 1)], [["a"], []], "inputs");
  }),
  simple("partition: out of range: PARTITION_UNKNOWN", async (log) => {
    await expectCode(() => log.append(2, messages("a")), "PARTITION_UNKNOWN", "append");
    await expectCode(() => log.read("input", 2, 0n, ALL), "PARTITION_UNKNOWN", "read");
    await expectCode(() => log.bounds("output", -1), "PARTITION_UNKNOWN", "bounds");
    await expectCode(() => log.open(2, "owner"), "PARTITION_UNKNOWN", "open");
  }),
];

const READ_CASES: readonly Case[] = [
  simple("read: from the middle: from there on", async (log) => {
    const { from } = await log.append(0, messages("a", "b", "c"));
    const page = await log.read("input", 0, from + 1n, ALL);
    expectEqual(
      page.messages.map((each) => each.offset),
      [from + 1n, from + 2n],
      "offsets",
    );
    expectEqual(page.next, from + 3n, "next");
  }),
  simple("read: below the start or above the end: OFFSET_OUT_OF_RANGE, never a jump", async (log) => {
    const { from } = await log.append(0, messages("a"));
    await expectCode(() => log.read("input", 0, from - 1n, ALL), "OFFSET_OUT_OF_RANGE", "below");
    await expectCode(() => log.read("input", 0, from + 2n, ALL), "OFFSET_OUT_OF_RANGE", "above");
    expectEqual(await log.read("input", 0, from + 1n, ALL), { messages: [], next: from + 1n }, "at the end");
  }),
  simple("read: pages of a number of messages: all, once, in order", async (log) => {
    const sent = Array.from({ length: 7 }, (_, index) => `m${index}`);
    const { from } = await log.append(0, messages(...sent));
    const page = await log.read("input", 0, from, { messages: 3, bytes: 1 << 20 });
    expectEqual([page.messages.length, page.next], [3, from + 3n], "first page");
    const all = await readAll(log, "input", 0, from, { messages: 3, bytes: 1 << 20 });
    expectEqual(
      all.map((each) => decoder.decode(each.value)),
      sent,
      "all",
    );
  }),
  simple("read: pages of a number of bytes: end after the message that passes it", async (log) => {
    const { from } = await log.append(0, messages("a".repeat(1000), "b".repeat(1000), "c".repeat(1000)));
    const two = await log.read("input", 0, from, { messages: 10, bytes: 1500 });
    expectEqual([two.messages.length, two.next], [2, from + 2n], "1500 bytes");
    const one = await log.read("input", 0, from, { messages: 10, bytes: 1 });
    expectEqual([one.messages.length, one.next], [1, from + 1n], "1 byte");
  }),
  simple("read: again: the same", async (log) => {
    await log.append(0, messages("a", "b"));
    expectEqual(await texts(log, "input"), await texts(log, "input"), "texts");
  }),
  simple("whenBeyond: the end is above already: resolves", async (log) => {
    const { from } = await log.append(0, messages("a"));
    await expectResolves(log, log.whenBeyond("input", 0, from, NEVER));
  }),
  simple("whenBeyond: an append later: resolves then, not before", async (log) => {
    const { end } = await log.bounds("input", 0);
    let over = false;
    const waiting = log.whenBeyond("input", 0, end, NEVER).then(() => (over = true));
    await log.append(1, messages("elsewhere"));
    await log.bounds("input", 0);
    expectEqual(over, false, "resolved before");
    await log.append(0, messages("a"));
    await expectResolves(log, waiting);
  }),
  simple("whenBeyond: a publish: resolves for the output, and for the input it reroutes to", async (log) => {
    const session = await log.open(0, "owner");
    const output = log.whenBeyond("output", 0, session.output.end, NEVER);
    const input = log.whenBeyond("input", 1, (await log.bounds("input", 1)).end, NEVER);
    await publishes(session, { output: messages("a"), rerouted: [{ partition: 1, message: message("b") }] });
    await expectResolves(log, Promise.all([output, input]));
  }),
  simple("whenBeyond: aborted, before or while it waits: resolves", async (log) => {
    const { end } = await log.bounds("input", 0);
    await expectResolves(log, log.whenBeyond("input", 0, end, AbortSignal.abort()));
    const stop = new AbortController();
    const waiting = log.whenBeyond("input", 0, end, stop.signal);
    stop.abort();
    await expectResolves(log, waiting);
  }),
];

const PUBLISH_CASES: readonly Case[] = [
  simple("open: new: nothing is acknowledged", async (log) => {
    const session = await log.open(0, "owner");
    const { start } = await log.bounds("input", 0);
    expectEqual([session.acknowledgedInput, session.output], [start, await log.bounds("output", 0)], "session");
  }),
  simple("publish: all topics have their messages, offsets are reported", async (log) => {
    const { from } = await log.append(0, messages("x", "y", "z"));
    const session = await log.open(0, "owner");
    const at = session.output.end;
    const first = await publishes(session, { output: messages("a", "b"), deadLetters: messages("d"), acknowledgedInput: from + 2n });
    const second = await publishes(session, { output: messages("c"), deadLetters: messages("e"), acknowledgedInput: from + 3n });
    expectEqual([first.outputFrom, second.outputFrom, second.deadLettersFrom - first.deadLettersFrom], [at, at + 2n, 1n], "offsets");
    expectEqual(
      [await texts(log, "output"), await texts(log, "dead-letters")],
      [
        ["a", "b", "c"],
        ["d", "e"],
      ],
      "topics",
    );
    expectEqual(
      (await readAll(log, "output", 0, at)).map((each) => each.offset),
      [at, at + 1n, at + 2n],
      "output offsets",
    );
  }),
  simple("publish: everything of a message comes back", async (log) => {
    const session = await log.open(0, "owner");
    const sent = { ...message("a"), headers: [{ name: "concord-id", value: Uint8Array.of(1, 2) }], timestampMs: 77 };
    const { outputFrom, deadLettersFrom } = await publishes(session, { output: [sent], deadLetters: [sent] });
    expectEqual((await log.read("output", 0, outputFrom, ALL)).messages, [{ ...sent, offset: outputFrom }], "output");
    expectEqual((await log.read("dead-letters", 0, deadLettersFrom, ALL)).messages, [{ ...sent, offset: deadLettersFrom }], "dead");
  }),
  simple("publish: nothing but the acknowledged input: published", async (log) => {
    const { from } = await log.append(0, messages("x"));
    const session = await log.open(0, "owner");
    const { outputFrom } = await publishes(session, { acknowledgedInput: from + 1n });
    expectEqual([outputFrom, await texts(log, "output")], [session.output.end, []], "output");
    expectEqual((await log.open(0, "next")).acknowledgedInput, from + 1n, "acknowledged");
  }),
  simple("publish: two at once: both there, in call order", async (log) => {
    const { from } = await log.append(0, messages("x", "y"));
    const session = await log.open(0, "owner");
    const outcomes = await Promise.all([
      session.publish(publication({ output: messages("a"), acknowledgedInput: from + 1n })),
      session.publish(publication({ output: messages("b"), acknowledgedInput: from + 2n })),
    ]);
    expectEqual(
      outcomes.map((each) => each.kind),
      ["published", "published"],
      "outcomes",
    );
    expectEqual(await texts(log, "output"), ["a", "b"], "output");
  }),
  simple("publish: rerouted: in the other partition's input, in order", async (log) => {
    await log.append(1, messages("there"));
    const session = await log.open(0, "owner");
    const rerouted = messages("r", "s").map((each) => ({ partition: 1, message: each }));
    await publishes(session, { rerouted });
    expectEqual([await texts(log, "input", 1), await texts(log, "input", 0)], [["there", "r", "s"], []], "inputs");
  }),
  simple("publish: rerouted to no partition: refused, nothing written", async (log) => {
    const session = await log.open(0, "owner");
    const rerouted = [{ partition: 9, message: message("r") }];
    const refused = await session.publish(publication({ output: messages("a"), rerouted })).catch((thrown) => toConcordError(thrown).code);
    expectEqual(refused, "PARTITION_UNKNOWN", "publish");
    expectEqual(await texts(log, "output"), [], "output");
  }),
  simple("partitions: each has its owner, output and acknowledged input", async (log) => {
    const { from } = await log.append(0, messages("x"));
    const zero = await log.open(0, "owner");
    const one = await log.open(1, "owner");
    await publishes(zero, { output: messages("a"), acknowledgedInput: from + 1n });
    await publishes(one, { output: messages("b"), acknowledgedInput: one.acknowledgedInput });
    expectEqual([await texts(log, "output", 0), await texts(log, "output", 1)], [["a"], ["b"]], "outputs");
    expectEqual((await log.open(1, "next")).acknowledgedInput, one.acknowledgedInput, "acknowledged of 1");
  }),
];

const FENCE_CASES: readonly Case[] = [
  simple("open: after a publish: acknowledged input and output are those of the last one", async (log) => {
    const { from } = await log.append(0, messages("x", "y"));
    const session = await log.open(0, "owner");
    await publishes(session, { output: messages("a"), acknowledgedInput: from + 1n });
    await publishes(session, { output: messages("b"), acknowledgedInput: from + 2n });
    const next = await log.open(0, "owner");
    expectEqual([next.acknowledgedInput, next.output.end], [from + 2n, session.output.end + 2n], "session");
  }),
  simple("publish: of an owner before: fenced, nothing written, not acknowledged", async (log) => {
    const { from } = await log.append(0, messages("x"));
    const old = await log.open(0, "old");
    const fresh = await log.open(0, "fresh");
    const rerouted = [{ partition: 1, message: message("r") }];
    await expectFenced(old, { output: messages("a"), deadLetters: messages("d"), rerouted, acknowledgedInput: from + 1n });
    expectEqual([await texts(log, "output"), await texts(log, "dead-letters"), await texts(log, "input", 1)], [[], [], []], "topics");
    await publishes(fresh, { output: messages("b") });
    expectEqual((await log.open(0, "next")).acknowledgedInput, from, "acknowledged");
  }),
  simple("publish: of the same owner's session before: fenced", async (log) => {
    const old = await log.open(0, "owner");
    await log.open(0, "owner");
    await expectFenced(old, { output: messages("a") });
    expectEqual(await texts(log, "output"), [], "output");
  }),
  simple("publish: after fenced: fenced again", async (log) => {
    const old = await log.open(0, "old");
    const fresh = await log.open(0, "fresh");
    await expectFenced(old, { output: messages("a") });
    await fresh.close();
    await expectFenced(old, { output: messages("a") });
    expectEqual(await texts(log, "output"), [], "output");
  }),
  simple("publish: started before the next owner opens: its bounds tell whether it is there", async (log) => {
    const old = await log.open(0, "old");
    const [outcome, fresh] = await Promise.all([old.publish(publication({ output: messages("a") })), log.open(0, "fresh")]);
    const { end } = await log.bounds("output", 0);
    expectEqual(fresh.output.end, end, "the end does not move after the fence");
    expectEqual(end - old.output.end, outcome.kind === "published" ? 1n : 0n, "what was published is there, what was fenced is not");
  }),
  simple("open: an empty owner: MALFORMED_REQUEST", async (log) => {
    await expectCode(() => log.open(0, ""), "MALFORMED_REQUEST", "open");
  }),
  simple("open: another partition's owner is not fenced", async (log) => {
    const zero = await log.open(0, "a");
    await log.open(1, "b");
    await publishes(zero, { output: messages("a") });
  }),
  simple("restart: what was acknowledged is there, at its offsets", async (log, subject) => {
    const { from } = await log.append(0, messages("x", "y"));
    const session = await log.open(0, "owner");
    const rerouted = [{ partition: 1, message: message("r") }];
    const { outputFrom } = await publishes(session, {
      output: messages("a", "b"),
      deadLetters: messages("d"),
      rerouted,
      acknowledgedInput: from + 2n,
    });
    const again = await subject.restart();
    expectEqual(await texts(again, "input"), ["x", "y"], "input");
    expectEqual(await texts(again, "input", 1), ["r"], "other input");
    expectEqual([await texts(again, "output"), await texts(again, "dead-letters")], [["a", "b"], ["d"]], "published");
    const next = await again.open(0, "owner");
    expectEqual([next.acknowledgedInput, next.output], [from + 2n, { start: outputFrom, end: outputFrom + 2n }], "session");
  }),
  simple("restart: offsets go on", async (log, subject) => {
    const { from } = await log.append(0, messages("x"));
    await publishes(await log.open(0, "owner"), { output: messages("a") });
    const again = await subject.restart();
    expectEqual(await again.append(0, messages("y")), { from: from + 1n }, "append");
    const next = await again.open(0, "owner");
    expectEqual((await publishes(next, { output: messages("b") })).outputFrom, next.output.end, "publish");
    expectEqual(
      [await texts(again, "input"), await texts(again, "output")],
      [
        ["x", "y"],
        ["a", "b"],
      ],
      "topics",
    );
  }),
];

export const MESSAGE_LOG_CASES: readonly Case[] = [...INPUT_CASES, ...READ_CASES, ...PUBLISH_CASES, ...FENCE_CASES];

/** Every promise of the port, run on logs of two partitions that `open` makes empty. */
export function messageLogContract(test: TestFunction, open: () => Promise<MessageLogSubject>): void {
  registerContract(test, "MessageLog", MESSAGE_LOG_CASES, open);
}
