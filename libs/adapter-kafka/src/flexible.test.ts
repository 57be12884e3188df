// Fetch 13 as it is on the wire: golden bytes of a request, and answers of a broker.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fetchRequest, readFetched } from "./flexible.ts";

const ID = "000102030405060708090a0b0c0d0e0f";
const bytes = (...parts: readonly string[]): Buffer => Buffer.from(parts.join(""), "hex");
const HEAD = ["00", "00000000", "0000", "00000000", "02", ID, "02"];
const PARTITION = ["00000001", "0000", "0000000000000009", "0000000000000008", "0000000000000000", "01", "ffffffff"];

test("fetch: a request: golden bytes, the leader epoch among them", async () => {
  const asked = { topicId: ID, partition: 1, from: 5n, bytesMax: 4096, isolationLevel: 1 };
  const sent = async (lastEpoch: number): Promise<string> => (await fetchRequest({ ...asked, lastEpoch }).encode()).buffer.toString("hex");
  const before = `00${"ffffffff"}${"00000000".repeat(2)}${"00001000"}01${"00000000"}${"ffffffff"}02${ID}02${"00000001"}${"ffffffff"}${"0000000000000005"}`;
  const after = `${"ff".repeat(8)}${"00001000"}0000010100`;
  assert.equal(await sent(3), `${before}00000003${after}`);
  assert.equal(await sent(-1), `${before}ffffffff${after}`);
});

test("[DDD5] fetch: an answer says where the log parts from what was read, or nothing; fields that are not known are passed over", () => {
  const rest = ["00", "00"];
  const same = readFetched(bytes(...HEAD, ...PARTITION, "03", "abcd", "00", ...rest));
  assert.deepEqual([same.stableEnd, same.batches.toString("hex"), same.divergesAt], [8n, "abcd", undefined]);
  const diverging = ["02", "00", "0d", "00000002", "0000000000000006", "00", "07", "02", "beef"];
  assert.equal(readFetched(bytes(...HEAD, ...PARTITION, "01", ...diverging, ...rest)).divergesAt, 6n);
});
