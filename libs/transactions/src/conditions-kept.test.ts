// UN20 beside every way to change a row that is compared, and whatever happens between the copies of a call.
import { indexTableOf, type IndexScan, type TableCondition } from "@concord/schema";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TableWrite } from "./index.ts";
import { executeIf, refusal, when } from "./test/conditions.ts";
import {
  bigint,
  insert,
  isPending,
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
} from "./test/fixture.ts";

const COMPARED = photoKey(1, 1);
const BY_STATUS = PHOTOS.indexes.find((index) => index.name === "by_status")!;
const OLD = { status: text("public"), note: text("old") };

interface Change {
  readonly writes: readonly TableWrite[];
  /** True of the row before the change alone, and after it alone. */
  readonly before: TableCondition;
  readonly after: TableCondition;
}

const absent = when({ kind: "absent", key: COMPARED });
const present = when({ kind: "present", key: COMPARED });
const has = (column: string, value: string | null): TableCondition =>
  when({ kind: "equal", key: COMPARED, columns: [{ column, value: value === null ? null : text(value) }] });

/** Changes of the row that is compared; it is there before unless the change is an insert. */
const CHANGES: Readonly<Record<string, Change>> = {
  insert: { writes: [insert(COMPARED, OLD)], before: absent, after: present },
  update: { writes: [update(COMPARED, { status: text("private") })], before: has("status", "public"), after: has("status", "private") },
  delete: { writes: [remove(COMPARED)], before: present, after: absent },
  "delete and insert": {
    writes: [remove(COMPARED), insert(COMPARED, { status: text("public") })],
    before: has("note", "old"),
    after: has("note", null),
  },
};

/** The conditional call's writes: both are there or none is. */
const writesOf = (note: string): TableWrite[] =>
  [2, 3].map((at) => insert(photoKey(1, at), { status: text("conditional"), note: text(note) }));

/** Photos 2 and 3, by key and by index: the notes of those that are there. */
async function written(client: Client): Promise<unknown[]> {
  const range = { table: indexTableOf(PHOTOS, BY_STATUS).name, partition: [bigint(1)], reverse: false, limit: 100 };
  const bound = { prefix: [text("conditional")], inclusive: true };
  const scan: IndexScan = { index: BY_STATUS, range: { ...range, lower: bound, upper: bound } };
  const reader = client.begin();
  await reader.start(photoKey(1, 50));
  const byKey = await reader.operate((operations) => operations.read([2, 3].map((at) => photoKey(1, at))));
  const { rows: byIndex } = await reader.operate((operations) => operations.queryIndex(PHOTOS, [scan], 10));
  await reader.commit();
  const notes = byKey.flatMap((row) => (row === undefined ? [] : [plain(row)!["note"]]));
  assert.deepEqual(
    byIndex.map((row) => plain(row)!["note"]),
    notes,
  );
  return notes;
}

/** Rows applied by their owner, as on Cassandra, and by the log's replicas, as on the ring. */
const FORMS: readonly FixtureOptions[] = [{}, { appliesRows: true }];

async function withPhotos(what: string, options: FixtureOptions): Promise<Client> {
  const client = await new TestFixture(options).open();
  await client.execute([insert(photoKey(1, 0), OLD), ...(what === "insert" ? [] : [insert(COMPARED, OLD)])]);
  await client.fixture.clock.advance(100);
  return client;
}

const WRITERS = {
  transaction: async (client: Client, writes: readonly TableWrite[]): Promise<unknown> => {
    const writer = client.begin();
    await writer.start(photoKey(1, 51));
    return writer.commit(writes);
  },
  Execute: (client: Client, writes: readonly TableWrite[]): Promise<unknown> => client.execute(writes),
  "Execute with conditions": (client: Client, writes: readonly TableWrite[]): Promise<unknown> =>
    executeIf(client, [when({ kind: "present", key: photoKey(1, 0) })], writes),
};

const NEXT: Readonly<Record<string, (old: Client) => Promise<Client>>> = {
  "is replaced": (old) => old.fixture.open(),
  "begins anew": (old) => {
    old.group.stop();
    return old.fixture.open();
  },
};

interface Event {
  readonly options?: FixtureOptions;
  readonly happen: (client: Client) => Client | Promise<Client>;
}

/** Events between a refusal and the next copy of its call, in which the row changes too. */
const EVENTS: Readonly<Record<string, Event>> = {
  "nothing else": { happen: (client) => client },
  "memory keeps neither the rows nor the outcome": {
    options: { limits: { cachedRowsMax: 0, recentOutcomesMax: 4 }, cachedRowBytesMax: 0 },
    happen: async (client) => {
      for (let other = 0; other < 20; other += 1) {
        await client.execute([insert(photoKey(1, 100 + other))]);
        await client.fixture.clock.advance(20);
      }
      return client;
    },
  },
  "the master is replaced when all is applied": {
    happen: async (client) => {
      await client.fixture.clock.advance(200);
      return client.fixture.open();
    },
  },
  "the master is replaced at once": { happen: NEXT["is replaced"]! },
  "the master begins anew": { happen: NEXT["begins anew"]! },
  ...Object.fromEntries(
    [-3_600_000, -60_000, 600_000].flatMap((ms) => [
      [`the clock steps by ${ms} ms`, { happen: (client: Client) => stepped(client, ms) }],
      [`the clock steps by ${ms} ms and the master begins anew`, { happen: (client: Client) => NEXT["begins anew"]!(stepped(client, ms)) }],
    ]),
  ),
};

