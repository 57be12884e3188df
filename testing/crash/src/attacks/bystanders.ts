// Honest users of each service while another party attacks: what was acknowledged to them must be there afterwards.
import { randomInt, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import type { ConcordClient } from "@concord/client";
import { type Client, type Constellation, s3Client } from "@concord/constellation";

export const SERVED = ["storage-proxy", "txn-coordinator", "object-gateway", "dedup-worker"] as const;
export type Served = (typeof SERVED)[number];

const OPERATION_MS = 10_000;
const PAUSE_MS = 100;
/** Newest messages, one of which is sent again: of more than one partition, since one of them may be refused. */
const REPEATED_OF = 8;
export const BUCKET = "bystanders";
const ENTITY = { table: "Counted", key: { id: 1n } };
const TABLES = [
  "CREATE TABLE Counted (id bigint PRIMARY KEY, n int)",
  "CREATE TABLE Noted (reader text, at int, line text, PRIMARY KEY (reader, at)) WITH kind = 'plain'",
];

interface User {
  /** One operation: its effect is acknowledged when it resolves. */
  readonly once: () => Promise<void>;
  /** What is wrong with what was acknowledged; undefined: nothing. */
  readonly check: () => Promise<string | undefined>;
  acknowledged: number;
  lastError: string;
}

export class Bystanders {
  readonly #db: ConcordClient;
  readonly #s3: S3Client;
  readonly #users: Readonly<Record<Served, User>>;
  readonly #stopping = new AbortController();
  #isPaused = false;
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(db: ConcordClient, s3: S3Client) {
    this.#db = db;
    this.#s3 = s3;
    this.#users = {
      "storage-proxy": rowUser(db),
      "txn-coordinator": transactionUser(db),
      "object-gateway": objectUser(s3),
      "dedup-worker": messageUser(db),
    };
  }

  /** Connects, makes tables and bucket, and begins. */
  static async start(constellation: Constellation, client: Client, token: string): Promise<Bystanders> {
    const { coordinators, dedupWorkers, s3Endpoints, tokens } = constellation;
    const db = await client.connect({ coordinators, dedupWorker: dedupWorkers, token, timeoutMs: OPERATION_MS });
    await db.createTables(TABLES);
    const s3 = s3Client(s3Endpoints[0]!, tokens.accessKeys[0]!);
    await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const bystanders = new Bystanders(db, s3);
    bystanders.#ended = Promise.all(SERVED.map((service) => bystanders.#work(service)));
    return bystanders;
  }

  acknowledged(service: Served): number {
    return this.#users[service].acknowledged;
  }

  lastError(service: Served): string {
    return this.#users[service].lastError;
  }

  /** While processes are meant to be down. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Services that did not acknowledge an operation which began after this call, within `withinMs`. */
  async unserved(withinMs: number, out: readonly Served[] = []): Promise<readonly Served[]> {
    const signal = AbortSignal.timeout(withinMs);
    const isServed = async (service: Served): Promise<boolean> => {
      for (; !signal.aborted; await sleep(PAUSE_MS)) if (await this.#tryOnce(service)) return true;
      return false;
    };
    const judged = SERVED.filter((service) => !out.includes(service));
    const served = await Promise.all(judged.map(isServed));
    return judged.filter((_, at) => !served[at]);
  }

  /** Ends the work; then what is wrong with what was acknowledged. */
  async judge(): Promise<readonly string[]> {
    this.#stopping.abort();
    await this.#ended;
    const found: string[] = [];
    for (const service of SERVED) {
      const wrong = await this.#users[service].check().catch((error: unknown) => `cannot be read: ${String(error)}`);
      if (wrong !== undefined) found.push(`${service}: ${wrong}`);
    }
    return found;
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
    this.#db.close();
    this.#s3.destroy();
  }

  async #work(service: Served): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      if (!this.#isPaused) await this.#tryOnce(service);
      await sleep(PAUSE_MS);
    }
  }

  async #tryOnce(service: Served): Promise<boolean> {
    const user = this.#users[service];
    try {
      await user.once();
      user.acknowledged += 1;
      return true;
    } catch (error) {
      user.lastError = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      return false;
    }
  }
}

