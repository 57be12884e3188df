// Which broker a fault is for, from the bytes of the brokers' answers.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { busiestBroker, countOf, kafkaPlacement, movedFrom, type Placement, readCoordinator, readMetadata } from "./kafka-placement.ts";

const int16 = (value: number): Buffer => Buffer.from([(value >> 8) & 255, value & 255]);
const int32 = (value: number): Buffer => Buffer.from([value >> 24, value >> 16, value >> 8, value].map((byte) => byte & 255));
const text = (value: string): Buffer => Buffer.concat([int16(value.length), Buffer.from(value)]);
const list = (...items: readonly Buffer[]): Buffer => Buffer.concat([int32(items.length), ...items]);
const broker = (id: number): Buffer => Buffer.concat([int32(id), text("127.0.0.1"), int32(9_000 + id), int16(-1)]);
const partition = (index: number, leader: number, inSync: readonly number[]): Buffer =>
  Buffer.concat([int16(0), int32(index), int32(leader), list(...[1, 2, 3].map(int32)), list(...inSync.map(int32))]);
const topic = (name: string, ...partitions: readonly Buffer[]): Buffer =>
  Buffer.concat([int16(0), text(name), Buffer.from([0]), list(...partitions)]);

const METADATA = Buffer.concat([
  list(broker(1), broker(2), broker(3)),
  int32(1),
  list(
    topic("input", partition(0, 2, [2, 1, 3]), partition(1, 2, [2, 3])),
    topic("output", partition(0, 3, [3, 1, 2])),
    topic("foreign", partition(0, 1, [1])),
  ),
]);
const coordinator = (error: number, id: number): Buffer =>
  Buffer.concat([int32(0), int16(error), int16(-1), int32(id), text("127.0.0.1"), int32(9_001)]);

function placement(leaders: Readonly<Record<string, number>>, coordinators: Readonly<Record<string, number>> = {}): Placement {
  return { leaders: new Map(Object.entries(leaders)), coordinators: new Map(Object.entries(coordinators)), lagging: 0 };
}

test("metadata: leaders of the pipeline's partitions, and how many have a replica behind: other topics count for nothing", () => {
  const { leaders, lagging } = readMetadata(METADATA, new Set(["input", "output"]));
  assert.deepEqual(
    [...leaders],
    [
      ["input/0", 2],
      ["input/1", 2],
      ["output/0", 3],
    ],
  );
  assert.equal(lagging, 1);
});

test("coordinator: an answer, and one that says there is none", () => {
  assert.equal(readCoordinator(coordinator(0, 3)), 3);
  assert.equal(readCoordinator(coordinator(15, -1)), undefined);
});

test("victim: the broker that leads most; of equals the one that coordinates most; one that leads nothing never", () => {
  assert.equal(busiestBroker(placement({ "a/0": 1, "a/1": 2, "a/2": 2 }, { x: 3, y: 3 })), 2);
  assert.equal(busiestBroker(placement({ "a/0": 1, "a/1": 2 }, { x: 2 })), 2);
  assert.equal(busiestBroker(placement({ "a/0": -1, "a/1": -1, "a/2": 1 })), 1);
  assert.throws(() => busiestBroker(placement({ "a/0": -1 })), /no broker leads/);
});

test("moved: what the broker had and another one has; without a leader nothing has moved", () => {
  const before = placement({ "a/0": 1, "a/1": 1, "a/2": 1, "a/3": 2 }).leaders;
  assert.equal(movedFrom(1, before, placement({ "a/0": 2, "a/1": -1, "a/2": 1, "a/3": 3 }).leaders), 1);
  assert.equal(movedFrom(1, before, new Map()), 0);
  assert.equal(countOf(before, 1), 3);
});

test("placement: the first broker does not answer: the next one is asked", async (t) => {
  const answers = new Map([
    [3, METADATA],
    [10, coordinator(0, 2)],
  ]);
  const server = createServer((socket) => {
    socket.on("data", (request: Buffer) => {
      const answer = Buffer.concat([int32(0), answers.get(request.readInt16BE(4))!]);
      // In two parts, as large answers come.
      socket.write(Buffer.concat([int32(answer.length), answer.subarray(0, 5)]));
      setImmediate(() => socket.write(answer.subarray(5)));
    });
    socket.on("error", () => undefined);
  });
  const gone = createServer();
  const addresses: string[] = [];
  for (const each of [gone, server]) {
    await new Promise<void>((resolve) => void each.listen(0, "127.0.0.1", resolve));
    addresses.push(`127.0.0.1:${(each.address() as { port: number }).port}`);
  }
  await new Promise((resolve) => void gone.close(resolve));
  t.after(() => server.close());
  const found = await kafkaPlacement(addresses, { topics: ["input", "output"], transactionalIds: ["p/0"] });
  assert.equal(found.leaders.get("input/0"), 2);
  assert.deepEqual([...found.coordinators], [["p/0", 2]]);
  await assert.rejects(kafkaPlacement(addresses.slice(0, 1), { topics: [], transactionalIds: [] }), /no broker of .* answers/);
});
