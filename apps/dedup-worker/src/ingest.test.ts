// Ingest, reading and statistics over workers whose failures the test orders.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { partitionOfId } from "@concord/dedup";
import type { IngestResult, MessageInit } from "@concord/protos-dedup";
import { ConcordError } from "@concord/runtime";
import { guidFromText, partsOfGuid } from "@concord/snowflake";
import { ID_MARK_KEY } from "./store/layout.ts";
import { fails, Folder, settle, START_MS, WorkerFixture, type Client, type Form, type FixtureOptions } from "./test/worker-fixture.ts";

const FORMS: readonly Form[] = ["unary", "session"];
const value = (text: string): Buffer => Buffer.from(text);
const statuses = (results: readonly IngestResult[]): string[] => results.map((result) => result.verdict.replace("VERDICT_", ""));

async function withFixture(options: FixtureOptions, body: (fixture: WorkerFixture, client: Client) => Promise<void>): Promise<void> {
  const fixture = await new WorkerFixture(options).start();
  try {
    await body(fixture, fixture.connect());
  } finally {
    await fixture.service.stop();
  }
}

describe("ingest", () => {
  for (const form of FORMS) {
    test(`[DD1] ingest (${form}): the first reply is lost, the same call again: duplicates, each once in the output`, () =>
      withFixture({}, async (fixture, client) => {
        const messages = ["a", "b", "c"].map((id) => ({ id, value: value(id) }));
        const lost = client.call(form, "Ingest", { messages }, 50);
        lost.catch(() => undefined);
        for (const worker of fixture.scripted) worker.isHeld = true;
        await settle();
        await fixture.clock.advance(100);
        await fails("DEADLINE_EXCEEDED", lost);
        for (const worker of fixture.scripted) worker.release();
        const { results } = await client.call(form, "Ingest", { messages });
        assert.deepEqual(statuses(results), ["DUPLICATE", "DUPLICATE", "DUPLICATE"]);
        assert.deepEqual(
          results.map(({ offset }) => offset),
          [-1n, -1n, -1n],
        );
        const output = [...(await fixture.folder.messages("output", 0)), ...(await fixture.folder.messages("output", 1))];
        assert.deepEqual(output.map((message) => Buffer.from(message.value!).toString()).sort(), ["a", "b", "c"]);
      }));
  }

  test("[DD14] ingest: a call with many messages: one input record each, results in the order of the call", () =>
    withFixture({}, async (fixture, client) => {
      const messages = Array.from({ length: 20 }, (_, at) => ({
        id: `m${at}`,
        value: value(`v${at}`),
        key: value("k"),
        headers: [{ name: "h", value: value("x") }],
      }));
      const results = await client.ingest(messages);
      assert.deepEqual(
        results.map(({ id }) => id),
        messages.map(({ id }) => id),
      );
      for (const { id, partition, offset, ...result } of results) {
        assert.equal(result.verdict, "VERDICT_ACCEPTED");
        assert.equal(partition, partitionOfId(Buffer.from(id), 2));
        const page = await client.read(partition, offset, { maxMessages: 1 });
        assert.equal(page.messages[0]!.id, id, "the output can be read by id");
        assert.equal(Buffer.from(page.messages[0]!.value).toString(), `v${id.slice(1)}`);
        assert.equal(Buffer.from(page.messages[0]!.key).toString(), "k");
        assert.equal(page.messages[0]!.timestampMs, BigInt(START_MS));
        assert.deepEqual(
          page.messages[0]!.headers.slice(0, 1).map(({ name }) => name),
          ["h"],
        );
      }
      assert.equal((await fixture.folder.messages("input", 0)).length + (await fixture.folder.messages("input", 1)).length, 20);
    }));

  test("[DD3] ingest: all copies of an id, in any case of a UUID: one partition", () =>
    withFixture({}, async (_, client) => {
      const id = "6f1ab5e2-0d6e-4b7f-9f43-aaaaaaaaaaaa";
      const results = await client.ingest([{ id }, { id: id.toUpperCase() }, { id }]);
      assert.equal(new Set(results.map(({ partition }) => partition)).size, 1);
    }));

  test("[DDD12] ingest: two sendings of one id in flight: one accepted, one duplicate", () =>
    withFixture({}, async (fixture, client) => {
      for (const worker of fixture.scripted) worker.isHeld = true;
      const both = Promise.all([client.ingest([{ id: "a", value: value("1") }]), client.ingest([{ id: "a", value: value("2") }])]);
      await settle();
      for (const worker of fixture.scripted) worker.release();
      const [[one], [two]] = await both;
      assert.deepEqual(statuses([one!, two!]).sort(), ["ACCEPTED", "DUPLICATE"]);
    }));

  test("[DDD12] ingest: acknowledged when it is in the input: queued with input offsets, before any result", () =>
    withFixture({}, async (fixture, client) => {
      for (const worker of fixture.scripted) worker.isHeld = true;
      const id = fixture.idIn(1);
      const results = await client.ingest([{ id }, { id }], { acknowledge: "ACKNOWLEDGE_INPUT" });
      assert.deepEqual(
        results.map((result) => [result.verdict, result.partition, result.offset]),
        [
          ["VERDICT_QUEUED", 1, 0n],
          ["VERDICT_QUEUED", 1, 1n],
        ],
      );
      assert.equal((await fixture.folder.messages("input", 1)).length, 2);
    }));

  test("ingest: no result in time: DEADLINE_EXCEEDED, applied unknown, the messages come out later", () =>
    withFixture({}, async (fixture, client) => {
      const id = fixture.idIn(0);
      fixture.scripted[0]!.isHeld = true;
      const late = client.ingest([{ id }], {}, 200);
      late.catch(() => undefined);
      await settle();
      await fixture.clock.advance(300);
      assert.equal((await fails("DEADLINE_EXCEEDED", late)).applied, "unknown");
      fixture.scripted[0]!.release();
      await settle();
      assert.equal((await fixture.folder.messages("output", 0)).length, 1);
    }));

  test("ingest: the partition stops while the result is awaited: PARTITION_STOPPED, applied unknown (I2)", () =>
    withFixture({}, async (fixture, client) => {
      fixture.scripted[0]!.isHeld = true;
      const waiting = client.ingest([{ id: fixture.idIn(0) }]);
      waiting.catch(() => undefined);
      await settle();
      fixture.scripted[0]!.fail(new ConcordError("STORE_FAILED", "the disk is gone"));
      assert.equal((await fails("PARTITION_STOPPED", waiting)).applied, "unknown");
    }));
});

