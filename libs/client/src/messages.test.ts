import assert from "node:assert/strict";
import { test } from "node:test";
import { IngestService, OutputService, WindowService } from "@concord/protos-dedup";
import type { ConcordClient, IngestedMessage, StoredMessage } from "./api.ts";
import { ConcordClientError } from "./errors.ts";
import { INGEST_MESSAGES_MAX } from "./limits.ts";
import { COORDINATORS, FakeCluster, WORKER } from "./testing/fake-cluster.ts";

async function connected(options: object = { dedupWorker: WORKER }): Promise<{ cluster: FakeCluster; db: ConcordClient }> {
  const cluster = new FakeCluster();
  const db = await cluster.connect(options);
  cluster.calls.length = 0;
  return { cluster, db };
}

async function failure(promise: Promise<unknown>): Promise<ConcordClientError> {
  const thrown: unknown = await promise.then(
    () => assert.fail("expected a failure"),
    (reason: unknown) => reason,
  );
  assert.ok(thrown instanceof ConcordClientError, String(thrown));
  return thrown;
}

const idsOf = (cluster: FakeCluster): string[][] =>
  cluster.requests(IngestService.methods.Ingest).map(({ messages }) => messages.map(({ id }) => id));
const verdicts = (results: readonly IngestedMessage[]): string[] => results.map(({ verdict }) => verdict);

test("[DD1] ingest: the reply is lost: sent again with the same ids, made ones included (I7)", async () => {
  const { cluster, db } = await connected();
  cluster.dropReply("ingest");
  const results = await cluster.clock.until(db.messages.ingest([{ id: "mine", value: "a" }, { value: "b" }, { id: "", value: "c" }]));
  const [first, second] = idsOf(cluster);
  assert.deepEqual(first, second);
  assert.equal(first![0], "mine");
  for (const id of first!.slice(1)) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(first).size, 3);
  assert.deepEqual(verdicts(results), ["duplicate", "duplicate", "duplicate"]);
  assert.equal(cluster.published.length, 3);
  assert.equal(results[0]!.offset, undefined);
});

test("ingest: nulls and empty ones: they come back as they were given; a message without a key has none", async () => {
  const { cluster, db } = await connected();
  const headers = { null: null, empty: "" };
  const forms = [
    { id: "a", value: null, key: null, headers },
    { id: "b", value: "", key: "", headers },
    { id: "c", value: null, headers },
  ];
  await cluster.clock.until(db.messages.ingest(forms));
  const { messages } = await cluster.clock.until(db.messages.read(0));
  const none = Buffer.alloc(0);
  const stored = [
    { name: "null", value: null },
    { name: "empty", value: none },
  ];
  assert.deepEqual(
    messages.map(({ key, value, headers: all }) => ({ key, value, headers: all })),
    [
      { key: null, value: null, headers: stored },
      { key: none, value: none, headers: stored },
      { key: null, value: null, headers: stored },
    ],
  );
});

test("ingest: a signal while no worker answers: the call ends at once, and is not sent again", async () => {
  const { cluster, db } = await connected();
  cluster.dropReply("ingest");
  const stopping = new AbortController();
  const call = failure(db.messages.ingest([{ id: "mine", value: "a" }], { signal: stopping.signal }));
  stopping.abort();
  assert.equal((await call).retryable, false);
  const sent = idsOf(cluster).length;
  await cluster.clock.until(db.messages.bounds(0));
  assert.equal(idsOf(cluster).length, sent);
});

test("ingest: texts and bytes, keys, headers, times: as they were given; accepted with offsets", async () => {
  const { cluster, db } = await connected();
  const at = new Date(1_800_000_000_000);
  const message = { id: "a", value: "text", key: Uint8Array.of(1), headers: { h: "x", b: Uint8Array.of(2) }, timestamp: at };
  const [result] = await cluster.clock.until(db.messages.ingest([message]));
  assert.deepEqual(result, { id: "a", verdict: "accepted", partition: 0, offset: 0n });
  const page = await cluster.clock.until(db.messages.read(0));
  const stored = page.messages[0]!;
  assert.equal(new TextDecoder().decode(stored.value!), "text");
  assert.deepEqual([...stored.key!], [1]);
  assert.deepEqual(
    stored.headers.map(({ name, value }) => [name, ...value!]),
    [
      ["h", 0x78],
      ["b", 2],
    ],
  );
  assert.deepEqual(stored.timestamp, at);
  assert.equal(page.next, 1n);
});

test("ingest: the worker is busy, starting, or one partition rebuilds: again until the time is up", async () => {
  const { cluster, db } = await connected();
  for (const code of ["OVERLOADED", "STARTING", "OUTCOME_UNKNOWN"] as const) cluster.fail("ingest", code);
  assert.deepEqual(verdicts(await cluster.clock.until(db.messages.ingest([{ value: "a" }]))), ["accepted"]);
  for (let at = 0; at < 200; at += 1) cluster.fail("ingest", "PARTITION_STOPPED", { applied: "no" });
  const error = await failure(cluster.clock.until(db.messages.ingest([{ value: "b" }], { timeoutMs: 300 })));
  assert.deepEqual([error.code, error.applied], ["PARTITION_STOPPED", "no"]);
});

test("ingest: an earlier try may have got there: the last error says so", async () => {
  const { cluster, db } = await connected();
  cluster.fail("ingest", "OUTCOME_UNKNOWN");
  for (let at = 0; at < 200; at += 1) cluster.fail("ingest", "STARTING");
  const error = await failure(cluster.clock.until(db.messages.ingest([{ value: "b" }], { timeoutMs: 300 })));
  assert.deepEqual([error.code, error.applied], ["STARTING", "unknown"]);
});

