// What a client may send wrong: the exact error, nothing in any log, and the worker goes on.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { OutputService, contract } from "@concord/protos-dedup";
import { bearer } from "@concord/rpc";
import type { ConcordError, ErrorCode, MethodDescriptor } from "@concord/runtime";
import {
  CONSUME_CREDITS_MAX,
  HEADER_NAME_BYTES_MAX,
  HEADER_VALUE_BYTES_MAX,
  HEADERS_MAX,
  ID_BYTES_MAX,
  INGEST_BYTES_MAX,
  INGEST_MESSAGES_MAX,
  KEY_BYTES_MAX,
  READ_MESSAGES_MAX,
  READ_WAIT_MS_MAX,
  SEEN_IDS_MAX,
  TIMESTAMP_MS_MAX,
} from "./limits.ts";
import { fails, settle, WorkerFixture, type Client, type Form } from "./test/worker-fixture.ts";

interface Case {
  readonly method: "Ingest" | "Read" | "GetBounds" | "Seen";
  readonly what: string;
  readonly code: ErrorCode;
  readonly request: () => object;
}

const GOOD = { id: "good", value: Buffer.from("good") };
const many = <Item>(count: number, item: (at: number) => Item): Item[] => Array.from({ length: count }, (_, at) => item(at));
const ingest = (what: string, code: ErrorCode, message: object): Case => ({
  method: "Ingest",
  what,
  code,
  // The good message before it must not be taken either.
  request: () => ({ messages: [GOOD, message] }),
});
const header = (name: string, value = Buffer.from("v")): object => ({ headers: [{ name, value }] });

