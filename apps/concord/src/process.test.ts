// The real program: one process with one data folder, every service on one port, S3 on another.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";
import { Health, type HealthCheckResponse } from "@concord/protos/grpc.health.v1";
import { OutputService } from "@concord/protos-dedup";
import { openStream } from "@concord/rpc";
import type { ConcordError } from "@concord/runtime";
import { ACCESS_KEY, network } from "./test/memory-node.ts";
import { ended, Processes } from "./test/process.ts";
import { visit } from "./test/visits.ts";

const folder = await mkdtemp(join(tmpdir(), "concord-one-process-"));
const processes = new Processes();
after(async () => {
  processes.end();
  await rm(folder, { recursive: true });
});

const TABLES = ["CREATE TABLE visits (page text PRIMARY KEY, visits int)"];

function s3At(httpAddress: string): S3Client {
  return new S3Client({ endpoint: `http://${httpAddress}`, region: "us-east-1", forcePathStyle: true, credentials: { ...ACCESS_KEY } });
}

test("[TX27] [OG18] [DD10] process: killed with SIGKILL after what it acknowledged: all there after the restart; SIGTERM: ends with 0", async () => {
  const args = ["--data-folder", join(folder, "kept")];
  const object = { Bucket: "photos", Key: "cat.txt" };
  const first = await processes.start(args);
  {
    const db = await connect({ coordinators: [first.address], dedupWorker: first.address });
    const s3 = s3At(first.httpAddress);
    await db.createTables(TABLES);
    assert.equal(await visit(db), 1);
    await s3.send(new CreateBucketCommand({ Bucket: "photos" }));
    await s3.send(new PutObjectCommand({ ...object, Body: "meow" }));
    const sent = [await db.messages.ingest([{ id: "m1", value: "hello" }]), await db.messages.ingest([{ id: "m1", value: "hello" }])];
    assert.deepEqual(
      sent.flat().map(({ verdict }) => verdict),
      ["accepted", "duplicate"],
    );
    await ended(first.child, "SIGKILL");
    db.close();
    s3.destroy();
  }
  const second = await processes.start(args);
  const db = await connect({ coordinators: [second.address], dedupWorker: second.address });
  const s3 = s3At(second.httpAddress);
  assert.equal(await visit(db), 2);
  const { Body } = await s3.send(new GetObjectCommand(object));
  assert.equal(await Body!.transformToString(), "meow");
  const [again] = await db.messages.ingest([{ id: "m1", value: "hello" }]);
  assert.equal(again!.verdict, "duplicate");
  assert.equal(await ended(second.child, "SIGTERM"), 0);
  db.close();
  s3.destroy();
});

test("[SEC9] process: files and folders of every service are its user's alone, whatever its umask", async () => {
  const entries = await readdir(join(folder, "kept"), { recursive: true });
  const services = new Set(entries.map((entry) => entry.split("/")[0]!));
  for (const service of ["storage", "objects", "messages"]) assert.ok(services.has(service), service);
  for (const entry of ["", ...entries]) {
    const found = await stat(join(folder, "kept", entry));
    assert.equal((found.mode & 0o777).toString(8), found.isDirectory() ? "700" : "600", entry);
  }
});

test("process: the objects' rows in transactions: the same bucket after a restart", async () => {
  const args = ["--data-folder", join(folder, "in-transactions"), "--metadata", "transactions"];
  const object = { Bucket: "photos", Key: "dog.txt" };
  const first = await processes.start(args);
  const s3 = s3At(first.httpAddress);
  await s3.send(new CreateBucketCommand({ Bucket: "photos" }));
  await s3.send(new PutObjectCommand({ ...object, Body: "woof" }));
  s3.destroy();
  assert.equal(await ended(first.child, "SIGTERM"), 0);
  const second = await processes.start(args);
  const again = s3At(second.httpAddress);
  const { Body } = await again.send(new GetObjectCommand(object));
  assert.equal(await Body!.transformToString(), "woof");
  again.destroy();
  assert.equal(await ended(second.child, "SIGTERM"), 0);
});

test("[OPS1] process: SIGTERM while streams are open: health reports NOT_SERVING, an idle stream ends with DRAINING, exit 0", async () => {
  const { child, address } = await processes.start(["--data-folder", join(folder, "drained")]);
  const channel = network().connect(address);
  const statuses: string[] = [];
  const watch = channel.stream(Health.methods.Watch, {});
  const consumer = openStream(channel, OutputService.methods.Consume, {});
  const served = new Promise<void>((resolve) => {
    watch.onMessage((message) => {
      statuses.push((message as HealthCheckResponse).status);
      resolve();
    });
  });
  const ends = [watch, consumer].map((stream) => new Promise<unknown>((resolve) => stream.onEnd(resolve)));
  consumer.onMessage(() => undefined);
  watch.send({ service: OutputService.name });
  watch.end();
  consumer.send({ event: "start", start: { partition: 0, fromOffset: 0n, credits: 1 } });
  await served;
  assert.equal(await ended(child, "SIGTERM"), 0);
  const [, drained] = await Promise.all(ends);
  assert.deepEqual(statuses, ["SERVING", "NOT_SERVING"]);
  assert.equal((drained as ConcordError).code, "DRAINING");
  channel.close();
});

test("[OPS7] process: a data folder that another process has: refused before any port is taken, the other one serves on", async () => {
  const args = ["--data-folder", join(folder, "taken")];
  const { child, address } = await processes.start(args);
  const { code, output } = await processes.run(args);
  assert.equal(code, 1);
  assert.match(output, /taken\/storage[^]*(LOCK|in use|another process)/);
  assert.doesNotMatch(output, /"message":"listening"/);
  const db = await connect({ coordinators: [address] });
  await db.createTables(TABLES);
  db.close();
  assert.equal(await ended(child, "SIGTERM"), 0);
});

test("process: a port that is taken, of gRPC, S3 or admin: exit 1, the address is named", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.address() as { port: number };
  for (const [at, flag] of ["--listen-address", "--http-address", "--admin-address"].entries()) {
    const { code, output } = await processes.run(["--data-folder", join(folder, `port-${at}`), flag, `127.0.0.1:${port}`]);
    assert.equal(code, 1, flag);
    assert.match(
      output,
      new RegExp(`127\\.0\\.0\\.1:${port}[^\\n]*(in use|EADDRINUSE)|(in use|EADDRINUSE)[^\\n]*127\\.0\\.0\\.1:${port}`),
      flag,
    );
  }
  server.close();
});

test("[OPS1] process: SIGTERM while it waits for the other nodes: ends with 0", async () => {
  const nodes = ["node-1", "node-2", "node-3"].map((name, at) => ({ name, address: `127.0.0.1:${at + 1}`, datacenter: "local" }));
  const tokens = ["--peer-token", "p", "--coordinator-token", "c"];
  const args = ["--nodes", JSON.stringify(nodes), "--node-name", "node-1", ...tokens, "--data-folder", join(folder, "waiting")];
  const { child } = await processes.start(args, "waiting for peers to form the ring");
  assert.equal(await ended(child, "SIGTERM"), 0);
});

test("[OPS5] process: a configuration with mistakes of several parts: all of them at once, exit 2", async () => {
  const { code, output } = await processes.run(["--read-timeout-ms", "0", "--shards", "0", "--nonsense", "1"]);
  assert.equal(code, 2);
  for (const flag of ["--read-timeout-ms", "--shards", "--nonsense"]) assert.ok(output.includes(flag), flag);
});
