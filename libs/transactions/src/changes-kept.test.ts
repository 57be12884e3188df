// Every kind of change, whatever happens around its commit: rows by key, by range and by index agree, in memory, after a takeover and on storage.
import { indexTableOf } from "@concord/schema";
import type { Row } from "@concord/ports";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TableWrite } from "./index.ts";
import {
  bigint,
  fails,
  insert,
  photoKey,
  PHOTOS,
  plain,
  remove,
  settle,
  TestFixture,
  text,
  update,
  type Client,
  type FixtureOptions,
  type Session,
} from "./test/fixture.ts";

const BY_STATUS = PHOTOS.indexes.find((index) => index.name === "by_status")!;
const WHOLE = { partition: [bigint(1)], reverse: false, limit: 100 };
const INDEX = { index: BY_STATUS, range: { table: indexTableOf(PHOTOS, BY_STATUS).name, ...WHOLE } };
const OLD = { status: text("public"), note: text("old") };

type Columns = Readonly<Record<string, unknown>>;

interface Change {
  readonly writes: readonly TableWrite[];
  /** Photo 1 afterwards, which was there before unless the change is an insert. */
  readonly left: Columns | undefined;
}

const CHANGES: Readonly<Record<string, Change>> = {
  insert: { writes: [insert(photoKey(1, 1), { status: text("private") })], left: { status: "private" } },
  update: { writes: [update(photoKey(1, 1), { status: text("private") })], left: { status: "private", note: "old" } },
  "update of the index row's copy alone": {
    writes: [update(photoKey(1, 1), { note: text("new") })],
    left: { status: "public", note: "new" },
  },
  delete: { writes: [remove(photoKey(1, 1))], left: undefined },
  "delete and insert": {
    writes: [remove(photoKey(1, 1)), insert(photoKey(1, 1), { status: text("private") })],
    left: { status: "private" },
  },
};

/** In every change's commit: both are there or none is. */
const BESIDE = insert(photoKey(1, 2), { status: text("beside") });

type Before = (client: Client) => void;
type Commit = (client: Client, writes: readonly TableWrite[]) => Promise<unknown>;

interface Case {
  readonly options?: FixtureOptions;
  readonly before?: Before;
  readonly commit: Commit;
  /** Whose reads are looked at. */
  readonly after: (client: Client) => Client | Promise<Client>;
}

const inTransaction: Commit = async (client, writes) => {
  const session = client.begin();
  await session.start(photoKey(1, 50));
  await session.commit(writes);
};
const same = (client: Client): Client => client;
const next = (client: Client): Promise<Client> => client.fixture.open();

/** The answer to the commit is lost, and with "lost" the entry; the master repeats it only when time passes. */
const unanswered =
  (fault: "accepted" | "lost"): Before =>
  (client) =>
    void client.fixture.log.appendFaults.push(fault);

const unresolved: Commit = async (client, writes) => {
  void inTransaction(client, writes).catch(() => undefined);
  await settle();
};

const CASES: Readonly<Record<string, Case>> = {
  "in a transaction": { commit: inTransaction, after: same },
  "by Execute": { commit: (client, writes) => client.execute(writes), after: same },
  "memory keeps no row, storage has not applied it": {
    options: { limits: { cachedRowsMax: 0 }, cachedRowBytesMax: 0 },
    before: ({ fixture }) => fixture.rows.hold(),
    commit: inTransaction,
    after: same,
  },
  "the master stops once it is acknowledged": {
    before: ({ fixture }) => fixture.rows.hold(),
    commit: async (client, writes) => {
      await inTransaction(client, writes);
      client.group.stop();
      client.fixture.rows.release();
    },
    after: next,
  },
  "the master is replaced before it has the log's answer": { before: unanswered("accepted"), commit: unresolved, after: next },
  "the clock steps an hour back": {
    before: ({ fixture }) => void (fixture.clock.wallMs -= 3_600_000),
    commit: inTransaction,
    after: same,
  },
  "the next master's clock is an hour behind": {
    commit: async (client, writes) => {
      client.fixture.clock.wallMs -= 3_600_000;
      await inTransaction(await client.fixture.open(), writes);
    },
    after: next,
  },
};

const FORMS: readonly FixtureOptions[] = [{}, { appliesRows: true }];

async function withPhoto(what: string, options: FixtureOptions): Promise<Client> {
  const client = await new TestFixture(options).open();
  await client.execute([insert(photoKey(1, 0), OLD), ...(what === "insert" ? [] : [insert(photoKey(1, 1), OLD)])]);
  // Applied, by replicas too.
  await client.fixture.clock.advance(100);
  return client;
}

const shown = (rows: readonly (Row | undefined)[]): unknown[] =>
  rows
    .flatMap((row) => (row === undefined ? [] : [[Number(row.key.clustering.at(-1)!.value), plain(row)] as const]))
    .toSorted(([left], [right]) => left - right);

/** Photos 0 to 2 as a transaction finds them: the same by key, by range and by index. */
async function seen(session: Session): Promise<unknown[]> {
  const byKey = shown(await session.operate((operations) => operations.read([0, 1, 2].map((at) => photoKey(1, at)))));
  const byRange = shown(await session.operate(async (operations) => (await operations.readRange({ table: PHOTOS.name, ...WHOLE })).rows));
  const byIndex = shown(await session.operate(async (operations) => (await operations.queryIndex(PHOTOS, [INDEX], 100)).rows));
  assert.deepEqual(byRange, byKey, "by range");
  assert.deepEqual(byIndex, byKey, "by index");
  return byKey;
}