const CASES: readonly Case[] = [
  { method: "Ingest", what: "no messages", code: "MALFORMED_REQUEST", request: () => ({ messages: [] }) },
  { method: "Ingest", what: "nothing at all", code: "MALFORMED_REQUEST", request: () => ({}) },
  {
    method: "Ingest",
    what: "one message too many",
    code: "LIMIT_EXCEEDED",
    request: () => ({ messages: many(INGEST_MESSAGES_MAX + 1, (at) => ({ id: `m${at}` })) }),
  },
  { method: "Ingest", what: "unknown acknowledge", code: "MALFORMED_REQUEST", request: () => ({ messages: [GOOD], acknowledge: 9 }) },
  ingest("one byte of values too many", "LIMIT_EXCEEDED", { id: "x", value: Buffer.alloc(INGEST_BYTES_MAX) }),
  {
    method: "Ingest",
    what: "ids, keys and headers one byte too many together",
    code: "LIMIT_EXCEEDED",
    request: () => ({
      messages: [
        { id: "abc", value: Buffer.alloc(INGEST_BYTES_MAX - 8), key: Buffer.alloc(2), headers: [{ name: "h", value: Buffer.alloc(2) }] },
        { id: "d" },
      ],
    }),
  },
  ingest("an id of one byte too many", "LIMIT_EXCEEDED", { id: "x".repeat(ID_BYTES_MAX + 1) }),
  ingest("an id of two bytes a letter, too long", "LIMIT_EXCEEDED", { id: "é".repeat(ID_BYTES_MAX / 2 + 1) }),
  ingest("an id with a replacement character", "MALFORMED_REQUEST", { id: "a\uFFFDb" }),
  ingest("an id with half a character", "MALFORMED_REQUEST", { id: "a\uD800b" }),
  ingest("a key of one byte too many", "LIMIT_EXCEEDED", { id: "x", key: Buffer.alloc(KEY_BYTES_MAX + 1) }),
  ingest("one header too many", "LIMIT_EXCEEDED", { id: "x", headers: many(HEADERS_MAX + 1, (at) => ({ name: `h${at}` })) }),
  ingest("a header without a name", "MALFORMED_REQUEST", { id: "x", ...header("") }),
  ingest("a header's name of one byte too many", "LIMIT_EXCEEDED", { id: "x", ...header("h".repeat(HEADER_NAME_BYTES_MAX + 1)) }),
  ingest("a header's name that is no text", "MALFORMED_REQUEST", { id: "x", ...header("h\uFFFD") }),
  ingest("a header's value of one byte too many", "LIMIT_EXCEEDED", { id: "x", ...header("h", Buffer.alloc(HEADER_VALUE_BYTES_MAX + 1)) }),
  ingest("the pipeline's id header", "MALFORMED_REQUEST", { id: "x", ...header("concord-id") }),
  ingest("the pipeline's origin header", "MALFORMED_REQUEST", { id: "x", ...header("concord-origin", Buffer.alloc(18)) }),
  ingest("a header that begins like the pipeline's", "MALFORMED_REQUEST", { id: "x", ...header("concord-") }),
  ingest("a value beside null_value", "MALFORMED_REQUEST", { id: "x", value: Buffer.from("v"), nullValue: true }),
  ingest("a key beside empty_key", "MALFORMED_REQUEST", { id: "x", key: Buffer.from("k"), emptyKey: true }),
  ingest("a header's value beside its null_value", "MALFORMED_REQUEST", {
    id: "x",
    headers: [{ name: "h", value: Buffer.from("v"), nullValue: true }],
  }),
  ingest("a time before 1970", "TIMESTAMP_OUT_OF_RANGE", { id: "x", timestampMs: -1n }),
  ingest("the earliest number as time", "TIMESTAMP_OUT_OF_RANGE", { id: "x", timestampMs: -(2n ** 63n) }),
  ingest("a time that no date can have", "TIMESTAMP_OUT_OF_RANGE", { id: "x", timestampMs: TIMESTAMP_MS_MAX + 1n }),
  ingest("the latest number as time", "TIMESTAMP_OUT_OF_RANGE", { id: "x", timestampMs: 2n ** 63n - 1n }),
  { method: "Read", what: "a partition too high", code: "PARTITION_UNKNOWN", request: () => ({ partition: 2 }) },
  { method: "Read", what: "the highest number as partition", code: "PARTITION_UNKNOWN", request: () => ({ partition: 2 ** 32 - 1 }) },
  { method: "Read", what: "an unknown topic", code: "MALFORMED_REQUEST", request: () => ({ topic: 7 }) },
  { method: "Read", what: "an offset below 0", code: "OFFSET_OUT_OF_RANGE", request: () => ({ fromOffset: -1n }) },
  { method: "Read", what: "the lowest number as offset", code: "OFFSET_OUT_OF_RANGE", request: () => ({ fromOffset: -(2n ** 63n) }) },
  { method: "Read", what: "an offset above the end", code: "OFFSET_OUT_OF_RANGE", request: () => ({ fromOffset: 1_000n }) },
  { method: "Read", what: "the highest number as offset", code: "OFFSET_OUT_OF_RANGE", request: () => ({ fromOffset: 2n ** 63n - 1n }) },
  {
    method: "Read",
    what: "an offset above the end of the dead letters, waiting",
    code: "OFFSET_OUT_OF_RANGE",
    request: () => ({ topic: "TOPIC_DEAD_LETTERS", fromOffset: 1n, waitMs: 10 }),
  },
  { method: "Read", what: "one message too many", code: "LIMIT_EXCEEDED", request: () => ({ maxMessages: READ_MESSAGES_MAX + 1 }) },
  { method: "Read", what: "the highest number of messages", code: "LIMIT_EXCEEDED", request: () => ({ maxMessages: 2 ** 32 - 1 }) },
  { method: "Read", what: "waiting one millisecond too long", code: "LIMIT_EXCEEDED", request: () => ({ waitMs: READ_WAIT_MS_MAX + 1 }) },
  { method: "GetBounds", what: "a partition too high", code: "PARTITION_UNKNOWN", request: () => ({ partition: 2 }) },
  { method: "GetBounds", what: "an unknown topic", code: "MALFORMED_REQUEST", request: () => ({ topic: 3 }) },
  { method: "Seen", what: "no ids", code: "MALFORMED_REQUEST", request: () => ({ ids: [] }) },
  { method: "Seen", what: "one id too many", code: "LIMIT_EXCEEDED", request: () => ({ ids: many(SEEN_IDS_MAX + 1, String) }) },
  { method: "Seen", what: "an empty id", code: "MALFORMED_REQUEST", request: () => ({ ids: ["a", ""] }) },
  { method: "Seen", what: "an id of one byte too many", code: "LIMIT_EXCEEDED", request: () => ({ ids: ["x".repeat(ID_BYTES_MAX + 1)] }) },
  { method: "Seen", what: "an id that is no text", code: "MALFORMED_REQUEST", request: () => ({ ids: ["\uFFFD"] }) },
];

