// READ_LOCK_NEXT over the contract: workers of a queue that pass over each other's jobs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CoordinatorFixture, fails, photoKey, settle, write, type Answer, type Client } from "./test/coordinator-fixture.ts";

const JOBS = 6;
const BY_RANGE = "SELECT * FROM photos WHERE album = ?";
const BY_INDEX = "SELECT photo FROM photos WHERE album = ? AND status = 'ready'";

async function withJobs(fixture: CoordinatorFixture, client: Client, queue: number): Promise<void> {
  const writes = Array.from({ length: JOBS }, (_, job) => write("INSERT", photoKey(queue, job), { status: { textValue: "ready" } }));
  await client.unary("Execute", { transactionId: fixture.id(), writes });
  await settle();
}

/** A transaction that has locked nothing of the queue's jobs. */
class Worker {
  readonly #client: Client;
  readonly #queue: number;
  readonly id: Uint8Array;
  number = 0;

  constructor(client: Client, queue: number) {
    this.#client = client;
    this.#queue = queue;
    this.id = client.fixture.id();
  }

  static async of(client: Client, queue = 1): Promise<Worker> {
    const worker = new Worker(client, queue);
    const key = { table: "albums", partition: [{ bigintValue: BigInt(queue) }] };
    await worker.call("Start", { key, mode: "LOCK_MODE_SHARED", skipRead: true });
    return worker;
  }

  call(method: string, request: object = {}): Promise<Answer> {
    this.number += 1;
    return this.again(method, request);
  }

  /** The call before once more, under its number. */
  again(method: string, request: object): Promise<Answer> {
    return this.#client.call(method, { operation: { transactionId: this.id, number: this.number }, ...request });
  }