describe("ids", () => {
  test("[DD2] ids: messages without one: new ones that sort by time, kept apart over a restart with the clock behind", async () => {
    const folder = new Folder();
    const fixture = await new WorkerFixture({}, folder).start();
    const first = await fixture.connect().ingest([{ value: value("a") }, { value: value("b") }]);
    const ids = first.map(({ id }) => guidFromText(id));
    assert.deepEqual(statuses(first), ["ACCEPTED", "ACCEPTED"]);
    assert.ok(ids[0]! < ids[1]!);
    assert.equal(partsOfGuid(ids[0]!).timeMs, START_MS);
    assert.ok((await folder.stores.get("meta")!.get(ID_MARK_KEY)) !== undefined);
    await fixture.service.stop();
    const again = await new WorkerFixture({}, folder.restart()).start();
    const [third] = await again.connect().ingest([{ value: value("c") }]);
    assert.ok(guidFromText(third!.id) > ids[1]!);
    await again.service.stop();
  });

  test("ids: the clock stood 8 h ahead and is set right: messages without an id are accepted at once, before and after a restart", async () => {
    const folder = new Folder();
    const fixture = new WorkerFixture({}, folder);
    fixture.clock.wallOffMs = 8 * 3_600_000;
    await fixture.start();
    const results = [...(await fixture.connect().ingest([{ value: value("a") }]))];
    fixture.clock.wallOffMs = 0;
    results.push(...(await fixture.connect().ingest([{ value: value("b") }])));
    await fixture.service.stop();
    const again = await new WorkerFixture({}, folder.restart()).start();
    results.push(...(await again.connect().ingest([{ value: value("c") }])));
    assert.deepEqual(statuses(results), ["ACCEPTED", "ACCEPTED", "ACCEPTED"]);
    assert.equal(new Set(results.map(({ id }) => id)).size, 3);
    await again.service.stop();
  });

  const found = async (config: object, message: MessageInit): Promise<IngestResult> => {
    let result: IngestResult | undefined;
    await withFixture({ config }, async (_, client) => {
      result = (await client.ingest([{ value: value("{}"), ...message }]))[0];
    });
    return result!;
  };
  const json = { value: value('{"user":{"event":"e-7"}}') };

  for (const [what, config, message, id, status] of [
    ["in the key", { idSource: "key" }, { key: value("k-1") }, "k-1", "ACCEPTED"],
    ["in a header", { idSource: "header:trace" }, { headers: [{ name: "trace", value: value("t-1") }] }, "t-1", "ACCEPTED"],
    ["in the value", { idSource: "json:user.event" }, json, "e-7", "ACCEPTED"],
    ["given, and another one in the key", { idSource: "key" }, { id: "mine", key: value("k-1") }, "mine", "ACCEPTED"],
    ["nowhere, to the dead letters", { idSource: "json:user.event", missingId: "dead-letter" }, {}, "", "DEAD_LETTERED"],
    ["nowhere in what is no JSON", { idSource: "json:a", missingId: "dead-letter" }, { value: value("{") }, "", "DEAD_LETTERED"],
  ] as const) {
    test(`[DDD8] ids: ${what}: ${status}`, async () => {
      const result = await found(config, message);
      assert.deepEqual([result.id, result.verdict], [id, `VERDICT_${status}`]);
    });
  }

  for (const [idSource, missingId, value, repeated] of [
    ["none", "make", "v", "DUPLICATE"],
    ["none", "pass", "v", "DUPLICATE"],
    ["json:id", "make", '{"id":"x"}', "ACCEPTED"],
    ["content", "make", "v", "ACCEPTED"],
    ["none", "hash", "v", "ACCEPTED"],
    ["json:id", "dead-letter", "v", "DEAD_LETTERED"],
  ] as const) {
    test(`[DD1] [DDD8] ids: a fallback id, idSource ${idSource}, missingId ${missingId}: ${repeated} where another message had it`, async () => {
      await withFixture({ config: { idSource, missingId }, scripted: false }, async (_, client) => {
        await client.ingest([{ value: Buffer.from("another"), fallbackId: "redriven-0-1" }]).catch(() => undefined);
        const results = await client.ingest([{ value: Buffer.from(value), fallbackId: "redriven-0-1" }]);
        assert.deepEqual(statuses(results), [repeated]);
      });
    });
  }

  test("[DDD8] ids: not found where the configuration says: a new one", async () => {
    const { id } = await found({ idSource: "key" }, {});
    assert.equal(partsOfGuid(guidFromText(id)).timeMs, START_MS);
  });
});