function stepped(client: Client, ms: number): Client {
  client.fixture.clock.wallMs += ms;
  return client;
}

for (const [what, { writes, after }] of Object.entries(CHANGES)) {
  for (const [event, { options, happen }] of Object.entries(EVENTS)) {
    test(`[UN20] conditions failed, then ${what} makes them hold, ${event}: every copy of the call is refused as the first, and writes nothing`, async () => {
      for (const form of FORMS) {
        for (const [by, change] of Object.entries(WRITERS)) {
          const client = await withPhotos(what, { ...form, ...options });
          const id = client.fixture.id();
          const first = await refusal(executeIf(client, [after], writesOf("refused"), id));
          await change(client, writes);
          const master = await happen(client);
          for (let copy = 0; copy < 2; copy += 1)
            assert.deepEqual(await refusal(executeIf(master, [after], writesOf("refused"), id)), first, by);
          assert.deepEqual(await written(master), [], by);
          await executeIf(master, [after], writesOf("new id"));
          assert.deepEqual(await written(master), ["new id", "new id"], `the conditions hold: ${by}`);
        }
      }
    });
  }
}

/** Changes out of order while a conditional call is on its way to the log. */
const CONDITIONS: Readonly<Record<string, { readonly options?: FixtureOptions; readonly clockMs?: number }>> = {
  "all well": {},
  "memory keeps no row": { options: { limits: { cachedRowsMax: 0 }, cachedRowBytesMax: 0 } },
  "the clock steps an hour back": { clockMs: -3_600_000 },
  "the clock steps ten minutes on": { clockMs: 600_000 },
};

for (const [what, { writes, before, after }] of Object.entries(CHANGES)) {
  for (const [condition, { options, clockMs = 0 }] of Object.entries(CONDITIONS)) {
    test(`[UN20] conditions hold, ${what} by another writer before the log has the call: it waits, so they hold where the call is written (${condition})`, async () => {
      for (const form of FORMS) {
        for (const [by, change] of Object.entries(WRITERS)) {
          const client = await withPhotos(what, { ...form, ...options });
          const { fixture } = client;
          fixture.log.hold();
          const conditional = executeIf(client, [before], writesOf("written"));
          await settle();
          fixture.clock.wallMs += clockMs;
          const changed = change(client, writes);
          assert.ok(await isPending(changed), by);
          assert.equal(client.group.serving().stats().lockWaits, 1, by);
          fixture.log.release();
          await Promise.all([conditional, changed]);
          assert.deepEqual(await written(client), ["written", "written"], by);
          await refusal(executeIf(client, [before], []));
        }
      }
    });

    test(`[UN20] conditions held, ${what} by a transaction that is about to commit: waited for, and what it leaves is compared (${condition})`, async () => {
      for (const form of FORMS) {
        const client = await withPhotos(what, { ...form, ...options });
        const { fixture } = client;
        const writer = client.begin();
        await writer.start(photoKey(1, 51));
        await writer.write(...writes);
        const [late, early] = [executeIf(client, [after], writesOf("written")), executeIf(client, [before], writesOf("refused"))];
        assert.ok(await isPending(late));
        fixture.clock.wallMs += clockMs;
        assert.ok(await isPending(early));
        await writer.commit();
        await late;
        await refusal(early);
        assert.deepEqual(await written(client), ["written", "written"]);
      }
    });
  }

  for (const [event, nextOf] of Object.entries(NEXT)) {
    test(`[UN20] conditions hold, the log has the call or not, the master ${event}, then ${what}: the repeat is the first commit, or is compared anew: all is written or nothing`, async () => {
      for (const form of FORMS) {
        for (const fault of ["accepted", "lost"] as const) {
          const old = await withPhotos(what, form);
          const id = old.fixture.id();
          old.fixture.log.appendFaults = [fault];
          void executeIf(old, [before], writesOf("written"), id).catch(() => undefined);
          await settle();
          const master = await nextOf(old);
          await master.execute(writes);
          const repeated = executeIf(master, [before], writesOf("written"), id);
          if (fault === "accepted") {
            const { seq } = await repeated;
            assert.equal((await executeIf(master, [before], writesOf("written"), id)).seq, seq);
          } else await refusal(repeated);
          await master.fixture.clock.advance(20_000);
          assert.deepEqual(await written(master), fault === "accepted" ? ["written", "written"] : []);
        }
      }
    });
  }
}