test("ingest: the first call of several got there, the next one is refused: the error does not say that nothing was applied", async () => {
  const { cluster, db } = await connected();
  const messages = Array.from({ length: INGEST_MESSAGES_MAX + 1 }, (_, at) => ({ id: `m${at}`, value: "v" }));
  cluster.intercept("ingest", (next) => next());
  cluster.fail("ingest", "MALFORMED_REQUEST");
  const error = await failure(cluster.clock.until(db.messages.ingest(messages)));
  assert.deepEqual([error.code, error.applied], ["MALFORMED_REQUEST", "unknown"]);
  assert.equal(cluster.published.length, INGEST_MESSAGES_MAX);
});

test("ingest: what is wrong stays wrong: one try", async () => {
  const { cluster, db } = await connected();
  cluster.fail("ingest", "MALFORMED_REQUEST");
  assert.equal((await failure(cluster.clock.until(db.messages.ingest([{ value: "a" }])))).code, "MALFORMED_REQUEST");
  assert.equal(cluster.seen("ingest").length, 1);
});

test("ingest: more than one call takes: several calls in order, results in the order of the messages", async () => {
  const { cluster, db } = await connected();
  const messages = Array.from({ length: INGEST_MESSAGES_MAX + 5 }, (_, at) => ({ id: `m${at}`, value: "v" }));
  const big = Array.from({ length: 3 }, (_, at) => ({ id: `big${at}`, value: new Uint8Array(1_400_000) }));
  const results = await cluster.clock.until(db.messages.ingest([...messages, ...big]));
  assert.deepEqual(
    results.map(({ id }) => id),
    [...messages, ...big].map(({ id }) => id),
  );
  assert.deepEqual(
    idsOf(cluster).map((ids) => ids.length),
    [INGEST_MESSAGES_MAX, 7, 1],
  );
});

test("ingest: acknowledged when it is in the input: queued", async () => {
  const { cluster, db } = await connected();
  const [result] = await cluster.clock.until(db.messages.ingest([{ id: "a", value: "v" }], { acknowledge: "input" }));
  assert.deepEqual(result, { id: "a", verdict: "queued", partition: 0, offset: 7n });
});

test("follow: connections break, the server restarts: every message once, in order", async () => {
  const { cluster, db } = await connected();
  await cluster.clock.until(db.messages.ingest(Array.from({ length: 6 }, (_, at) => ({ id: `m${at}`, value: "v" }))));
  const controller = new AbortController();
  const seen: string[] = [];
  const consume = async (): Promise<void> => {
    for await (const message of db.messages.follow(0, { from: 2n, signal: controller.signal }) as AsyncIterable<StoredMessage>) {
      seen.push(message.id);
      if (message.id === "m3") cluster.dropReply("read");
      if (message.id === "m5") controller.abort();
    }
  };
  cluster.fail("read", "DRAINING");
  await cluster.clock.until(consume());
  assert.deepEqual(seen, ["m2", "m3", "m4", "m5"]);
});

test("follow: offsets without messages: passed over, asked for once", async () => {
  const { cluster, db } = await connected();
  const controller = new AbortController();
  cluster.intercept("read", () => Promise.resolve({ messages: [], nextOffset: 5n }));
  cluster.intercept("read", () => {
    controller.abort();
    return Promise.resolve({ messages: [], nextOffset: 5n });
  });
  const consume = async (): Promise<void> => {
    for await (const message of db.messages.follow(0, { signal: controller.signal })) assert.fail(message.id);
  };
  await cluster.clock.until(consume());
  assert.deepEqual(
    cluster.requests(OutputService.methods.Read).map(({ fromOffset }) => fromOffset),
    [0n, 5n],
  );
});

test("follow: an offset that is not kept: the error, no jump", async () => {
  const { cluster, db } = await connected();
  cluster.fail("read", "OFFSET_OUT_OF_RANGE");
  const consume = async (): Promise<void> => {
    for await (const message of db.messages.follow(0)) assert.fail(message.id);
  };
  assert.equal((await failure(cluster.clock.until(consume()))).code, "OFFSET_OUT_OF_RANGE");
});

test("seen, bounds: as the worker says", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, dedupWorker: WORKER });
  await cluster.clock.until(db.messages.ingest([{ id: "a", value: "v" }]));
  assert.deepEqual(await cluster.clock.until(db.messages.seen(["a", "b"])), [true, false]);
  assert.deepEqual(await cluster.clock.until(db.messages.bounds(0)), { start: 0n, end: 1n, partitions: 1 });
});

test("messages: connected without a dedup-worker: UNIMPLEMENTED; without anything: MALFORMED_REQUEST", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS });
  assert.equal((await failure(cluster.clock.until(db.messages.ingest([{ value: "a" }])))).code, "UNIMPLEMENTED");
  assert.equal((await failure(cluster.connect({}))).code, "MALFORMED_REQUEST");
});

test("[DDD13] ingest and seen: a source is sent with every part, none when there is none", async () => {
  const { cluster, db } = await connected();
  const many = Array.from({ length: INGEST_MESSAGES_MAX + 1 }, () => ({ value: "a" }));
  await cluster.clock.until(db.messages.ingest(many, { source: "mail" }));
  await cluster.clock.until(db.messages.ingest([{ value: "a" }]));
  const sources = cluster.requests(IngestService.methods.Ingest).map(({ source }) => source);
  assert.deepEqual(sources, ["mail", "mail", ""]);
  await cluster.clock.until(db.messages.seen(["a"], { source: "mail" }));
  await cluster.clock.until(db.messages.seen(["a"]));
  assert.deepEqual(
    cluster.requests(WindowService.methods.Seen).map(({ source }) => source),
    ["mail", ""],
  );
});
