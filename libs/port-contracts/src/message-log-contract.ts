import { toConcordError } from "@concord/runtime";
import {
  messageBytes,
  type LogMessage,
  type LogSession,
  type LogTopic,
  type MessageLog,
  type NewMessage,
  type PageLimits,
  type Publication,
  type PublishOutcome,
} from "@concord/ports";
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

function message(text: string): NewMessage & { readonly value: Uint8Array } {
  return { key: encoder.encode(text.slice(0, 8)), value: encoder.encode(text), headers: [], timestampMs: 1000 };
}

const messages = (...texts: string[]): NewMessage[] => texts.map(message);
const textOf = ({ value }: NewMessage): string => decoder.decode(value ?? undefined);

function publication(change: Partial<Publication>): Publication {
  return { output: [], deadLetters: [], rerouted: [], acknowledgedInput: 0n, ...change };
}

async function texts(log: MessageLog, topic: LogTopic, partition = 0): Promise<string[]> {
  const { start } = await log.bounds(topic, partition);
  return (await readAll(log, topic, partition, start)).map(textOf);
}

async function readAll(log: MessageLog, topic: LogTopic, partition: number, from: bigint, limits = ALL): Promise<LogMessage[]> {
  const all: LogMessage[] = [];
  let next = from;
  for (;;) {
    const page = await log.read(topic, partition, next, limits);
    all.push(...page.messages);
    if (page.next === next) return all;
    expectEqual(page.next > next, true, "a page goes on");
    next = page.next;
  }
}

async function publishes(session: LogSession, change: Partial<Publication>): Promise<{ outputFrom: bigint; deadLettersFrom: bigint }> {
  const outcome = await session.publish(publication(change));
  if (outcome.kind !== "published") expectEqual(outcome.kind, "published", "publish");
  return outcome as Extract<PublishOutcome, { kind: "published" }>;
}

