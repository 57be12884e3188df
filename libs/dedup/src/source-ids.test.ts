// Ids of sources: equal ids of two of them are two messages, everywhere an id is compared.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog } from "@concord/port-contracts";
import type { NewMessage } from "@concord/ports";
import { idKeys, packGiven, unpackIds } from "./id-words.ts";
import { SOURCE_BYTES_MAX, SOURCE_MASKS_KEPT } from "./limits.ts";
import { ID_HEADER, readOrigin, SOURCE_HEADER } from "./origin.ts";
import { SourceMasks } from "./source-masks.ts";
import { all, fixture, hash, message, outputValues, processed, utf8 } from "./test/fixture.ts";

const UUID = "0a1b2c3d-4e5f-4677-8899-aabbccddeeff";
const KEYS = idKeys(Uint8Array.from({ length: 16 }, (_, at) => at));

/** As the service appends it, or a producer of Kafka. */
function of(source: string | undefined, id: string, value = `${id} of ${source}`): NewMessage {
  const { headers, ...more } = message(id, value);
  return { ...more, headers: source === undefined ? headers : [{ name: SOURCE_HEADER, value: utf8(source) }, ...headers] };
}

function packed(id: string, ...sources: (string | undefined)[]): string[] {
  const masks = new SourceMasks(KEYS, hash);
  return sources.map((source) => {
    const words = new Uint32Array(4);
    packGiven(utf8(id), KEYS, hash, words, 0);
    masks.apply(source === undefined ? undefined : utf8(source), words, 0);
    return Buffer.from(unpackIds(words)).toString("hex");
  });
}

test("[DDD13] sources: a producer sends another's ids first: all of both are published, each once", async () => {
  for (const id of [UUID, "order-7"]) {
    const { log, worker } = fixture();
    await worker.start();
    const sent = [of("mallory", id), of("billing", id), of(undefined, id), of("billing", id), of("mallory", id), of(undefined, id)];
    for (const one of sent) await log.append(0, [one]);
    await processed({ worker });
    assert.deepEqual(await outputValues(log), [`${id} of mallory`, `${id} of billing`, `${id} of undefined`]);
    assert.deepEqual(
      (await all(log, "output")).map((one) => Buffer.from(readOrigin(one)?.source ?? []).toString()),
      ["mallory", "billing", ""],
    );
    await worker.stop();
  }
});

test("[DDD13] sources: in one page, in the page before, beyond a segment, after a lost window: compared among themselves alone", async () => {
  const log = new MemoryMessageLog(1);
  const first = fixture({ log });
  await first.worker.start();
  const ids = Array.from({ length: 20 }, (_, at) => `id-${at}`);
  const batch = ids.flatMap((id) => [of("a", id), of("b", id), of("a", id.toUpperCase())]);
  await log.append(0, batch);
  await processed(first);
  assert.equal((await outputValues(log)).length, 60, "ids that are no UUIDs differ in their case");
  const seenBy = async (name: string | undefined): Promise<readonly boolean[]> =>
    await again.worker.seen([utf8("id-18"), utf8("ID-18"), utf8("id-20")], name === undefined ? undefined : utf8(name));
  await first.worker.stop();
  // The key of the ids is drawn anew: the window is made again from the output's headers.
  const again = fixture({ log: log.restart() });
  await again.worker.start();
  await again.log.append(0, batch.slice(-9));
  await processed(again);
  assert.equal((await outputValues(again.log)).length, 60);
  assert.deepEqual(await seenBy("a"), [true, true, false]);
  assert.deepEqual(await seenBy("b"), [true, false, false]);
  assert.deepEqual(await seenBy(undefined), [false, false, false]);
  await again.worker.stop();
});

test("[DDD13] sources: content as the id: equal values of two sources are two messages", async () => {
  const { log, worker } = fixture({ worker: { missingId: "hash" } });
  await worker.start();
  const bare = (source: string): NewMessage => ({
    ...of(source, "x", "same"),
    headers: [{ name: SOURCE_HEADER, value: utf8(source) }],
  });
  await log.append(0, [bare("a"), bare("b"), bare("a")]);
  await processed({ worker });
  assert.equal((await outputValues(log)).length, 2);
  await worker.stop();
});

test("[DDD13] sources: ids without one and with an empty one are what they were before there were sources (golden bytes)", () => {
  assert.deepEqual(packed(UUID, undefined, ""), [UUID.replaceAll("-", ""), UUID.replaceAll("-", "")]);
  assert.deepEqual(packed(UUID.toUpperCase(), "billing"), packed(UUID, "billing"), "a UUID is the same in any case");
  assert.deepEqual(packed(UUID, "billing", "orders", "billing"), [
    "9751effcfbc990172db6fd2465b29351",
    "f6a10cf3952466f95191ccb80163837a",
    "9751effcfbc990172db6fd2465b29351",
  ]);
});

test("[DDD13] sources: more at a time than are kept: each has its mask all the same", () => {
  const names = Array.from({ length: SOURCE_MASKS_KEPT + 5 }, (_, at) => `source-${at}`);
  const once = packed("id", ...names);
  assert.equal(new Set(once).size, names.length);
  assert.deepEqual(packed("id", ...names, ...names).slice(names.length), once);
});

test("[DDD13] sources: a name that is too long, as a producer of Kafka may write it: a dead letter with the reason; the longest passes", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(0, [of("s".repeat(SOURCE_BYTES_MAX + 1), "a"), of("s".repeat(SOURCE_BYTES_MAX), "a")]);
  await processed({ worker });
  assert.equal((await outputValues(log)).length, 1);
  const [dead] = await all(log, "dead-letters");
  assert.equal(readOrigin(dead!)?.reason, `the source has more than ${SOURCE_BYTES_MAX} bytes`);
  await worker.stop();
});

test("[DDD13] sources: what was published before there were sources is a duplicate of ids without one, and of no source's", async () => {
  const log = new MemoryMessageLog(1);
  const before = fixture({ log });
  await before.worker.start();
  await log.append(0, [{ ...message("old"), headers: [{ name: ID_HEADER, value: utf8("old") }] }]);
  await processed(before);
  await before.worker.stop();
  const after = fixture({ log: log.restart(), stores: before.stores.restart("process") });
  await after.worker.start();
  await after.log.append(0, [of(undefined, "old"), of("", "old"), of("a", "old")]);
  await processed(after);
  assert.deepEqual(await outputValues(after.log), ["value of old", "old of a"]);
  await after.worker.stop();
});