function rowUser(db: ConcordClient): User {
  const lines = new Map<number, string>();
  const deleted = new Set<number>();
  let next = 0;
  return {
    acknowledged: 0,
    lastError: "",
    async once() {
      const at = next++;
      const line = randomUUID();
      await db.query("INSERT INTO Noted (reader, at, line) VALUES (?, ?, ?)", ["bob", at, line]);
      lines.set(at, line);
      // Every third row is deleted again, if it was acknowledged: its insertion may still be on its way otherwise. An acknowledged deletion is a fact, too.
      // Without an answer the row may be there or not.
      if (at % 3 !== 2 || !lines.delete(at - 1)) return;
      await db.query("DELETE FROM Noted WHERE reader = ? AND at = ?", ["bob", at - 1]);
      deleted.add(at - 1);
    },
    async check() {
      const stored = new Map<number, unknown>();
      for await (const row of db.readRange("Noted", { partition: { reader: "bob" } })) stored.set(Number(row["at"]), row["line"]);
      const lost = [...lines].filter(([at, line]) => stored.get(at) !== line);
      const undead = [...stored.keys()].filter((at) => deleted.has(at));
      if (lost.length + undead.length === 0) return undefined;
      const names = [...lost.map(([at]) => at), ...undead].join(", ");
      return `${lost.length} of ${lines.size} acknowledged rows are lost or old, ${undead.length} deleted ones are there: ${names}`;
    },
  };
}

function transactionUser(db: ConcordClient): User {
  let committed = 0;
  let tried = 0;
  return {
    acknowledged: 0,
    lastError: "",
    async once() {
      await db.runTransaction(
        ENTITY,
        async (txn) => {
          const row = await txn.lock("Counted", ENTITY.key);
          tried += 1;
          txn.insert("Counted", { ...ENTITY.key, n: Number(row?.["n"] ?? 0) + 1 });
        },
        { deadlineMs: OPERATION_MS },
      );
      committed += 1;
    },
    async check() {
      const { rows } = await db.query("SELECT * FROM Counted WHERE id = ?", [ENTITY.key.id]);
      const counted = Number(rows[0]?.["n"] ?? 0);
      return counted >= committed && counted <= tried ? undefined : `${committed} to ${tried} commits, the row counts ${counted}`;
    },
  };
}

function objectUser(s3: S3Client): User {
  const bodies = new Map<string, string>();
  let next = 0;
  return {
    acknowledged: 0,
    lastError: "",
    async once() {
      const Key = `object-${next++}`;
      const Body = randomUUID().repeat(100);
      const signal = { abortSignal: AbortSignal.timeout(OPERATION_MS) };
      await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body }), signal);
      bodies.set(Key, Body);
      const read = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key }), signal);
      if ((await read.Body!.transformToString()) !== Body) throw new Error(`object ${Key} has other bytes than were acknowledged`);
    },
    async check() {
      let wrong = 0;
      for (const [Key, Body] of bodies) {
        const read = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key })).catch(() => undefined);
        if ((await read?.Body!.transformToString()) !== Body) wrong += 1;
      }
      return wrong === 0 ? undefined : `${wrong} of ${bodies.size} acknowledged objects are lost or different`;
    },
  };
}

function messageUser(db: ConcordClient): User {
  const sent: string[] = [];
  return {
    acknowledged: 0,
    lastError: "",
    async once() {
      const id = randomUUID();
      const newest = sent.slice(-REPEATED_OF);
      const repeated = newest.length === 0 ? undefined : newest[randomInt(newest.length)];
      const messages = [{ id, value: id }, ...(repeated === undefined ? [] : [{ id: repeated, value: repeated }])];
      await db.messages.ingest(messages, { timeoutMs: OPERATION_MS });
      sent.push(id);
    },
    async check() {
      const times = new Map<string, number>();
      const { partitions } = await db.messages.bounds(0);
      for (let partition = 0; partition < partitions; partition += 1) {
        const { end } = await db.messages.bounds(partition);
        for (let from = (await db.messages.bounds(partition)).start; from < end;) {
          const page = await db.messages.read(partition, { from });
          for (const { id } of page.messages) times.set(id, (times.get(id) ?? 0) + 1);
          from = page.next;
        }
      }
      const lost = sent.filter((id) => !times.has(id)).length;
      const doubled = [...times.values()].filter((count) => count > 1).length;
      return lost + doubled === 0 ? undefined : `${lost} of ${sent.length} acknowledged messages are lost, ${doubled} delivered twice`;
    },
  };
}
