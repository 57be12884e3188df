// A machine whose clock stood 8 h ahead, was set right, then stood 8 h behind, and whose process was started or killed each time: what is acknowledged has its
// effect, keeps it over each restart, and no id comes twice.
import { CreateBucketCommand, GetObjectCommand, type GetObjectCommandOutput, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { nodeClock } from "@concord/adapter-node-runtime";
import type { ConcordClient } from "@concord/client";
import { s3Client } from "@concord/constellation";
import { IdService } from "@concord/protos-ids";
import { bearer, callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import { ClockSteps } from "../clock-steps.ts";
import type { Attack, Target } from "./attack.ts";

const STEP_MS = 8 * 3_600_000;
const IDS_OF_A_LIFE = 1_000;
const CALL_MS = 30_000;
const KINDS = ["insert", "update", "delete", "cql-update", "cql-delete"] as const;
const ROWS_PER_KIND = 4;
const BUCKET = "clock-ahead";
const TABLES = [
  "CREATE TABLE Steps (kind text, id int, body text, PRIMARY KEY (kind, id)) WITH kind = 'plain'",
  "CREATE TABLE Turns (id bigint PRIMARY KEY, body text)",
];

type Kind = (typeof KINDS)[number];

/** Writes every row, whatever its kind of change will be. The transaction comes first: its id is refused, and the client has the server's time then. */
async function write(db: ConcordClient, s3: S3Client, body: string): Promise<void> {
  await turn(db, body);
  for (const kind of KINDS) for (let id = 0; id < ROWS_PER_KIND; id += 1) await db.insert("Steps", { kind, id, body });
  await put(s3, body);
}

/** The first request after each step is refused as too skewed; the SDK has learnt the difference then. */
async function put(s3: S3Client, body: string): Promise<void> {
  const command = (): PutObjectCommand => new PutObjectCommand({ Bucket: BUCKET, Key: "object", Body: body });
  await s3.send(command()).catch((error: Error) => {
    if (error.name !== "RequestTimeTooSkewed") throw error;
    return s3.send(command());
  });
}

const turn = (db: ConcordClient, body: string): Promise<void> =>
  db.runTransaction({ table: "Turns", key: { id: 1n } }, async (txn) => txn.update("Turns", { id: 1n, body }));

async function change(db: ConcordClient, kind: Kind, id: number, body: string): Promise<boolean> {
  switch (kind) {
    case "insert":
      return (await db.insert("Steps", { kind, id, body })).superseded;
    case "update":
      return (await db.update("Steps", { kind, id, body })).superseded;
    case "delete":
      return (await db.delete("Steps", { kind, id })).superseded;
    case "cql-update":
      return (await db.query("UPDATE Steps SET body = ? WHERE kind = ? AND id = ?", [body, kind, id])).superseded === true;
    case "cql-delete":
      return (await db.query("DELETE FROM Steps WHERE kind = ? AND id = ?", [kind, id])).superseded === true;
  }
}

/** Writes that were acknowledged so far. */
class Acknowledged {
  readonly #target: Target;
  readonly #db: ConcordClient;
  readonly #s3: S3Client;
  readonly #ids = new Set<bigint>();
  readonly #messages = new Set<string>();
  #newest = "";
  #readings = 0;
  #without = 0;

  constructor(target: Target, db: ConcordClient, s3: S3Client) {
    this.#target = target;
    this.#db = db;
    this.#s3 = s3;
  }

  /** Writes each row and changes it once; then everything is as acknowledged, and no id was there before. */
  async changeAll(body: string): Promise<void> {
    const [target, db] = [this.#target, this.#db];
    await write(db, this.#s3, `${body}, before the change`);
    let superseded = 0;
    for (const kind of KINDS) for (let id = 0; id < ROWS_PER_KIND; id += 1) if (await change(db, kind, id, body)) superseded += 1;
    if (superseded > 0) target.fail(`${body}: ${superseded} changes were acknowledged as superseded`);
    await turn(db, body);
    await put(this.#s3, body);
    this.#newest = body;
    await this.#newMessage(body);
    await this.judge("at once");
    await this.#newIds(body);
  }

  /** Everything is as the newest changes left it. */
  async judge(when: string): Promise<void> {
    const [target, db, body] = [this.#target, this.#db, this.#newest];
    let without = 0;
    for (const kind of KINDS) {
      for (let id = 0; id < ROWS_PER_KIND; id += 1) {
        const row = await db.read<{ readonly body: string }>("Steps", { kind, id });
        if (row?.body === (kind.endsWith("delete") ? undefined : body)) continue;
        without += 1;
        target.fail(`${body}, read ${when}: ${kind} of row ${id} was acknowledged, and ${row?.body ?? "no row"} is read`);
      }
    }
    const turned = await db.read<{ readonly body: string }>("Turns", { id: 1n });
    if (turned?.body !== body)
      target.fail(`${body}, read ${when}: a transaction was acknowledged, and ${turned?.body ?? "no row"} is read`);
    const object = await this.#object();
    if (object !== body) target.fail(`${body}, read ${when}: an object was acknowledged, and ${object} is read`);
    const known = await db.messages.seen([...this.#messages]);
    if (known.includes(false)) target.fail(`${body}, read ${when}: an acknowledged message is lost`);
    this.#readings += 1;
    this.#without += without;
  }

  /** The first request after a step may be refused, as for `put`. */
  async #object(): Promise<string> {
    const read = (): Promise<GetObjectCommandOutput> => this.#s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: "object" }));
    const { Body } = await read().catch(read);
    return Body!.transformToString();
  }

  async #newMessage(body: string): Promise<void> {
    const [result] = await this.#db.messages.ingest([{ value: new TextEncoder().encode(body) }]);
    if (result?.verdict !== "accepted") this.#target.fail(`${body}: a new message was ${result?.verdict}`);
    else this.#messages.add(result.id);
  }

  async #newIds(body: string): Promise<void> {
    const channel = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics }).connect(this.#target.address);
    try {
      const options = { timeoutMs: CALL_MS, metadata: bearer(this.#target.clientToken) };
      const { ranges } = await callUnary(channel, IdService.methods.Generate, { count: IDS_OF_A_LIFE }, options);
      const ids = ranges.flatMap(({ first, count }) => Array.from({ length: count }, (_, at) => first + BigInt(at)));
      const twice = ids.filter((id) => this.#ids.has(id));
      if (ids.length !== IDS_OF_A_LIFE || twice.length > 0) this.#target.fail(`${body}: ${ids.length} ids, ${twice.length} of them twice`);
      for (const id of ids) this.#ids.add(id);
    } finally {
      channel.close();
    }
  }

  get summary(): string {
    const changes = this.#readings * KINDS.length * ROWS_PER_KIND;
    return `${this.#without} of ${changes} changes of plain rows without effect when read; ${this.#ids.size} different ids`;
  }
}

/** Lives of the process: how far its clock is off, and whether the life before ended by SIGKILL. */
const LIVES = [
  { offMs: -STEP_MS, isKilled: true, when: "8 h behind" },
  { offMs: -STEP_MS, isKilled: true, when: "behind, killed" },
  { offMs: 0, isKilled: true, when: "right again" },
  { offMs: STEP_MS, isKilled: false, when: "8 h ahead" },
  { offMs: 0, isKilled: false, when: "set right" },
  { offMs: 0, isKilled: true, when: "right, killed" },
  { offMs: -STEP_MS, isKilled: true, when: "behind after it was ahead" },
  { offMs: 0, isKilled: true, when: "right at the end" },
] as const;

async function attack(target: Target, db: ConcordClient, s3: S3Client): Promise<void> {
  const steps = new ClockSteps(target.folder);
  const acknowledged = new Acknowledged(target, db, s3);
  await db.createTables(TABLES);
  await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  await acknowledged.changeAll("right");
  for (const { offMs, isKilled, when } of LIVES) {
    await (isKilled ? target.kill() : target.stop());
    await target.start(offMs === 0 ? undefined : { ...steps.environment(offMs) });
    await acknowledged.judge(when);
    await acknowledged.changeAll(when);
    await target.serves(when);
  }
  target.note(acknowledged.summary);
}

export const clockAhead: Attack = {
  name: "clock-ahead",
  symptom: "20 of 20 writes, updates and deletions of plain rows acknowledged and without effect for 8 h",
  isShort: true,
  async run(target) {
    const { httpAddress, constellation, client, clientToken } = target;
    const { coordinators, dedupWorkers, tokens } = constellation;
    const db = await client.connect({ coordinators, dedupWorker: dedupWorkers, token: clientToken });
    const s3 = s3Client(`http://${httpAddress}`, tokens.accessKeys[0]!);
    try {
      await attack(target, db, s3);
    } finally {
      db.close();
      s3.destroy();
    }
  },
};