/** Offsets that a page passed hold no message. */
async function expectNothingBetween(log: MessageLog, from: bigint, next: bigint): Promise<void> {
  expectEqual(next >= from, true, "goes on behind the last message");
  const { messages: found } = await log.read("input", 0, from, ALL);
  expectEqual(
    found.filter((each) => each.offset < next),
    [],
    "messages that the page passed",
  );
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
  simple("append: offsets are consecutive within a call and rise over calls", async (log) => {
    const { end } = await log.bounds("input", 0);
    const first = await log.append(0, messages("a", "b"));
    const second = await log.append(0, messages("c"));
    expectEqual([first.from >= end, second.from >= first.from + 2n], [true, true], "each behind the one before");
    const bounds = await log.bounds("input", 0);
    expectEqual([bounds.start <= first.from, bounds.end > second.from], [true, true], "all inside the bounds");
    const offsets = (await readAll(log, "input", 0, end)).map((each) => each.offset);
    expectEqual(offsets, [first.from, first.from + 1n, second.from], "offsets");
  }),
  simple("append: as many bytes as the log takes, and more", async (log) => {
    const overhead = messageBytes(message(""));
    const large = (bytes: number): NewMessage => ({ ...message(""), value: new Uint8Array(bytes) });
    const { from } = await log.append(0, [large(log.appendBytesMax - overhead)]);
    const [read] = (await log.read("input", 0, from, ALL)).messages;
    expectEqual(read?.value?.length, log.appendBytesMax - overhead, "the largest message");
    await expectCode(() => log.append(0, [large(log.appendBytesMax + 1)]), "LIMIT_EXCEEDED", "one byte more");
    expectEqual((await readAll(log, "input", 0, from)).length, 1, "messages");
  }),
  simple("append: several at once: each whole and in its place", async (log) => {
    const answers = await Promise.all([["a", "b"], ["c"], ["d", "e"]].map((each) => log.append(0, messages(...each))));
    const all = await readAll(log, "input", 0, (await log.bounds("input", 0)).start);
    const at = (from: bigint, count: number): string[] => {
      const first = all.findIndex((each) => each.offset === from);
      return all.slice(first, first + count).map(textOf);
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

const numbered = (count: number, prefix = "m"): string[] => Array.from({ length: count }, (_, at) => `${prefix}${at}`);

const CONTENT_CASES: readonly Case[] = [
  simple("append: every byte value, texts beyond ASCII in header names, times from 0 on: they come back", async (log) => {
    const every = Uint8Array.from({ length: 256 }, (_, at) => at);
    const headers = ["\u00e4\u{1f600}", "a\u0308", "x".repeat(200)].map((name) => ({ name, value: every }));
    const sent = [0, 1, 1_700_000_000_123].map((timestampMs) => ({ key: every, value: every, headers, timestampMs }));
    const { from } = await log.append(1, sent);
    const read = await readAll(log, "input", 1, from);
    expectEqual(
      read.map(({ key, value, timestampMs }) => [key, value, timestampMs]),
      sent.map(({ timestampMs }) => [every, every, timestampMs]),
      "messages",
    );
    expectEqual(read[0]?.headers, headers, "headers");
  }),
  simple("nulls: keys, values, headers that are null or have no bytes: each comes back as it was, in all topics", async (log, subject) => {
    const forms = [null, new Uint8Array(), encoder.encode("a")];
    const headers = forms.map((value) => ({ name: "h", value }));
    const sent = forms.flatMap((key) => forms.map((value): NewMessage => ({ key, value, headers, timestampMs: 1000 })));
    await log.append(0, sent);
    await publishes(await log.open(0, "owner"), { output: sent, deadLetters: sent });
    const again = await subject.restart();
    for (const topic of ["input", "output", "dead-letters"] as const) {
      const read = await readAll(again, topic, 0, (await again.bounds(topic, 0)).start);
      const expected = sent.map((each, at) => ({ ...each, offset: read[at]?.offset }));
      expectEqual(read, expected, topic);
    }
  }),
  simple("append: 60 headers, names repeated: all of them in their order", async (log) => {
    const headers = Array.from({ length: 60 }, (_, at) => ({ name: `h${at % 7}`, value: Uint8Array.of(at) }));
    const { from } = await log.append(0, [{ ...message("a"), headers }]);
    expectEqual((await log.read("input", 0, from, ALL)).messages[0]?.headers, headers, "headers");
  }),
  simple("append: the same message again: both are there, it is not the log that deduplicates", async (log) => {
    await log.append(0, messages("a"));
    await log.append(0, messages("a", "a"));
    expectEqual(await texts(log, "input"), ["a", "a", "a"], "input");
  }),
  simple("append: 1000 messages in one call: consecutive offsets, in order", async (log) => {
    const sent = numbered(1000);
    const { from } = await log.append(0, messages(...sent));
    const read = await readAll(log, "input", 0, from, { messages: 300, bytes: 1 << 20 });
    expectEqual(
      read.map((each) => [each.offset - from, decoder.decode(each.value)]),
      sent.map((text, at) => [BigInt(at), text]),
      "messages",
    );
  }),
  simple("append: several that are too large only together: LIMIT_EXCEEDED, none is there", async (log) => {
    const half = { ...message("half"), value: new Uint8Array(Math.ceil(log.appendBytesMax / 2)) };
    await expectCode(() => log.append(0, [half, half]), "LIMIT_EXCEEDED", "append");
    expectEqual(await texts(log, "input"), [], "input");
    await log.append(0, messages("after"));
    expectEqual(await texts(log, "input"), ["after"], "input after it");
  }),
  simple("append: to both partitions in turn: each has its own in order", async (log) => {
    for (const text of numbered(10)) for (const partition of [0, 1]) await log.append(partition, messages(`${partition}${text}`));
    for (const partition of [0, 1]) expectEqual(await texts(log, "input", partition), numbered(10, `${partition}m`), `input ${partition}`);
  }),
];

const READ_CASES: readonly Case[] = [
  simple("read: while others append: what is read is the beginning of what is there in the end, without a hole", async (log) => {
    const { start } = await log.bounds("input", 0);
    const appending = numbered(20).map((text) => log.append(0, messages(text)));
    const during = await readAll(log, "input", 0, start);
    await Promise.all(appending);
    const all = await readAll(log, "input", 0, start);
    expectEqual([all.length, all.slice(0, during.length)], [20, during], "messages");
  }),
  simple("read: several readers from different offsets at once: each its own page", async (log) => {
    const { from } = await log.append(0, messages(...numbered(9)));
    const pages = await Promise.all([0n, 3n, 6n].map((skip) => log.read("input", 0, from + skip, { messages: 3, bytes: 1 << 20 })));
    expectEqual(
      pages.map((page) => page.messages.map(textOf)),
      [0, 3, 6].map((skip) => numbered(9).slice(skip, skip + 3)),
      "pages",
    );
  }),
  simple("read: one message at a time, to the end and again: every one once", async (log) => {
    const { from } = await log.append(0, messages(...numbered(5)));
    for (const turn of [1, 2]) {
      const read = await readAll(log, "input", 0, from, { messages: 1, bytes: 1 << 20 });
      expectEqual(
        read.map((each) => each.offset - from),
        [0n, 1n, 2n, 3n, 4n],
        `turn ${turn}`,
      );
    }
  }),
  simple("read: output and dead letters out of range: OFFSET_OUT_OF_RANGE", async (log) => {
    await publishes(await log.open(0, "owner"), { output: messages("a"), deadLetters: messages("d") });
    for (const topic of ["output", "dead-letters"] as const) {
      const { start, end } = await log.bounds(topic, 0);
      await expectCode(() => log.read(topic, 0, start - 1n, ALL), "OFFSET_OUT_OF_RANGE", `${topic} below`);
      await expectCode(() => log.read(topic, 0, end + 1n, ALL), "OFFSET_OUT_OF_RANGE", `${topic} above`);
    }
  }),
  simple("read: from the middle: from there on", async (log) => {
    const { from } = await log.append(0, messages("a", "b", "c"));
    const page = await log.read("input", 0, from + 1n, ALL);
    expectEqual(
      page.messages.map((each) => each.offset),
      [from + 1n, from + 2n],
      "offsets",
    );
    await expectNothingBetween(log, from + 3n, page.next);
  }),
  simple("read: below the start or above the end: OFFSET_OUT_OF_RANGE, never a jump", async (log) => {
    const { from } = await log.append(0, messages("a"));
    const { start } = await log.bounds("input", 0);
    await expectCode(() => log.read("input", 0, start - 1n, ALL), "OFFSET_OUT_OF_RANGE", "below");
    expectEqual((await log.read("input", 0, from, ALL)).messages.length, 1, "inside");
    const { end } = await log.bounds("input", 0);
    await expectCode(() => log.read("input", 0, end + 1n, ALL), "OFFSET_OUT_OF_RANGE", "above");
    expectEqual(await log.read("input", 0, end, ALL), { messages: [], next: end }, "at the end");
  }),
  simple("input end: where the log knows it by itself: behind what was appended and can be read", async (log) => {
    if (log.inputEnd === undefined) return;
    const { from } = await log.append(0, messages("a", "b"));
    expectEqual(log.inputEnd(0), from + 2n, "behind both");
    expectEqual((await log.read("input", 0, from, ALL)).next, from + 2n, "read up to it");
  }),
  simple("read: pages of a number of messages: all, once, in order", async (log) => {
    const sent = Array.from({ length: 7 }, (_, index) => `m${index}`);
    const { from } = await log.append(0, messages(...sent));
    const page = await log.read("input", 0, from, { messages: 3, bytes: 1 << 20 });
    expectEqual([page.messages.length, page.next], [3, from + 3n], "first page");
    const all = await readAll(log, "input", 0, from, { messages: 3, bytes: 1 << 20 });
    expectEqual(all.map(textOf), sent, "all");
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
    expectEqual(await log.isAssigned(0), true, "this process may open it");
    expectEqual([session.acknowledgedInput, session.output], [start, await log.bounds("output", 0)], "session");
  }),
  simple("publish: all topics have their messages, offsets are reported", async (log) => {
    const { from } = await log.append(0, messages("x", "y", "z"));
    const session = await log.open(0, "owner");
    const at = session.output.end;
    const first = await publishes(session, { output: messages("a", "b"), deadLetters: messages("d"), acknowledgedInput: from + 2n });
    const second = await publishes(session, { output: messages("c"), deadLetters: messages("e"), acknowledgedInput: from + 3n });
    const isBehind = [first.outputFrom >= at, second.outputFrom >= first.outputFrom + 2n, second.deadLettersFrom > first.deadLettersFrom];
    expectEqual(isBehind, [true, true, true], "each behind the one before");
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
      [first.outputFrom, first.outputFrom + 1n, second.outputFrom],
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
    await publishes(session, { acknowledgedInput: from + 1n });
    expectEqual(await texts(log, "output"), [], "output");
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

const SEQUENCE_CASES: readonly Case[] = [
  simple("publish: fifteen one after the other: output in order, the acknowledged input is the last one's", async (log) => {
    const { from } = await log.append(0, messages(...numbered(15)));
    const session = await log.open(0, "owner");
    for (const [at, text] of numbered(15, "o").entries())
      await publishes(session, { output: messages(text), acknowledgedInput: from + BigInt(at + 1) });
    expectEqual(await texts(log, "output"), numbered(15, "o"), "output");
    expectEqual((await log.open(0, "next")).acknowledgedInput, from + 15n, "acknowledged");
  }),
  simple("publish: 500 messages of output and 50 dead letters: all of them in their order", async (log) => {
    const session = await log.open(0, "owner");
    const { outputFrom } = await publishes(session, {
      output: messages(...numbered(500, "o")),
      deadLetters: messages(...numbered(50, "d")),
    });
    expectEqual([await texts(log, "output"), await texts(log, "dead-letters")], [numbered(500, "o"), numbered(50, "d")], "topics");
    const last = (await readAll(log, "output", 0, outputFrom)).at(-1);
    expectEqual(last?.offset, outputFrom + 499n, "last offset");
  }),
  simple("publish: the same output again: both are there", async (log) => {
    const session = await log.open(0, "owner");
    for (const _ of [1, 2]) await publishes(session, { output: messages("a") });
    expectEqual(await texts(log, "output"), ["a", "a"], "output");
  }),
  simple("publish: the caller's bytes change afterwards: the log's do not", async (log) => {
    const session = await log.open(0, "owner");
    const sent = message("before");
    await publishes(session, { output: [sent], deadLetters: [sent] });
    sent.value.set(encoder.encode("AFTER!"));
    expectEqual([await texts(log, "output"), await texts(log, "dead-letters")], [["before"], ["before"]], "topics");
  }),
  simple("publish: owners of both partitions at once: neither disturbs the other", async (log) => {
    const sessions = await Promise.all([log.open(0, "a"), log.open(1, "b")]);
    for (const text of numbered(5)) await Promise.all(sessions.map((session) => publishes(session, { output: messages(text) })));
    for (const partition of [0, 1]) expectEqual(await texts(log, "output", partition), numbered(5), `output ${partition}`);
  }),
  simple("release: opened again: goes on where it was acknowledged", async (log) => {
    const { from } = await log.append(0, messages("x", "y"));
    const session = await log.open(0, "owner");
    await publishes(session, { output: messages("a"), acknowledgedInput: from + 1n });
    await session.close();
    await log.release(0);
    const next = await log.open(0, "owner");
    expectEqual(next.acknowledgedInput, from + 1n, "acknowledged");
    await publishes(next, { output: messages("b"), acknowledgedInput: from + 2n });
    expectEqual(await texts(log, "output"), ["a", "b"], "output");
  }),
];

const FENCE_CASES: readonly Case[] = [
  simple("open: three owners in turn, each publishes once: the others are fenced, the output has one of each", async (log) => {
    const earlier: LogSession[] = [];
    for (const name of ["a", "b", "c"]) {
      const session = await log.open(0, name);
      await publishes(session, { output: messages(name) });
      for (const each of earlier) await expectFenced(each, { output: messages("zombie") });
      earlier.push(session);
    }
    expectEqual(await texts(log, "output"), ["a", "b", "c"], "output");
  }),
  simple("restart: every message of every topic is at its offset, with all it had", async (log, subject) => {
    const sent = { ...message("a"), headers: [{ name: "h", value: Uint8Array.of(0, 255) }], timestampMs: 77 };
    await log.append(0, [sent, message("b")]);
    await log.append(1, [sent]);
    await publishes(await log.open(0, "owner"), { output: [message("o"), sent], deadLetters: [sent] });
    const everything = async (of: MessageLog): Promise<unknown[]> =>
      Promise.all(
        (["input", "output", "dead-letters"] as const).flatMap((topic) =>
          [0, 1].map(async (partition) => readAll(of, topic, partition, (await of.bounds(topic, partition)).start)),
        ),
      );
    const before = await everything(log);
    expectEqual(await everything(await subject.restart()), before, "messages");
  }),
  simple("open: after a publish: acknowledged input and output are those of the last one", async (log) => {
    const { from } = await log.append(0, messages("x", "y"));
    const session = await log.open(0, "owner");
    await publishes(session, { output: messages("a"), acknowledgedInput: from + 1n });
    await publishes(session, { output: messages("b"), acknowledgedInput: from + 2n });
    const next = await log.open(0, "owner");
    expectEqual([next.acknowledgedInput, next.output], [from + 2n, await log.bounds("output", 0)], "session");
    expectEqual(await texts(log, "output"), ["a", "b"], "output");
  }),
  simple("publish: of an owner before: fenced, nothing written, not acknowledged", async (log) => {
    const { from } = await log.append(0, messages("x"));
    const old = await log.open(0, "old");
    const fresh = await log.open(0, "fresh");
    const rerouted = [{ partition: 1, message: message("r") }];
    await expectFenced(old, { output: messages("a"), deadLetters: messages("d"), rerouted, acknowledgedInput: from + 1n });
    expectEqual([await texts(log, "output"), await texts(log, "dead-letters")], [[], []], "topics");
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
    const before = await readAll(log, "output", 0, fresh.output.start);
    expectEqual(before.length, outcome.kind === "published" ? 1 : 0, "what was published is there, what was fenced is not");
    expectEqual(
      before.every((each) => each.offset < fresh.output.end),
      true,
      "nothing comes behind the end that the fence found",
    );
    const { outputFrom } = await publishes(fresh, { output: messages("b") });
    expectEqual(outputFrom >= fresh.output.end, true, "the next one does");
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
    expectEqual([next.acknowledgedInput, next.output], [from + 2n, await again.bounds("output", 0)], "session");
    expectEqual((await again.read("output", 0, outputFrom, ALL)).messages.length, 2, "messages at their offsets");
  }),
  simple("restart: offsets go on", async (log, subject) => {
    const { from } = await log.append(0, messages("x"));
    await publishes(await log.open(0, "owner"), { output: messages("a") });
    const again = await subject.restart();
    expectEqual((await again.append(0, messages("y"))).from > from, true, "append");
    const next = await again.open(0, "owner");
    expectEqual((await publishes(next, { output: messages("b") })).outputFrom >= next.output.end, true, "publish");
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

export const MESSAGE_LOG_CASES: readonly Case[] = [
  ...INPUT_CASES,
  ...CONTENT_CASES,
  ...READ_CASES,
  ...PUBLISH_CASES,
  ...SEQUENCE_CASES,
  ...FENCE_CASES,
];

/** Every promise of the port, run on logs of two partitions that `open` makes empty. */
export function messageLogContract(test: TestFunction, open: () => Promise<MessageLogSubject>): void {
  registerContract(test, "MessageLog", MESSAGE_LOG_CASES, open);
}
