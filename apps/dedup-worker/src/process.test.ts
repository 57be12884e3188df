// The real program: its own process, logs and windows on disk, gRPC on a free port of loopback.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { OutputService } from "@concord/protos-dedup";
import { openStream } from "@concord/rpc";
import type { ConcordError } from "@concord/runtime";
import { idsOf, ingest, outputOf, transport, statusesOf, WorkerProcesses } from "./test/worker-process.ts";

const { Consume } = OutputService.methods;
const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

test("[DD10] process: killed at points of its processing loop, everything sent again each time: each id once", async () => {
  const expected: string[] = [];
  for (const [at, failpoint] of ["ingest:appended:2", "dedup:looked-up:2", "dedup:published:2", "dedup:applied:2"].entries()) {
    const { child, address } = await workers.start({ failpoint });
    const exited = once(child, "exit");
    const batch = idsOf(200, `k${at}`);
    expected.push(...batch);
    let isCut = false;
    for (let from = 0; from < batch.length && !isCut; from += 20) {
      await ingest(address, batch.slice(from, from + 20)).catch((error: ConcordError) => {
        assert.notEqual(error.applied, "yes");
        isCut = true;
      });
    }
    const [, signal] = (await exited) as [number | null, string | null];
    assert.equal(signal, "SIGKILL", failpoint);
    const next = await workers.start();
    for (let from = 0; from < expected.length; from += 100) await ingest(next.address, expected.slice(from, from + 100));
    assert.deepEqual(await outputOf(next.address), expected, failpoint);
    assert.deepEqual(statusesOf(await ingest(next.address, expected.slice(0, 100))), new Set(["VERDICT_DUPLICATE"]));
    next.child.kill("SIGTERM");
    assert.deepEqual(await once(next.child, "exit"), [0, null]);
  }
});

test("[OPS1] process: a consumer over a real connection: the messages as they come; SIGTERM: DRAINING, exit 0", async () => {
  const { child, address } = await workers.start();
  const channel = transport.connect(address);
  const stream = openStream(channel, Consume, {});
  const seen: string[] = [];
  let more: () => void = () => undefined;
  stream.onMessage(({ messages }) => {
    seen.push(...messages.map(({ id }) => id));
    more();
  });
  stream.onDrain(() => undefined);
  const ended = new Promise<ConcordError>((resolve) => stream.onEnd((error) => resolve(error as ConcordError)));
  const before = await outputOf(address);
  stream.send({ event: "start", start: { partition: 0, fromOffset: 0n, credits: 10_000 } });
  const results = await ingest(address, idsOf(50, "consumed"));
  const expected = results.filter(({ partition }) => partition === 0).map(({ id }) => id);
  while (!expected.every((id) => seen.includes(id))) await new Promise<void>((resolve) => (more = resolve));
  assert.equal(new Set(seen).size, seen.length);
  assert.ok(seen.length < before.length + 50);
  child.kill("SIGTERM");
  assert.equal((await ended).code, "DRAINING");
  assert.deepEqual(await once(child, "exit"), [0, null]);
  channel.close();
});

test("[OPS7] process: a second one on the same data folder: refuses to start", async () => {
  const first = await workers.start();
  const second = workers.run();
  let output = "";
  second.stdout!.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [code] = (await once(second, "close")) as [number];
  assert.equal(code, 1);
  assert.match(output, /cannot open the store/);
  assert.equal((await ingest(first.address, ["still-served"]))[0]!.verdict, "VERDICT_ACCEPTED");
  first.child.kill("SIGTERM");
  await once(first.child, "exit");
});

test("[OPS5] process: a configuration with mistakes: all of them at once, exit 2", async () => {
  const child = workers.run({ args: ["--partitions", "0", "--id-source", "nowhere", "--nonsense", "1"] });
  let output = "";
  child.stderr!.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [code] = (await once(child, "close")) as [number];
  assert.equal(code, 2);
  for (const one of [/partitions/, /id-source/, /nonsense/]) assert.match(output, one);
});
