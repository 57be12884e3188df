// A machine whose clock stood 8 h ahead, was set right, and whose process was started again: what is acknowledged then must have its effect.
import { GetObjectCommand, PutObjectCommand, CreateBucketCommand, type S3Client } from "@aws-sdk/client-s3";
import type { ConcordClient } from "@concord/client";
import { s3Client } from "@concord/constellation";
import { ClockSteps } from "../clock-steps.ts";
import type { Attack, Target } from "./attack.ts";

const AHEAD_MS = 8 * 3_600_000;
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

/** Changes each row once: what was acknowledged is read, or the answer said that it is superseded, which no change here is. */
async function changeAll(target: Target, db: ConcordClient, s3: S3Client, body: string): Promise<void> {
  let without = 0;
  for (const kind of KINDS) {
    for (let id = 0; id < ROWS_PER_KIND; id += 1) {
      const isSuperseded = await change(db, kind, id, body);
      const row = await db.read<{ readonly body: string }>("Steps", { kind, id });
      const expected = kind.endsWith("delete") ? undefined : body;
      if (row?.body === expected && !isSuperseded) continue;
      without += 1;
      target.fail(
        `${body}: ${kind} of row ${id} was acknowledged${isSuperseded ? " as superseded" : ""}, and ${row?.body ?? "no row"} is read`,
      );
    }
  }
  await turn(db, body);
  const turned = await db.read<{ readonly body: string }>("Turns", { id: 1n });
  if (turned?.body !== body) target.fail(`${body}: a transaction was acknowledged, and ${turned?.body ?? "no row"} is read`);
  await put(s3, body);
  const { Body: object } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: "object" }));
  if ((await object!.transformToString()) !== body) target.fail(`${body}: an object was acknowledged, and another one is read`);
  const results = await db.messages.ingest([{ value: new TextEncoder().encode(body) }]);
  if (results.some(({ verdict }) => verdict !== "accepted")) target.fail(`${body}: a new message was not accepted`);
  target.note(`${body}: ${without} of ${KINDS.length * ROWS_PER_KIND} changes of plain rows without effect`);
}

async function attack(target: Target, db: ConcordClient, s3: S3Client): Promise<void> {
  const environment = { ...new ClockSteps(target.folder).environment(AHEAD_MS) };
  await db.createTables(TABLES);
  await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  await target.stop();
  await target.start(environment);
  await write(db, s3, "written 8 h ahead");
  await target.serves("while the clock stands 8 h ahead");
  await target.stop();
  await target.start();
  await changeAll(target, db, s3, "set right");
  await target.kill();
  await target.start();
  await write(db, s3, "written again");
  await changeAll(target, db, s3, "after a kill");
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
