// Two constellations started at once were seen to take each other's ports: they were chosen with listen(0), released, and bound again by
// nodes seconds later. Of 400 such choices of 18 ports, 43 met one that another process made meanwhile.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { RESERVED_PORTS_MAX, reservePorts, takenOf } from "./ports.ts";

const EPHEMERAL_FIRST_PORT = 32_768;

test("ports: several reservations here and in another process: no port twice, none that the system gives away", async () => {
  const child = fork(new URL("./test/reserve-ports.ts", import.meta.url), ["27", "5"]);
  const [theirs] = (await once(child, "message")) as [number[]];
  const ours = await Promise.all(Array.from({ length: 5 }, () => reservePorts(27)));
  const all = [...theirs, ...ours.flatMap(({ ports }) => ports)];
  assert.equal(new Set(all).size, 10 * 27);
  assert.ok(Math.max(...all) < EPHEMERAL_FIRST_PORT);
  child.kill();
  for (const reserved of ours) await reserved.release();
});

test("ports: reserved: they can be listened on; taken by another program: another block is chosen", async () => {
  const first = await reservePorts(RESERVED_PORTS_MAX);
  const port = first.ports[5]!;
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  assert.deepEqual(await takenOf([`127.0.0.1:${port}`, `127.0.0.1:${first.ports[6]}`]), [`127.0.0.1:${port}`]);
  await first.release();
  const others = await Promise.all(Array.from({ length: 8 }, () => reservePorts(RESERVED_PORTS_MAX)));
  assert.ok(others.every(({ ports }) => !ports.includes(port)));
  for (const reserved of others) await reserved.release();
  server.close();
});

test("ports: more than a block has: refused", async () => {
  await assert.rejects(reservePorts(RESERVED_PORTS_MAX + 1), RangeError);
});
