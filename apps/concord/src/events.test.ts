// Events of buckets through real dedup-workers: in the one program, and from a gateway of its own to a worker of its own, whose answer is lost.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectSocket, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { DeleteObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect, type ConcordClient, type StoredMessage } from "@concord/client";
import { startConcord } from "./index.ts";
import { eventsOf, EventPrograms, KEY, metric, putRules } from "./test/event-programs.ts";

const TOKEN = "only-workers-know";
const WAIT_MS_MAX = 120_000;
const root = await mkdtemp(join(tmpdir(), "concord-events-"));
const programs = new EventPrograms();
after(async () => {
  programs.end();
  await rm(root, { recursive: true, force: true });
});

/** Everything that came out, of all partitions. */
async function outputOf({ messages }: ConcordClient): Promise<readonly StoredMessage[]> {
  const { partitions } = await messages.bounds(0);
  const found: StoredMessage[] = [];
  for (let partition = 0; partition < partitions; partition += 1) {
    const { start, end } = await messages.bounds(partition);
    for (let from = start; from < end;) {
      const page = await messages.read(partition, { from });
      found.push(...page.messages);
      from = page.next;
    }
  }
  return found;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + WAIT_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error("it never came");
    await setTimeout(5);
  }
}

const textOf = ({ value }: StoredMessage): string => new TextDecoder().decode(value);
const eventsIn = (messages: readonly StoredMessage[]): readonly string[] => eventsOf(messages.map(textOf));

test("[OGD19] one program: events of its buckets come out of its own messages, without a setting; once, also over a restart", async () => {
  const dataFolder = join(root, "one");
  const expected = ["ObjectCreated:Put k", "ObjectRemoved:Delete k"];
  {
    await using concord = await startConcord({ dataFolder });
    const { endpoint, region, credentials } = concord.s3;
    const s3 = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
    await putRules(s3, "photos", "messages");
    await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "k", Body: "x" }));
    await s3.send(new DeleteObjectCommand({ Bucket: "photos", Key: "k" }));
    s3.destroy();
    const db = await connect({ dedupWorker: concord.address });
    await until(async () => eventsIn(await outputOf(db)).length === 2);
    const output = await outputOf(db);
    assert.deepEqual(eventsIn(output), expected);
    assert.equal(output.filter((message) => textOf(message).includes("s3:TestEvent")).length, 1);
    assert.deepEqual(
      output.filter((message) => textOf(message).includes("Records")).map(({ key }) => new TextDecoder().decode(key)),
      ["photos/k", "photos/k"],
    );
    db.close();
  }
  await using concord = await startConcord({ dataFolder });
  const db = await connect({ dedupWorker: concord.address });
  await until(async () => (await metric(concord.adminAddress, "objects_events_waiting")) === 0);
  assert.deepEqual(eventsIn(await outputOf(db)), expected);
  db.close();
});

/** Between a gateway and a worker: what the worker answers can be withheld. */
class Line {
  readonly #server = createServer((socket) => this.#join(socket));
  readonly #sockets = new Set<Socket>();
  #to = "";
  isMute = false;

  async open(to: string): Promise<string> {
    this.#to = to;
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Breaks every connection; new ones are as usual. */
  cut(): void {
    this.isMute = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #join(near: Socket): void {
    const [host, port] = this.#to.split(":");
    const far = connectSocket(Number(port), host!);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes) => void (this.isMute || near.write(bytes)));
  }
}

test("[OGD19] [OGD22] a gateway and a worker of their own, with a token: the worker's first answer is lost: sent again, a duplicate, out once", async () => {
  const worker = await programs.start("dedup-worker", { CONCORD_DATA_FOLDER: join(root, "worker"), CONCORD_CLIENT_TOKEN: TOKEN });
  const line = new Line();
  const eventTargets = [{ name: "worker", tenant: "main", workers: [await line.open(worker.address)] }];
  const config = {
    CONCORD_DATA_FOLDER: join(root, "gateway"),
    CONCORD_HTTP_ADDRESS: "127.0.0.1:0",
    CONCORD_ACCESS_KEYS: JSON.stringify([KEY]),
    CONCORD_EVENT_TARGETS: JSON.stringify(eventTargets),
  };
  const db = await connect({ dedupWorker: worker.address, token: TOKEN });
  try {
    // Without the token the target is not usable, and says so before anything is changed.
    const tokenless = await programs.start("object-gateway", config);
    const options = { region: "us-east-1", credentials: KEY, forcePathStyle: true, maxAttempts: 1 };
    const refused = new S3Client({ endpoint: `http://${tokenless.httpAddress}`, ...options });
    await assert.rejects(putRules(refused, "photos", "worker"), { name: "ServiceUnavailable" });
    refused.destroy();
    tokenless.child.kill("SIGTERM");
    assert.deepEqual(await once(tokenless.child, "exit"), [0, null]);

    const gateway = await programs.start("object-gateway", { ...config, CONCORD_DEDUP_WORKER_TOKEN: TOKEN });
    const s3 = new S3Client({ endpoint: `http://${gateway.httpAddress}`, ...options });
    await putRules(s3, "photos", "worker");
    line.isMute = true;
    await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "k", Body: "x" }));
    await until(async () => eventsIn(await outputOf(db)).length === 1);
    line.cut();
    await until(async () => (await metric(gateway.admin, 'objects_events_delivered_total{answer="duplicate"}')) === 1);
    assert.deepEqual(eventsIn(await outputOf(db)), ["ObjectCreated:Put k"]);

    // A worker that is gone keeps no gateway from stopping in good order; its events are delivered by the next start.
    line.isMute = true;
    await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "second", Body: "x" }));
    s3.destroy();
    const stoppedAt = performance.now();
    gateway.child.kill("SIGTERM");
    assert.deepEqual(await once(gateway.child, "exit"), [0, null]);
    assert.ok(performance.now() - stoppedAt < 8_000, "the gateway waited for the answer of a worker");
    line.cut();
    await programs.start("object-gateway", { ...config, CONCORD_DEDUP_WORKER_TOKEN: TOKEN });
    await until(async () => eventsIn(await outputOf(db)).length === 2);
    assert.deepEqual(eventsIn(await outputOf(db)), ["ObjectCreated:Put k", "ObjectCreated:Put second"]);
  } finally {
    db.close();
    line.close();
  }
});