let fixture: WorkerFixture;
let client: Client;
let contents: string;

before(async () => {
  fixture = await new WorkerFixture({ config: { clientToken: "secret-c" } }).start();
  client = fixture.connect("secret-c");
  await client.ingest(many(5, (at) => ({ id: `m${at}`, value: Buffer.from("v") })));
  contents = await fixture.folder.contents();
});

after(() => fixture.service.stop());

const unchanged = async (): Promise<void> => assert.equal(await fixture.folder.contents(), contents);
const service = (method: string): string => (method === "Ingest" ? "IngestService" : method === "Seen" ? "WindowService" : "OutputService");
const descriptor = (method: string): MethodDescriptor => contract.service(service(method)).methods[method]!;

for (const one of CASES) {
  for (const form of ["unary", "session"] as const satisfies readonly Form[]) {
    test(`bad input: ${one.method} (${form}): ${one.what}: ${one.code}, nothing changes`, async () => {
      const error = await fails(one.code, client.callUnchecked(form, one.method, one.request()), one.what);
      assert.equal(error.applied, "no");
      await unchanged();
    });
  }
}

/** Bytes on the wire that our own client would not make. */
function raw(method: string, bytes: Uint8Array): Promise<object> {
  const sent = { ...descriptor(method), encodeRequest: () => bytes, decodeResponse: () => ({}) };
  return client.channel.unary(sent, {}, { timeoutMs: 1_000, metadata: bearer("secret-c") });
}

const field = (number: number, bytes: Uint8Array): Uint8Array => Uint8Array.of((number << 3) | 2, bytes.length, ...bytes);
const message = (...fields: readonly Uint8Array[]): Uint8Array => field(1, Buffer.concat(fields));

for (const [what, method, bytes] of [
  ["an id that is no UTF-8", "Ingest", message(field(1, Uint8Array.of(0x61, 0xff, 0x62)))],
  ["an id in overlong form", "Ingest", message(field(1, Uint8Array.of(0xc1, 0x81)))],
  ["an id with an encoded surrogate", "Ingest", message(field(1, Uint8Array.of(0xed, 0xa0, 0x80)))],
  ["a cut id", "Ingest", message(field(1, Uint8Array.of(0xe2, 0x82)))],
  ["a header's name that is no UTF-8", "Ingest", message(field(1, Buffer.from("x")), field(4, field(1, Uint8Array.of(0xff))))],
  ["a length beyond the end", "Ingest", Uint8Array.of(0x0a, 0x7f, 0x01)],
  ["bytes of no message", "Ingest", Uint8Array.of(0xff, 0xff, 0xff)],
  ["a group that does not end", "Read", Uint8Array.of(0x0b, 0x0b, 0x0b)],
  ["ids that are no UTF-8", "Seen", field(1, Uint8Array.of(0xfe))],
  ["a number of eleven bytes", "GetBounds", Uint8Array.of(0x10, ...many(11, () => 0xff))],
] as const) {
  test(`bad input: ${method} (bytes): ${what}: MALFORMED_REQUEST, nothing changes`, async () => {
    const error = await fails("MALFORMED_REQUEST", raw(method, bytes), what);
    assert.equal(error.applied, "no");
    await unchanged();
  });
}

test("bad input: a request above the message limit: LIMIT_EXCEEDED, the session goes on", async () => {
  const messages = [{ id: "huge", value: Buffer.alloc(5 * 1024 * 1024) }];
  await fails("LIMIT_EXCEEDED", client.call("unary", "Ingest", { messages }));
  await fails("LIMIT_EXCEEDED", client.call("session", "Ingest", { messages }));
  await unchanged();
  await client.call("session", "GetStatistics", {});
});

interface StreamCase {
  readonly what: string;
  readonly code: ErrorCode;
  readonly send: readonly object[];
}

const START = { partition: 0, fromOffset: 0n, credits: 1 };

