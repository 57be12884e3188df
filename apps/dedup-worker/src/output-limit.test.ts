// The window needs all output that may be kept: new messages are refused, everything else goes on, and ids that are too old free bytes.
import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { test } from "node:test";
import { openEmbeddedLog } from "@concord/adapter-embedded-log";
import type { MessageLog } from "@concord/ports";
import { GAUGE_INTERVAL_MS, OUTPUT_BYTES_MIN, OUTPUT_FULL_RETRY_MS } from "./limits.ts";
import { outputBytesOf } from "./config.ts";
import { fails, Folder, settle, WorkerFixture } from "./test/worker-fixture.ts";

const WINDOW_MS = 60_000;
const OUTPUT_BYTES = 40_000;
const VALUE = Buffer.alloc(1_000, "v");

interface Made {
  readonly fixture: WorkerFixture;
  readonly log: MessageLog;
}

/** Real workers on the real log, whose segments are small. */
async function made(windowMaxAgeMs: number): Promise<Made> {
  const folder = new Folder();
  const opening = Promise.withResolvers<MessageLog>();
  const fixture: WorkerFixture = new WorkerFixture(
    {
      scripted: false,
      config: { windowIdsMax: 256, windowMaxAgeMs },
      host: {
        openMessages: async () => {
          const { clock, random } = fixture.environment();
          const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
          const limits = { segmentBytes: 4_000 };
          const retention = { outputBytes: OUTPUT_BYTES };
          const log = await openEmbeddedLog({
            disk: folder.disk,
            folder: "log",
            partitions: 2,
            clock,
            random,
            checksum,
            limits,
            retention,
          });
          opening.resolve(log);
          return log;
        },
      },
    },
    folder,
  );
  await fixture.start();
  return { fixture, log: await opening.promise };
}

/** One message after the other until they are refused; how many were taken. */
async function fillUp({ fixture }: Made, partition: number): Promise<number> {
  const client = fixture.connect();
  for (let count = 0; count < 200; count += 1) {
    try {
      await client.ingest([{ id: fixture.idIn(partition, `m${count}`), value: VALUE }]);
    } catch {
      return count;
    }
  }
  return assert.fail("nothing was refused");
}

const contents = async ({ log }: Made): Promise<string> =>
  (
    await Promise.all([0, 1].map(async (each) => `${(await log.bounds("input", each)).end} ${(await log.bounds("output", each)).end}`))
  ).join();

test("[DDD10] output: the window needs more than may be kept: refused with what to do; reads, Seen and other partitions go on; old ids free bytes", async () => {
  const one = await made(WINDOW_MS);
  const { fixture, log } = one;
  const client = fixture.connect();
  const taken = await fillUp(one, 0);
  assert.ok(taken > 30 && taken < 50, `${taken} messages of 1 KB in ${OUTPUT_BYTES} bytes`);
  const before = await contents(one);
  const error = await fails("STORAGE_FULL", client.ingest([{ id: fixture.idIn(0, "more"), value: VALUE }]));
  assert.deepEqual([error.applied, error.retryAfterMs], ["no", OUTPUT_FULL_RETRY_MS]);
  assert.match(error.message, /outputRetentionBytes is 40000: raise it, or lower windowIdsMax or windowMaxAgeMs/);
  assert.deepEqual([error.metadata["limit"], error.metadata["partition"]], ["outputRetentionBytes", "0"]);
  const both = [0, 1].map((partition) => ({ id: fixture.idIn(partition, "both"), value: VALUE }));
  assert.equal((await fails("STORAGE_FULL", client.ingest(both))).applied, "no");
  const sent = [{ id: fixture.idIn(0, "m0"), value: VALUE }];
  await fails("STORAGE_FULL", client.ingest(sent), "a duplicate too: what it is, is decided later");
  assert.equal(await contents(one), before, "nothing was appended");
  assert.equal((await log.bounds("output", 0)).start, 0n, "and nothing removed");
  assert.equal((await client.read(0, 0n)).messages.length, taken);
  assert.deepEqual((await client.call("unary", "Seen", { ids: [fixture.idIn(0, "m0")] })).seen, [true]);
  assert.equal((await client.ingest([{ id: fixture.idIn(1, "other"), value: VALUE }]))[0]!.verdict, "VERDICT_ACCEPTED");
  assert.equal(fixture.service.ready, false);
  assert.match(fixture.service.problems.join("\n"), /^partition 0: the window needs \d+ bytes/);
  await fixture.clock.advance(GAUGE_INTERVAL_MS);
  await settle();
  assert.deepEqual([fixture.gauges.get("dedup_output_full 0"), fixture.gauges.get("dedup_output_full 1")], [1, 0]);
  assert.ok(fixture.gauges.get("dedup_output_needed_bytes 0")! > OUTPUT_BYTES);
  // Nothing is published in partition 0: its ids age all the same.
  await fixture.clock.advance(WINDOW_MS + 3 * GAUGE_INTERVAL_MS);
  await settle();
  assert.equal((await client.ingest([{ id: fixture.idIn(0, "more"), value: VALUE }]))[0]!.verdict, "VERDICT_ACCEPTED");
  assert.equal(fixture.service.ready, true);
  await fixture.clock.advance(2 * GAUGE_INTERVAL_MS);
  await settle();
  assert.equal(fixture.gauges.get("dedup_output_full 0"), 0);
  assert.ok((await log.bounds("output", 0)).start > 0n, "output was removed");
  await fixture.service.stop();
});

test("[DDD10] output: full, and the process starts anew: refused as before, for what the rebuilt window needs", async () => {
  const one = await made(0);
  const taken = await fillUp(one, 0);
  const { folder } = one.fixture;
  await one.fixture.service.stop();
  const log = await openEmbeddedLog({
    ...one.fixture.environment(),
    disk: folder.disk,
    folder: "log",
    partitions: 2,
    limits: { segmentBytes: 4_000 },
    retention: { outputBytes: 2 * OUTPUT_BYTES },
  });
  const again = new WorkerFixture(
    { scripted: false, config: { windowIdsMax: 256, windowMaxAgeMs: 0 }, host: { openMessages: async () => log } },
    folder,
  );
  await again.start();
  const client = again.connect();
  assert.equal(
    (await client.ingest([{ id: again.idIn(0, "more"), value: VALUE }]))[0]!.verdict,
    "VERDICT_ACCEPTED",
    "the limit was raised",
  );
  assert.equal((await client.read(0, 0n)).messages.length, taken + 1);
  await again.service.stop();
});

test("config: the default of outputRetentionBytes: 4 KiB for each id, and never less than is reasonable", () => {
  assert.equal(outputBytesOf({ windowIdsMax: 4_000_000, outputRetentionBytes: undefined }), 16_384_000_000);
  assert.equal(outputBytesOf({ windowIdsMax: 256, outputRetentionBytes: undefined }), OUTPUT_BYTES_MIN);
  assert.equal(outputBytesOf({ windowIdsMax: 4_000_000, outputRetentionBytes: 64 * 1024 * 1024 }), 64 * 1024 * 1024);
});