  query(text = BY_RANGE, limit = 1): object {
    return { statement: { text, binds: [{ bigintValue: BigInt(this.#queue) }] }, limit, lock: "READ_LOCK_NEXT" };
  }

  async next(text?: string, limit?: number): Promise<number[]> {
    return jobsOf(await this.call("Query", this.query(text, limit)));
  }

  done(job: number): Promise<Answer> {
    return this.call("Commit", { writes: [write("DELETE", photoKey(this.#queue, job))] });
  }
}

const jobsOf = (answer: Answer): number[] =>
  (answer["rows"] as unknown as { key: { clustering: { bigintValue: bigint }[] } }[]).map(({ key }) =>
    Number(key.clustering[0]!.bigintValue),
  );

async function oneCoordinator(): Promise<{ fixture: CoordinatorFixture; client: Client }> {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  await withJobs(fixture, client, 1);
  return { fixture, client };
}

test("skip locked: SELECT ... FOR UPDATE SKIP LOCKED is the same query, its LIMIT says how many; by full key or with a page it is refused", async () => {
  const { fixture, client } = await oneCoordinator();
  const [ann, bob] = [await Worker.of(client), await Worker.of(client)];
  const take = async (worker: Worker, text: string): Promise<number[]> => {
    const query = { ...worker.query(text, 100), lock: "READ_LOCK_UNSPECIFIED" };
    return jobsOf(await worker.call("Query", query));
  };
  const startedMs = fixture.clock.nowMs();
  assert.deepEqual(await take(ann, `${BY_RANGE} LIMIT 2 FOR UPDATE SKIP LOCKED`), [0, 1]);
  assert.deepEqual(await take(bob, `${BY_INDEX} LIMIT 1 FOR UPDATE SKIP LOCKED`), [2]);
  assert.deepEqual(await bob.next(BY_RANGE, 2), [2, 3]);
  assert.deepEqual(await take(ann, `${BY_RANGE} FOR UPDATE SKIP LOCKED`), [0, 1, 4, 5], "without LIMIT what is free");
  assert.equal(fixture.clock.nowMs(), startedMs, "nothing was waited for");
  await fails("MALFORMED_REQUEST", take(bob, "SELECT * FROM photos WHERE album = ? AND photo = 1 FOR UPDATE SKIP LOCKED"));
  const paged = { ...bob.query(`${BY_RANGE} FOR UPDATE SKIP LOCKED`), lock: "READ_LOCK_UNSPECIFIED", pageToken: Uint8Array.of(1) };
  await fails("MALFORMED_REQUEST", bob.call("Query", paged));
  await ann.call("Rollback");
  assert.deepEqual(await take(bob, `${BY_RANGE} LIMIT 2 FOR UPDATE SKIP LOCKED`), [0, 1]);
  await fixture.stop();
});

for (const text of [BY_RANGE, BY_INDEX]) {
  test(`lock next: ${text}: locked rows are passed over, limits hold, an answer without rows when none is free, at once`, async () => {
    const { fixture, client } = await oneCoordinator();
    const [ann, bob, cid] = [await Worker.of(client), await Worker.of(client), await Worker.of(client)];
    const startedMs = fixture.clock.nowMs();
    assert.deepEqual(await ann.next(text), [0]);
    assert.deepEqual(await bob.next(text, 2), [1, 2]);
    assert.deepEqual(await cid.next(`${text} LIMIT 2`, 100), [3, 4], "the statement's own limit");
    assert.deepEqual(await bob.next(text, 0), [1, 2, 5], "its own rows are found again; 0 is the default of a page");
    assert.deepEqual(await cid.next(text, 1_000), [3, 4]);
    const late = await Worker.of(client);
    const answer = await late.call("Query", late.query(text));
    assert.deepEqual([jobsOf(answer), (answer["nextPageToken"] as unknown as Uint8Array).length], [[], 0]);
    assert.equal(fixture.clock.nowMs(), startedMs, "nothing was waited for");
    await ann.done(0);
    await bob.call("Rollback");
    assert.deepEqual(await late.next(text, 1_000), [1, 2, 5], "what was committed is gone, what was rolled back is free");
    await fixture.stop();
  });
}

test("lock next: columns that the SELECT names are answered; a job without the index's column is not found by it", async () => {
  const { fixture, client } = await oneCoordinator();
  await client.unary("Execute", {
    transactionId: fixture.id(),
    writes: [write("INSERT", photoKey(1, 0), { status: { textValue: "paused" } })],
  });
  const worker = await Worker.of(client);
  const { rows } = await worker.call("Query", worker.query("SELECT status FROM photos WHERE album = ? AND status = 'ready'"));
  const [row] = rows as unknown as { key: { clustering: { bigintValue: bigint }[] }; columns: { name: string }[] }[];
  assert.equal(row!.key.clustering[0]!.bigintValue, 1n);
  assert.deepEqual(
    row!.columns.map(({ name }) => name),
    ["status"],
  );
  await fixture.stop();
});

test("[TXD7] lock next: the first reply dropped: repeated under its number: the same jobs, no further one is locked", async () => {
  const { fixture, client } = await oneCoordinator();
  const [ann, bob] = [await Worker.of(client), await Worker.of(client)];
  const dropped = await ann.call("Query", ann.query(BY_RANGE, 2));
  const repeated = await ann.again("Query", ann.query(BY_RANGE, 2));
  assert.deepEqual(jobsOf(dropped), [0, 1]);
  assert.deepEqual(repeated, dropped);
  assert.deepEqual(await bob.next(), [2]);
  await ann.done(0);
  assert.deepEqual(await bob.next(BY_RANGE, 2), [1, 2]);
  await fixture.stop();
});

test("lock next: its turn comes after its deadline: DEADLINE_EXCEEDED ends the transaction, and no job stays locked", async () => {
  const { fixture, client } = await oneCoordinator();
  const [holder, worker] = [await Worker.of(client), await Worker.of(client)];
  await holder.call("Lock", { keys: [photoKey(1, 0)] });
  const waiting = worker.call("Lock", { keys: [photoKey(1, 0)] });
  worker.number += 1;
  const request = { ...worker.query(BY_RANGE, 100), operation: { transactionId: worker.id, number: worker.number } };
  const late = client.session.callByName("query", request, { timeoutMs: 500 });
  const missed = fails("DEADLINE_EXCEEDED", late);
  await settle();
  await fixture.clock.advance(600);
  await missed;
  await holder.call("Rollback");
  await waiting;
  await settle();
  await fails("DEADLINE_EXCEEDED", worker.call("Read", { keys: [photoKey(1, 0)] }));
  assert.deepEqual(await (await Worker.of(client)).next(BY_RANGE, 100), [0, 1, 2, 3, 4, 5]);
  await fixture.stop();
});

test("[TXD1] lock next: a standby takes over in between: done jobs are gone, locked ones are free, and their old worker commits nothing", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  const clients = [0, 1, 2].map((at) => fixture.connect(at));
  await clients[0]!.createTables();
  const queue = await queueOf(clients[0]!);
  await withJobs(fixture, clients[0]!, queue);
  const [done, lost] = [await Worker.of(clients[0]!, queue), await Worker.of(clients[0]!, queue)];
  assert.deepEqual([await done.next(), await lost.next()], [[0], [1]]);
  await done.done(0);
  // The master is paused: the others take over, it does not know.
  for (const at of [1, 2]) fixture.memberships[at]!.about(0, "gone");
  await settle();
  await fixture.clock.advance(50);
  const standby = (await isServed(clients[1]!, queue)) ? clients[1]! : clients[2]!;
  const worker = await Worker.of(standby, queue);
  assert.deepEqual(await worker.next(BY_RANGE, 2), [1, 2]);
  await fails("OUTCOME_UNKNOWN", lost.done(1));
  await worker.call("Commit", { writes: [1, 2].map((job) => write("DELETE", photoKey(queue, job))) });
  const last = await Worker.of(standby, queue);
  assert.deepEqual(await last.next(BY_RANGE, 100), [3, 4, 5]);
  await last.call("Rollback");
  await fixture.stop();
});

/** A queue whose group the client's coordinator serves. */
async function queueOf(client: Client): Promise<number> {
  for (let queue = 1; queue <= 40; queue += 1) if (await isServed(client, queue)) return queue;
  assert.fail("no queue of this coordinator");
}

async function isServed(client: Client, queue: number): Promise<boolean> {
  try {
    await (await Worker.of(client, queue)).call("Rollback");
    return true;
  } catch (thrown) {
    assert.equal((thrown as { code?: string }).code, "NOT_MASTER");
    return false;
  }
}
