// Producers of the input topic that do not pass Ingest: their partitioner, their place of the id, messages without one.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewMessage } from "@concord/ports";
import { settle, Folder, WorkerFixture } from "./test/worker-fixture.ts";

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
const foreign = (id: string, more: Partial<NewMessage> = {}): NewMessage => ({
  key: bytes(id),
  value: bytes(JSON.stringify({ messageId: id })),
  headers: [{ name: "trace", value: bytes(id) }],
  timestampMs: 1,
  ...more,
});

interface Came {
  /** Messages of the output. */
  readonly messages: readonly NewMessage[];
  readonly output: readonly string[];
  readonly ids: readonly string[];
  readonly deadLetters: readonly string[];
}

/** Results of messages that a producer with its own partitioner appended to the input, in order. */
async function processed(config: object, messages: readonly NewMessage[]): Promise<Came> {
  const folder = new Folder();
  for (const [at, message] of messages.entries()) await folder.log.append(at % 2, [message]);
  const fixture = await new WorkerFixture({ scripted: false, config: { windowIdsMax: 4096, ...config } }, folder).start();
  const client = fixture.connect();
  for (let lag = 1n; lag > 0n;) {
    await settle();
    const { partitions } = await client.call("unary", "GetStatistics", {});
    lag = partitions.reduce((sum, partition) => sum + partition.lag, 0n);
  }
  await fixture.service.stop();
  const read = async (topic: "output" | "dead-letters"): Promise<readonly NewMessage[]> => [
    ...(await folder.messages(topic, 0)),
    ...(await folder.messages(topic, 1)),
  ];
  const header = ({ headers }: NewMessage, name: string): string =>
    Buffer.from(headers.find((each) => each.name === name)?.value ?? []).toString();
  const output = await read("output");
  return {
    messages: output,
    output: output.map(({ value }) => Buffer.from(value ?? "null").toString()).toSorted(),
    ids: output.map((message) => header(message, "concord-id")).toSorted(),
    deadLetters: (await read("dead-letters")).map((message) => header(message, "concord-reason")),
  };
}

const IDS = Array.from({ length: 20 }, (_, at) => `id-${String(at).padStart(2, "0")}`);
/** Each id in both partitions. */
const TWICE = IDS.flatMap((id) => [foreign(id), foreign(id)]);

for (const idSource of ["key", "json:messageId", "header:trace", "content"]) {
  test(`[DD1] [DDD8] foreign producer: each message twice, its id by ${idSource}, without our header: each once in the output, no dead letter`, async () => {
    const came = await processed({ idSource }, TWICE);
    assert.deepEqual(
      came.output,
      IDS.map((id) => JSON.stringify({ messageId: id })),
    );
    assert.deepEqual(came.deadLetters, []);
  });
}

test("[DDD8] foreign producer: the header concord-id counts before the configured source", async () => {
  const headers = [{ name: "concord-id", value: bytes("one") }];
  const came = await processed({ idSource: "key" }, [foreign("a", { headers }), foreign("b", { headers })]);
  assert.deepEqual([came.output.length, came.ids, came.deadLetters], [1, ["one"], []]);
});

for (const [missingId, ids, deadLetters] of [
  ["make", ["0-0", "1-0"], []],
  ["pass", ["", ""], []],
  ["hash", [""], []],
  ["dead-letter", [], ["no header concord-id, no text at messageId", "no header concord-id, no text at messageId"]],
] as const) {
  test(`[DDD8] foreign producer: no id where the configuration says, missingId ${missingId}: as configured`, async () => {
    const value = bytes("{}");
    const came = await processed({ idSource: "json:messageId", missingId }, [foreign("a", { value }), foreign("b", { value })]);
    assert.deepEqual([came.ids, came.deadLetters], [ids, deadLetters]);
  });
}

test("[DDD8] foreign producer: a tombstone, a null key and a null header: they come out as null, each once", async () => {
  const headers = [{ name: "trace", value: null }];
  const sent = IDS.flatMap((id) => {
    const message: NewMessage = { key: null, value: null, headers: [{ name: "concord-id", value: bytes(id) }, ...headers], timestampMs: 1 };
    return [message, message];
  });
  const { messages } = await processed({ idSource: "none", missingId: "dead-letter" }, sent);
  const contents = messages.map(({ key, value, headers: [first] }) => [key, value, first]);
  assert.deepEqual(contents, Array(IDS.length).fill([null, null, headers[0]]));
});

for (const [idSource, reason] of [
  ["key", "no header concord-id, no key"],
  ["json:messageId", "no header concord-id, no value"],
  ["header:trace", "no header concord-id, header trace is null"],
] as const) {
  test(`[DDD8] foreign producer: ids by ${idSource}, which is null: dead letters whose reason names the null`, async () => {
    const nulls = foreign("a", { key: null, value: null, headers: [{ name: "trace", value: null }] });
    const came = await processed({ idSource, missingId: "dead-letter" }, [nulls]);
    assert.deepEqual([came.output, came.deadLetters], [[], [reason]]);
  });
}

test("[DDD8] foreign producer: ids by content: a null is one content, no bytes are another", async () => {
  const forms = [foreign("a", { value: null }), foreign("a", { value: bytes("") })];
  const came = await processed({ idSource: "content" }, [...forms, ...forms, ...forms]);
  assert.deepEqual(came.output, ["", "null"]);
});