describe("partitions", () => {
  test("partitions: one stopped: its calls get PARTITION_STOPPED with nothing appended, the others go on (I3)", () =>
    withFixture({}, async (fixture, client) => {
      const [stopped, running] = [fixture.idIn(0), fixture.idIn(1)];
      fixture.scripted[0]!.fail(new ConcordError("CORRUPT_DATA", "the window is damaged"));
      const before = await fixture.folder.contents();
      const error = await fails("PARTITION_STOPPED", client.ingest([{ id: running }, { id: stopped }]));
      assert.deepEqual([error.applied, error.metadata["partition"], error.metadata["code"]], ["no", "0", "CORRUPT_DATA"]);
      await fails("PARTITION_STOPPED", client.call("unary", "Seen", { ids: [stopped, running] }));
      assert.equal(await fixture.folder.contents(), before);
      assert.deepEqual(statuses(await client.ingest([{ id: running }])), ["ACCEPTED"]);
      const ids = [running, `${running}-not`].filter((id) => partitionOfId(Buffer.from(id), 2) === 1);
      assert.equal((await client.call("unary", "Seen", { ids })).seen[0], true);
      assert.deepEqual((await client.read(0, 0n)).messages, [], "what is committed can be read");
    }));

  test("partitions: one stopped: in the statistics, the metrics and the readiness", () =>
    withFixture({}, async (fixture, client) => {
      assert.equal(fixture.service.ready, true);
      fixture.scripted[1]!.fail(new ConcordError("CORRUPT_DATA", "the window is damaged"));
      await settle();
      assert.equal(fixture.service.ready, false);
      assert.deepEqual(fixture.service.problems, ["the window is damaged"]);
      assert.deepEqual([fixture.gauges.get("dedup_partition_running 0"), fixture.gauges.get("dedup_partition_running 1")], [1, 0]);
      const { partitions } = await client.call("session", "GetStatistics", {});
      assert.deepEqual(
        partitions.map(({ state, reason }) => [state, reason]),
        [
          ["PARTITION_STATE_RUNNING", ""],
          ["PARTITION_STATE_STOPPED", "the window is damaged"],
        ],
      );
      assert.deepEqual([partitions[0]!.windowMs, partitions[0]!.diskBytes, partitions[0]!.runs], [5n, 16n, 1]);
    }));

  for (const [failing, code] of [
    [[1], undefined],
    [[0, 1], "PARTITION_STOPPED"],
  ] as const) {
    test(`partitions: ${failing.length} of 2 do not start: ${code ?? "the other one serves"}`, async () => {
      const fixture: WorkerFixture = new WorkerFixture({
        prepare: (worker) => {
          if (failing.some((partition) => partition === worker.partition))
            worker.failsToStart = new ConcordError("CORRUPT_DATA", "damaged");
        },
      });
      if (code === undefined) {
        await fixture.start();
        assert.equal(fixture.service.ready, false);
        assert.deepEqual(statuses(await fixture.connect().ingest([{ id: fixture.idIn(0) }])), ["ACCEPTED"]);
        await fixture.service.stop();
      } else await fails(code, fixture.start());
    });
  }
});

describe("seen", () => {
  let fixture: WorkerFixture;
  before(async () => {
    fixture = await new WorkerFixture().start();
  });
  after(() => fixture.service.stop());

  for (const form of FORMS) {
    test(`[DDD12] seen (${form}): ids of all partitions: answers in the order of the call`, async () => {
      const client = fixture.connect();
      const ids = Array.from({ length: 10 }, (_, at) => `${form}-${at}`);
      await client.ingest(ids.filter((_, at) => at % 3 === 0).map((id) => ({ id })));
      const { seen } = await client.call(form, "Seen", { ids });
      assert.deepEqual(
        seen,
        ids.map((_, at) => at % 3 === 0),
      );
    });
  }
});