function expected({ left }: Change): unknown[] {
  return [[0, { status: "public", note: "old" }], ...(left === undefined ? [] : [[1, left]]), [2, { status: "beside" }]];
}

/** Index rows of the statuses, as storage has them. */
function storedStatuses(fixture: TestFixture): string[] {
  return fixture.rows
    .table(INDEX.range.table)
    .map(({ key }) => `${String(key.clustering[0]!.value)} ${String(key.clustering[1]!.value)}`)
    .toSorted();
}

async function check(client: Client, change: Change, what: string): Promise<void> {
  const { fixture } = client;
  const reader = client.begin();
  await reader.start(photoKey(1, 51));
  assert.deepEqual(await seen(reader), expected(change), what);
  await reader.commit();
  fixture.rows.release();
  await fixture.clock.advance(2_000);
  const stored = shown([0, 1, 2].map((at) => fixture.rows.row(photoKey(1, at))));
  assert.deepEqual(stored, expected(change), `${what}: storage`);
  const statuses = (expected(change) as [number, { status: string }][]).map(([photo, { status }]) => `${status} ${photo}`);
  assert.deepEqual(storedStatuses(fixture), statuses.toSorted(), `${what}: the index in storage`);
}

for (const [what, change] of Object.entries(CHANGES)) {
  for (const [name, { options, before, commit, after }] of Object.entries(CASES)) {
    test(`[TX6] [TX7] [TX21] [TX27] [TX31] [TXD2] [TXD4] [TXD14] ${what}: ${name}: by key, range and index it is one state, on storage too`, async () => {
      for (const form of FORMS) {
        const client = await withPhoto(what, { ...form, ...options });
        before?.(client);
        await commit(client, [...change.writes, BESIDE]);
        await check(await after(client), change, JSON.stringify(form));
      }
    });
  }

  test(`[TX6] [TXD2] ${what}: its entry did not arrive and the master is replaced: nothing of it is there, nor in an index`, async () => {
    for (const form of FORMS) {
      const client = await withPhoto(what, form);
      const [rows, statuses] = [client.fixture.rows.table(PHOTOS.name), storedStatuses(client.fixture)];
      unanswered("lost")(client);
      await unresolved(client, [...change.writes, BESIDE]);
      const taker = await next(client);
      const reader = taker.begin();
      await reader.start(photoKey(1, 51));
      assert.deepEqual(await seen(reader), shown(rows));
      await reader.commit();
      await client.fixture.clock.advance(20_000);
      assert.deepEqual(shown(client.fixture.rows.table(PHOTOS.name)), shown(rows));
      assert.deepEqual(storedStatuses(client.fixture), statuses);
    }
  });

  test(`[TX5] [TX28] ${what}: before its commit: seen by its own transaction in every form, by no read without a lock, and gone with a rollback`, async () => {
    for (const form of FORMS) {
      const client = await withPhoto(what, { ...form, limits: { cachedRowsMax: 0 } });
      const session = client.begin();
      await session.start(photoKey(1, 50));
      await session.write(...change.writes, BESIDE);
      assert.deepEqual(await seen(session), expected(change));
      const other = client.begin();
      await other.start(photoKey(1, 51));
      const old = what === "insert" ? undefined : { status: "public", note: "old" };
      assert.deepEqual(await other.read(photoKey(1, 1), "none"), old);
      assert.equal(await other.read(photoKey(1, 2), "none"), undefined);
      session.rollback();
      assert.deepEqual(await other.read(photoKey(1, 1)), old);
      other.rollback();
    }
  });

  test(`[TX8] [TX27] [TXD7] ${what}: committed, then repeated under its id by its client, after a restart and after the clock stepped: the first outcome, applied once`, async () => {
    for (const form of FORMS) {
      for (const by of ["commit", "execute"] as const) {
        const client = await withPhoto(what, form);
        const { fixture } = client;
        const [id, writes] = [fixture.id(), [...change.writes, BESIDE]];
        const session = client.begin(id);
        if (by === "commit") await session.start(photoKey(1, 50));
        const send = async (to: Client): Promise<{ readonly seq: bigint }> =>
          by === "execute"
            ? to.execute(writes, id)
            : to.group.serving("unknown").commit(session.call(2), () => writes, { maxDelayMs: 0, freesSpace: false });
        const { seq } = await send(client);
        // Of others, meanwhile: a repeat that was applied again would undo it.
        await client.execute([update(photoKey(1, 1), { note: text("later") })]);
        const restarted = await fixture.open();
        fixture.clock.wallMs -= 60_000;
        assert.equal((await send(restarted)).seq, seq, by);
        fixture.clock.wallMs += 120_000;
        assert.equal((await send(restarted)).seq, seq, by);
        await fails(
          "IDEMPOTENCY_MISMATCH",
          by === "execute" ? restarted.execute([BESIDE], id) : Promise.reject(await refusedOther(restarted, session)),
        );
        const reader = restarted.begin();
        await reader.start(photoKey(1, 51));
        assert.equal((await reader.read(photoKey(1, 1)))?.["note"], "later");
      }
    }
  });
}

/** What another payload under a committed transaction's id is refused with. */
async function refusedOther(client: Client, session: Session): Promise<unknown> {
  const other = async (): Promise<unknown> =>
    client.group.serving("unknown").commit(session.call(2), () => [BESIDE], { maxDelayMs: 0, freesSpace: false });
  return other().then(
    () => assert.fail("another payload was committed"),
    (thrown: unknown) => thrown,
  );
}
