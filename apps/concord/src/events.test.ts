// Events of buckets through real dedup-workers: in the one program, and from a gateway of its own to a worker of its own, whose answer is lost.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectSocket, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  PutBucketNotificationConfigurationCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { connect, type ConcordClient, type StoredMessage } from "@concord/client";
import { startConcord } from "./index.ts";

const PROGRAMS = { "dedup-worker": "@concord/dedup-worker/main", "object-gateway": "@concord/object-gateway/main" } as const;
const TOKEN = "only-workers-know";
const KEY = { accessKeyId: "CONCORD", secretAccessKey: "only-for-tests", tenant: "main" };
const TRIES_MAX = 20_000;
const root = await mkdtemp(join(tmpdir(), "concord-events-"));
const children: ChildProcess[] = [];
after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(root, { recursive: true, force: true });
});

interface Program {
  readonly child: ChildProcess;
  readonly address: string;
  readonly httpAddress: string;
  readonly admin: string;
}

async function startProgram(name: keyof typeof PROGRAMS, config: Readonly<Record<string, string>>): Promise<Program> {
  const main = fileURLToPath(import.meta.resolve(PROGRAMS[name]));
  const any = { CONCORD_LISTEN_ADDRESS: "127.0.0.1:0", CONCORD_ADMIN_ADDRESS: "127.0.0.1:0" };
  const child = spawn(process.execPath, [main], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...any, ...config } });
  children.push(child);
  const lines: string[] = [];
  child.stderr.on("data", (bytes: Buffer) => lines.push(bytes.toString()));
  let admin = "";
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    const entry = JSON.parse(line) as { message: string; address: string; httpAddress?: string };
    if (entry.message === "admin") admin = entry.address;
    if (entry.message !== "serving") continue;
    child.stdout.resume();
    return { child, address: entry.address, httpAddress: entry.httpAddress ?? "", admin };
  }
  throw new Error(`${name} ended before it served:\n${lines.join("\n")}`);
}

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
  for (let tries = 0; tries < TRIES_MAX; tries += 1) if (await holds()) return;
  throw new Error("it never came");
}

const textOf = ({ value }: StoredMessage): string => new TextDecoder().decode(value);

/** "ObjectCreated:Put k", of what is no test event. */
function eventsOf(messages: readonly StoredMessage[]): readonly string[] {
  const parsed = messages.map(
    (message) => JSON.parse(textOf(message)) as { Records?: readonly { eventName: string; s3: { object: { key: string } } }[] },
  );
  return parsed.flatMap(({ Records = [] }) => Records.map(({ eventName, s3 }) => `${eventName} ${s3.object.key}`)).sort();
}

async function metric(admin: string, name: string): Promise<number> {
  const text = await (await fetch(`http://${admin}/metrics`)).text();
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}

async function putRules(s3: S3Client, Bucket: string, target: string): Promise<void> {
  await s3.send(new CreateBucketCommand({ Bucket }));
  const QueueArn = `arn:aws:sqs:us-east-1:main:${target}`;
  const NotificationConfiguration = {
    QueueConfigurations: [{ QueueArn, Events: ["s3:ObjectCreated:*" as const, "s3:ObjectRemoved:*" as const] }],
  };
  await s3.send(new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration }));
}

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
    await until(async () => eventsOf(await outputOf(db)).length === 2);
    const output = await outputOf(db);
    assert.deepEqual(eventsOf(output), expected);
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
  assert.deepEqual(eventsOf(await outputOf(db)), expected);
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
  const worker = await startProgram("dedup-worker", { CONCORD_DATA_FOLDER: join(root, "worker"), CONCORD_CLIENT_TOKEN: TOKEN });
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
    const tokenless = await startProgram("object-gateway", config);
    const options = { region: "us-east-1", credentials: KEY, forcePathStyle: true, maxAttempts: 1 };
    const refused = new S3Client({ endpoint: `http://${tokenless.httpAddress}`, ...options });
    await assert.rejects(putRules(refused, "photos", "worker"), { name: "ServiceUnavailable" });
    refused.destroy();
    tokenless.child.kill("SIGTERM");
    assert.deepEqual(await once(tokenless.child, "exit"), [0, null]);

    const gateway = await startProgram("object-gateway", { ...config, CONCORD_DEDUP_WORKER_TOKEN: TOKEN });
    const s3 = new S3Client({ endpoint: `http://${gateway.httpAddress}`, ...options });
    await putRules(s3, "photos", "worker");
    line.isMute = true;
    await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "k", Body: "x" }));
    await until(async () => eventsOf(await outputOf(db)).length === 1);
    line.cut();
    await until(async () => (await metric(gateway.admin, 'objects_events_delivered_total{answer="duplicate"}')) === 1);
    assert.deepEqual(eventsOf(await outputOf(db)), ["ObjectCreated:Put k"]);

    // A worker that is gone keeps no gateway from stopping in good order; its events are delivered by the next start.
    line.isMute = true;
    await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "second", Body: "x" }));
    s3.destroy();
    const stoppedAt = performance.now();
    gateway.child.kill("SIGTERM");
    assert.deepEqual(await once(gateway.child, "exit"), [0, null]);
    assert.ok(performance.now() - stoppedAt < 8_000, "the gateway waited for the answer of a worker");
    line.cut();
    await startProgram("object-gateway", { ...config, CONCORD_DEDUP_WORKER_TOKEN: TOKEN });
    await until(async () => eventsOf(await outputOf(db)).length === 2);
    assert.deepEqual(eventsOf(await outputOf(db)), ["ObjectCreated:Put k", "ObjectCreated:Put second"]);
  } finally {
    db.close();
    line.close();
  }
});