const STREAMS: readonly StreamCase[] = [
  { what: "credits before a start", code: "MALFORMED_REQUEST", send: [{ credits: 5 }] },
  { what: "no event", code: "MALFORMED_REQUEST", send: [{}] },
  { what: "a second start", code: "MALFORMED_REQUEST", send: [{ start: START }, { start: START }] },
  { what: "a start without credits", code: "MALFORMED_REQUEST", send: [{ start: { ...START, credits: 0 } }] },
  { what: "a grant of nothing", code: "MALFORMED_REQUEST", send: [{ start: START }, { credits: 0 }] },
  { what: "more credits than allowed", code: "LIMIT_EXCEEDED", send: [{ start: { ...START, credits: CONSUME_CREDITS_MAX + 1 } }] },
  { what: "the highest number of credits", code: "LIMIT_EXCEEDED", send: [{ start: START }, { credits: 2 ** 32 - 1 }] },
  {
    what: "more credits than allowed together",
    code: "LIMIT_EXCEEDED",
    send: [{ start: { ...START, partition: 1, credits: CONSUME_CREDITS_MAX } }, { credits: 10 }],
  },
  { what: "a partition too high", code: "PARTITION_UNKNOWN", send: [{ start: { ...START, partition: 2 } }] },
  { what: "an offset above the end", code: "OFFSET_OUT_OF_RANGE", send: [{ start: { ...START, fromOffset: 99n } }] },
  { what: "an offset below 0", code: "OFFSET_OUT_OF_RANGE", send: [{ start: { ...START, fromOffset: -1n } }] },
  { what: "an unknown topic", code: "MALFORMED_REQUEST", send: [{ start: { ...START, topic: 9 } }] },
];

for (const one of STREAMS) {
  test(`bad input: Consume: ${one.what}: ${one.code}, nothing changes`, async () => {
    const { error } = await consumed("secret-c", one.send);
    assert.equal(error?.code, one.code);
    await unchanged();
  });
}

async function consumed(token: string | undefined, send: readonly object[]): Promise<{ readonly error: ConcordError | undefined }> {
  const stream = fixture.transport.connect(fixture.address).stream(OutputService.methods.Consume, { metadata: bearer(token) });
  const ended = new Promise<ConcordError | undefined>((resolve) => {
    stream.onMessage(() => undefined);
    stream.onEnd((error) => resolve(error as ConcordError | undefined));
  });
  for (const request of send) stream.send(request);
  return { error: await ended };
}

for (const [what, token, code] of [
  ["no credentials", undefined, "UNAUTHENTICATED"],
  ["unknown credentials", "wrong", "UNAUTHENTICATED"],
] as const) {
  test(`bad input: every method: ${what}: ${code}, nothing changes`, async () => {
    const stranger = fixture.connect(token);
    for (const form of ["unary", "session"] as const) {
      await fails(code, stranger.call(form, "Ingest", { messages: [GOOD] }));
      for (const method of ["Read", "GetBounds", "Seen", "GetStatistics"] as const) await fails(code, stranger.call(form, method, {}));
    }
    assert.equal((await consumed(token, [{ start: START }])).error?.code, code);
    await unchanged();
  });
}

test("bad input: after all of it: messages go in and come out", async () => {
  await settle();
  const results = await client.ingest([{ id: "after", value: Buffer.from("all of it") }]);
  assert.equal(results[0]!.verdict, "VERDICT_ACCEPTED");
  assert.equal(fixture.service.ready, true);
});

test("limits: below and at them: taken", async () => {
  const atLimits = {
    id: "x".repeat(ID_BYTES_MAX),
    key: Buffer.alloc(KEY_BYTES_MAX),
    headers: many(HEADERS_MAX, (at) => ({
      name: String(at).padStart(HEADER_NAME_BYTES_MAX, "h"),
      value: Buffer.alloc(at === 0 ? HEADER_VALUE_BYTES_MAX : 1),
    })),
    timestampMs: TIMESTAMP_MS_MAX,
  };
  const results = await client.ingest([atLimits]);
  assert.equal(results[0]!.verdict, "VERDICT_ACCEPTED");
  assert.equal((await client.ingest(many(INGEST_MESSAGES_MAX, (at) => ({ id: `at-limit-${at}` })))).length, INGEST_MESSAGES_MAX);
  assert.equal((await client.ingest([{ id: "abcd", value: Buffer.alloc(INGEST_BYTES_MAX - 4) }]))[0]!.verdict, "VERDICT_ACCEPTED");
  const { seen } = await client.call("unary", "Seen", { ids: many(SEEN_IDS_MAX, (at) => `at-limit-${at}`) });
  assert.ok(seen.every(Boolean));
});
