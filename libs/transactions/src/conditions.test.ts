// UN20: one-shot conditions. Compared under the locks of their rows, written in the same flush, and a refusal is the id's outcome for ever.
import assert from "node:assert/strict";
import { test } from "node:test";
import { timestampUsOf } from "@concord/runtime";
import type { TableCondition } from "@concord/schema";
import type { CellValue } from "@concord/values";
import { encodeFlushed, openFlush, sealFlush } from "./flush-entry.ts";
import { ConditionsFailed, type TableWrite } from "./index.ts";
import { outcomeMutations, outcomesIn } from "./outcome-rows.ts";
import { imageOf } from "@concord/rows";
import { decodeRefusal, encodeRefusal } from "./refusal.ts";
import { executeIf, refusal, when } from "./test/conditions.ts";
import {
  albumKey,
  checksum,
  committed,
  fails,
  indexTable,
  insert,
  int,
  isPending,
  photoKey,
  PLAIN,
  remove,
  settle,
  TestFixture,
  text,
  update,
  write,
  type FixtureOptions,
} from "./test/fixture.ts";

const KEY = albumKey(1);
const OTHER = albumKey(2);
const THIRD = albumKey(3);

const absent = (key = KEY): TableCondition => when({ kind: "absent", key });
const present = (key = KEY): TableCondition => when({ kind: "present", key });
const photosAre = (count: number | null, key = KEY): TableCondition =>
  when({ kind: "equal", key, columns: [{ column: "public_photos", value: count === null ? null : int(count) }] });

const plainKey = ({ partition, clustering }: { partition: readonly CellValue[]; clustering: readonly CellValue[] }): string[] =>
  [...partition, ...clustering].map(({ value }) => String(value));

/** All rows of users, as storage has them when everything logged is applied. */
async function stored(fixture: TestFixture): Promise<unknown> {
  await fixture.clock.advance(200);
  return structuredClone([...fixture.rows.images.values()].filter(({ key }) => key.table === "albums" || key.table.startsWith("photos")));
}

/** Rows applied by their owner, as on Cassandra, and by the log's replicas, as on the ring. */
const FORMS: readonly (readonly [name: string, form: FixtureOptions])[] = [
  ["owner applies", {}],
  ["replicas apply", { appliesRows: true }],
];

for (const [by, form] of FORMS) {
  const held: readonly (readonly [what: string, conditions: readonly TableCondition[], writes: readonly TableWrite[], left: unknown])[] = [
    ["insert of an absent row", [absent(OTHER)], [insert(OTHER, { public_photos: int(1) })], { public_photos: 1 }],
    ["update of a column that is equal", [photosAre(3)], [update(KEY, { public_photos: int(4) })], { public_photos: 4 }],
    ["update of a present row", [present()], [update(KEY, { public_photos: int(5) })], { public_photos: 5 }],
    ["delete of a column that is equal", [photosAre(3)], [remove(KEY)], undefined],
    ["delete and insert", [photosAre(3)], [remove(KEY), insert(KEY, { title: text("new") })], { title: "new" }],
    [
      "a column that is null in a present row",
      [present(THIRD), photosAre(null, THIRD)],
      [update(THIRD, { public_photos: int(1) })],
      { public_photos: 1 },
    ],
    [
      "a column that is null because the row is absent",
      [photosAre(null, OTHER)],
      [insert(OTHER, { public_photos: int(1) })],
      { public_photos: 1 },
    ],
    ["a row that is not written", [present(THIRD)], [update(KEY, { public_photos: int(6) })], { public_photos: 6 }],
  ];
  for (const [what, conditions, writes, left] of held) {
    test(`[UN20] conditions (${by}): hold: ${what}: written, in one flush`, async () => {
      const fixture = new TestFixture(form);
      const client = await fixture.open();
      await client.execute([insert(KEY, { public_photos: int(3) }), insert(THIRD)]);
      const appends = fixture.log.appends.length;
      await executeIf(client, conditions, writes);
      assert.equal(fixture.log.appends.length, appends + 1);
      assert.deepEqual(await committed(client, writes[0]!.write.key), left);
      assert.equal(client.group.serving().stats().locks, 0);
    });
  }

  const failing: readonly (readonly [
    what: string,
    conditions: readonly TableCondition[],
    writes: readonly TableWrite[],
    failed: unknown[],
  ])[] = [
    ["insert of a present row", [absent()], [insert(KEY, { public_photos: int(9) })], [[1n, { public_photos: 3 }]]],
    ["update of an absent row", [present(OTHER)], [update(OTHER, { public_photos: int(9) })], [[2n, undefined]]],
    ["a column that differs", [photosAre(2)], [update(KEY, { public_photos: int(9) })], [[1n, { public_photos: 3 }]]],
    ["a column that is null", [photosAre(2, THIRD)], [update(THIRD, { public_photos: int(9) })], [[3n, {}]]],
    ["a column of an absent row", [photosAre(2, OTHER)], [insert(OTHER, { public_photos: int(9) })], [[2n, undefined]]],
    ["a column that should be null", [photosAre(null)], [remove(KEY)], [[1n, { public_photos: 3 }]]],
    ["delete and insert", [photosAre(2)], [remove(KEY), insert(KEY)], [[1n, { public_photos: 3 }]]],
    ["one of three rows", [present(), absent(THIRD), absent(OTHER)], [update(KEY, { public_photos: int(9) })], [[3n, {}]]],
    [
      "two of three, and two conditions of one row",
      [photosAre(1), absent(), present(THIRD), present(OTHER)],
      [update(KEY, { public_photos: int(9) }), insert(OTHER)],
      [
        [1n, { public_photos: 3 }],
        [2n, undefined],
      ],
    ],
    ["no writes", [absent()], [], [[1n, { public_photos: 3 }]]],
  ];
  for (const [what, conditions, writes, failed] of failing) {
    test(`[UN20] conditions (${by}): fail: ${what}: the rows that failed come back, and no row changes`, async () => {
      const fixture = new TestFixture(form);
      const client = await fixture.open();
      await client.execute([insert(KEY, { public_photos: int(3) }), insert(THIRD)]);
      const before = await stored(fixture);
      assert.deepEqual(await refusal(executeIf(client, conditions, writes)), failed);
      assert.deepEqual(await stored(fixture), before);
      assert.equal(client.group.serving().stats().locks, 0);
    });
  }

  test(`[UN20] conditions (${by}): refused: the same id gets the same rows though they changed since; another payload: IDEMPOTENCY_MISMATCH`, async () => {
    const fixture = new TestFixture(form);
    const client = await fixture.open();
    await client.execute([insert(KEY, { public_photos: int(3) })]);
    const id = fixture.id();
    const writes = [update(KEY, { public_photos: int(9) })];
    const first = await refusal(executeIf(client, [photosAre(2)], writes, id));
    await client.execute([update(KEY, { public_photos: int(2) })]);
    assert.deepEqual(await refusal(executeIf(client, [photosAre(2)], writes, id)), first);
    await fails("IDEMPOTENCY_MISMATCH", executeIf(client, [photosAre(3)], writes, id));
    await fails("IDEMPOTENCY_MISMATCH", client.execute(writes, id));
    await fails("IDEMPOTENCY_MISMATCH", executeIf(client, [photosAre(2)], [], id));
    await fails("TRANSACTION_ABORTED", client.begin(id).start(KEY));
    assert.equal((await client.group.serving().resolveOutcome(id, client.deadline())).kind, "aborted");
    assert.deepEqual(await committed(client), { public_photos: 2 });
    await executeIf(client, [photosAre(2)], writes);
    assert.deepEqual(await committed(client), { public_photos: 9 });
  });

  test(`[UN20] conditions (${by}): refused, taken over, all applied: the same refusal from the outcome row, with the rows as they were`, async () => {
    const fixture = new TestFixture(form);
    const client = await fixture.open();
    await client.execute([insert(KEY, { public_photos: int(3), title: text("sea") })]);
    const id = fixture.id();
    const writes = [update(KEY, { public_photos: int(9) })];
    const first = await refusal(executeIf(client, [photosAre(2)], writes, id));
    await client.execute([update(KEY, { public_photos: int(2) })]);
    await fixture.clock.advance(200);
    await client.group.drain();
    const taker = await fixture.open();
    assert.deepEqual(await refusal(executeIf(taker, [photosAre(2)], writes, id)), first);
    assert.deepEqual(first, [[1n, { public_photos: 3, title: "sea" }]]);
    assert.equal((await taker.group.serving().resolveOutcome(id, taker.deadline())).kind, "aborted");
    assert.deepEqual(await committed(taker), { public_photos: 2, title: "sea" });
  });

  test(`[UN20] conditions (${by}): refused, its append in the log without an answer, taken over: the repeat is the refusal that was logged`, async () => {
    const fixture = new TestFixture(form);
    const old = await fixture.open();
    await old.execute([insert(KEY, { public_photos: int(3) })]);
    const id = fixture.id();
    const writes = [update(KEY, { public_photos: int(9) })];
    fixture.log.appendFaults = ["accepted"];
    const lost = executeIf(old, [photosAre(2)], writes, id).catch((thrown: unknown) => thrown);
    await settle();
    const taker = await fixture.open();
    await taker.execute([update(KEY, { public_photos: int(2) })]);
    assert.deepEqual(await refusal(executeIf(taker, [photosAre(2)], writes, id)), [[1n, { public_photos: 3 }]]);
    assert.deepEqual(await committed(taker), { public_photos: 2 });
    await fixture.clock.advance(20_000);
    assert.match(String(await lost), /may have happened/, "the fenced master reports no outcome that it cannot know");
  });

  test(`[UN20] conditions (${by}): a takeover between compare and log: nothing was decided, so the repeat is compared by the new master`, async () => {
    const fixture = new TestFixture(form);
    const old = await fixture.open();
    await old.execute([insert(KEY, { public_photos: int(3) })]);
    const id = fixture.id();
    const writes = [update(KEY, { public_photos: int(9) })];
    fixture.log.appendFaults = ["lost"];
    const lost = executeIf(old, [photosAre(2)], writes, id).catch((thrown: unknown) => thrown);
    await settle();
    const taker = await fixture.open();
    await taker.execute([update(KEY, { public_photos: int(2) })]);
    await executeIf(taker, [photosAre(2)], writes, id);
    assert.deepEqual(await committed(taker), { public_photos: 9 });
    await fixture.clock.advance(20_000);
    assert.equal((await lost) instanceof ConditionsFailed, false);
  });

  test(`[UN20] conditions (${by}): only conditions: that they held is the id's outcome, also after a takeover and though they hold no longer`, async () => {
    const fixture = new TestFixture(form);
    const client = await fixture.open();
    await client.execute([insert(KEY, { public_photos: int(3) })]);
    const id = fixture.id();
    const { seq } = await executeIf(client, [photosAre(3)], [], id);
    await client.execute([remove(KEY)]);
    assert.equal((await executeIf(client, [photosAre(3)], [], id)).seq, seq);
    await fixture.clock.advance(200);
    await client.group.drain();
    assert.equal((await executeIf(await fixture.open(), [photosAre(3)], [], id)).seq, seq);
  });

  test(`[UN20] conditions (${by}): more refusals than memory keeps: a forgotten one is the same from its row`, async () => {
    const fixture = new TestFixture({ ...form, limits: { recentOutcomesMax: 4 } });
    const client = await fixture.open();
    await client.execute([insert(KEY, { public_photos: int(3) })]);
    const ids = Array.from({ length: 20 }, () => fixture.id());
    for (const id of ids) {
      await refusal(executeIf(client, [photosAre(2)], [remove(KEY)], id));
      await fixture.clock.advance(20);
    }
    await client.execute([update(KEY, { public_photos: int(2) })]);
    for (const id of ids)
      assert.deepEqual(await refusal(executeIf(client, [photosAre(2)], [remove(KEY)], id)), [[1n, { public_photos: 3 }]]);
    assert.deepEqual(await committed(client), { public_photos: 2 });
  });

  test(`[UN20] conditions (${by}): copies at once: compared once, one answer to all`, async () => {
    const fixture = new TestFixture(form);
    const client = await fixture.open();
    await client.execute([insert(KEY, { public_photos: int(3) })]);
    const id = fixture.id();
    const appends = fixture.log.appends.length;
    const copies = Array.from({ length: 5 }, () => refusal(executeIf(client, [absent()], [remove(KEY)], id)));
    for (const copy of await Promise.all(copies)) assert.deepEqual(copy, [[1n, { public_photos: 3 }]]);
    assert.equal(fixture.log.appends.length, appends + 1);
  });

  test(`[UN20] conditions (${by}): twenty compare-and-set of one row at once: as many are applied as it counts`, async () => {
    const fixture = new TestFixture(form);
    const client = await fixture.open();
    await client.execute([insert(KEY, { public_photos: int(0) })]);
    let applied = 0;
    const step = async (): Promise<void> => {
      for (let seen = 0; ;) {
        const answer = await executeIf(client, [photosAre(seen)], [update(KEY, { public_photos: int(seen + 1) })]).catch(
          (thrown) => thrown,
        );
        if (!(answer instanceof ConditionsFailed)) break;
        seen = Number(answer.failed[0]!.row!.columns.get("public_photos")!.value);
      }
      applied += 1;
    };
    await Promise.all(Array.from({ length: 20 }, step));
    assert.deepEqual([applied, await committed(client)], [20, { public_photos: 20 }]);
  });
}

test("[UN20] conditions: compared under the lock: what a transaction holds is waited for, and its commit is what is compared", async () => {
  const client = await new TestFixture().open();
  await client.execute([insert(KEY, { public_photos: int(3) })]);
  const holder = client.begin();
  await holder.start(KEY);
  const waiting = executeIf(client, [photosAre(3)], [update(KEY, { public_photos: int(9) })]);
  assert.ok(await isPending(waiting));
  await holder.commit([update(KEY, { public_photos: int(4) })]);
  assert.deepEqual(await refusal(waiting), [[1n, { public_photos: 4 }]]);
});

test("[UN20] conditions: locks are held from compare to log: no writer gets between, also for a row that is only compared", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(KEY, { public_photos: int(3) }), insert(THIRD)]);
  fixture.log.hold();
  const conditional = executeIf(client, [photosAre(3)], [update(THIRD, { public_photos: int(1) })]);
  await settle();
  const writer = client.execute([update(KEY, { public_photos: int(8) })]);
  assert.ok(await isPending(writer));
  assert.equal(client.group.serving().stats().lockWaits, 1);
  fixture.log.release();
  await Promise.all([conditional, writer]);
});

test("[UN20] conditions: Executes that compare what the other writes, at once and crosswise: no deadlock", async () => {
  const client = await new TestFixture().open();
  await client.execute([insert(KEY), insert(THIRD)]);
  const tries = Array.from({ length: 20 }, (_, at) => {
    const [mine, theirs] = at % 2 === 0 ? [KEY, THIRD] : [THIRD, KEY];
    return executeIf(client, [present(mine), present(theirs)], [update(theirs, { public_photos: int(at) })]);
  });
  await Promise.all(tries);
});

test("[UN20] conditions: a row of another group: GROUP_MISMATCH with both rows; nothing is written, and the id is free", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  const id = fixture.id();
  const before = await stored(fixture);
  const elsewhere = await fails("GROUP_MISMATCH", executeIf(client, [absent(), absent(albumKey(99))], [insert(KEY)], id));
  assert.match(elsewhere.metadata["key"]!, /99/);
  assert.match(elsewhere.metadata["entity"]!, /albums.*1/);
  await fails("GROUP_MISMATCH", executeIf(client, [absent()], [insert(KEY), insert(albumKey(99))], id));
  assert.deepEqual(await stored(fixture), before);
  await executeIf(client, [absent()], [insert(KEY)], id);
});

test("[UN20] conditions: of columns with indexes: the index has what was written, and of a refusal nothing", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  const photo = photoKey(1, 1);
  const status = (value: string): TableCondition =>
    when({ kind: "equal", key: photo, columns: [{ column: "status", value: text(value) }] });
  await client.execute([insert(photo, { status: text("private") })]);
  await refusal(executeIf(client, [status("public")], [update(photo, { status: text("gone") })]));
  const indexed = (): number[] =>
    ["private", "public", "gone"].map(
      (value) => fixture.rows.table(indexTable("by_status").name).filter(({ key }) => JSON.stringify(plainKey(key)).includes(value)).length,
    );
  await fixture.clock.advance(200);
  assert.deepEqual(indexed(), [1, 0, 0]);
  await executeIf(client, [status("private")], [update(photo, { status: text("public") })]);
  await fixture.clock.advance(200);
  assert.equal(indexed()[1], 1);
});

test("[UN20] conditions: version: the newest timestamp of the row, a removed cell's too; where the owner applies rows: UNIMPLEMENTED", async () => {
  const client = await new TestFixture({ appliesRows: true }).open();
  const version = (versionUs: bigint): TableCondition => when({ kind: "version", key: KEY, versionUs });
  const { timestampUs } = await client.execute([insert(KEY, { public_photos: int(3), title: text("sea") })]);
  await refusal(executeIf(client, [version(timestampUs - 1n)], [remove(KEY)]));
  const second = await executeIf(client, [version(timestampUs)], [update(KEY, { title: null })]);
  await refusal(executeIf(client, [version(timestampUs)], [remove(KEY)]));
  await executeIf(client, [version(second.timestampUs)], [remove(KEY)]);
  await refusal(executeIf(client, [version(second.timestampUs)], [insert(KEY)]));
  const owner = await new TestFixture().open();
  await owner.execute([insert(KEY)]);
  await fails("UNIMPLEMENTED", executeIf(owner, [version(1n)], [remove(KEY)]));
});

test("[UN20] conditions: of a plain table: USE_PLAIN_WRITE", async () => {
  const client = await new TestFixture().open();
  await fails("USE_PLAIN_WRITE", executeIf(client, [when({ kind: "absent", key: { ...KEY, table: PLAIN.name } })], [insert(KEY)]));
});

test("[UN20] conditions: refused, and its caller's deadline passes before the log has it: applied no, and the id is not ended", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(KEY, { public_photos: int(3) })]);
  fixture.log.hold();
  const ahead = client.execute([insert(OTHER)]);
  await settle();
  const id = fixture.id();
  const writes = [update(KEY, { public_photos: int(9) })];
  const late = client.group.serving().execute(id, writes, client.deadline(1_000), { conditions: [photosAre(2)] });
  const failed = late.catch((thrown: unknown) => thrown);
  await fixture.clock.advance(2_000);
  fixture.log.release();
  await ahead;
  assert.equal((await failed) instanceof ConditionsFailed, false);
  await fixture.clock.advance(100);
  await client.execute([update(KEY, { public_photos: int(2) })]);
  await executeIf(client, [photosAre(2)], writes, id);
});

test("[UN20] conditions: its outcome is asked for while the refusal is on its way: aborted", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(KEY)]);
  fixture.log.hold();
  const id = fixture.id();
  const refused = refusal(executeIf(client, [absent()], [remove(KEY)], id));
  await settle();
  const outcome = client.group.serving().resolveOutcome(id, client.deadline());
  await settle();
  fixture.log.release();
  assert.deepEqual(await outcome, { kind: "aborted" });
  await refused;
});

test("[UN20] conditions: as many rows that fail as a request may have: all come back; rows that are too large without their columns", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  const keys = Array.from({ length: 1_000 }, (_, at) => photoKey(1, at));
  await client.execute(keys.slice(0, 3).map((key) => insert(key, { note: text("n".repeat(7_000)) })));
  const refused = executeIf(client, [...keys.slice(0, 3).map((key) => absent(key)), ...keys.slice(3).map((key) => present(key))], []);
  const error = await fails("PRECONDITION_FAILED", refused);
  assert.ok(error instanceof ConditionsFailed);
  assert.deepEqual(
    error.failed.map(({ key }) => key),
    keys,
  );
  assert.deepEqual(
    error.failed.slice(0, 4).map(({ row, isLeftOut }) => [row === undefined, isLeftOut]),
    [
      [true, true],
      [true, true],
      [true, true],
      [true, false],
    ],
  );
  const single = await fails("PRECONDITION_FAILED", executeIf(client, [absent(keys[0])], []));
  assert.ok(single instanceof ConditionsFailed && single.failed[0]!.row !== undefined);
});

test("[UN20] conditions: in a transaction: compared with its own writes; refused it stays open and holds the lock", async () => {
  const client = await new TestFixture().open();
  await client.execute([insert(KEY, { public_photos: int(3) })]);
  const session = client.begin();
  await session.start(KEY);
  await session.write(update(KEY, { public_photos: int(4) }));
  const compare = (...conditions: TableCondition[]): Promise<void> => session.operate((operations) => operations.compare(conditions, []));
  assert.deepEqual(await refusal(compare(photosAre(3))), [[1n, { public_photos: 4 }]]);
  await compare(photosAre(4), absent(OTHER));
  const writer = client.execute([insert(OTHER)]);
  assert.ok(await isPending(writer), "what was compared stays so until the transaction ends");
  await session.commit();
  await writer;
  assert.deepEqual(await committed(client), { public_photos: 4 });
});

test("[UN20] conditions: log without space: a refusal is logged all the same, a write that adds is not", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(KEY)]);
  fixture.noSpace = (await fails("PRECONDITION_FAILED", executeIf(client, [absent()], []))) as never;
  const id = fixture.id();
  await refusal(executeIf(client, [absent()], [insert(KEY)], id));
  await client.execute([remove(KEY)]);
  await refusal(executeIf(client, [absent()], [insert(KEY)], id));
});

test("[UN20] flush and outcome row of a refusal: version 5 and 3, golden bytes; without one the bytes of before", () => {
  const id = new TestFixture().id();
  const request = { conditions: [present(), absent(OTHER)], writes: [write("delete", THIRD)] };
  const failed = [
    { key: KEY, row: undefined, isLeftOut: false },
    { key: OTHER, row: { key: OTHER, columns: new Map([["public_photos", int(3)]]), newestUs: timestampUsOf(4n) }, isLeftOut: false },
  ];
  const bytes = encodeRefusal(failed, request);
  assert.deepEqual(decodeRefusal(bytes, request), failed);
  const hex = (part: Uint8Array): string => Buffer.from(part).toString("hex");
  const body = `${"0000000000000004"}010d${Buffer.from("public_photos").toString("hex")}`;
  assert.ok(hex(bytes).startsWith(`0200000101${body}`), hex(bytes));
  const flushed = { kind: "refused" as const, id, timestampUs: timestampUsOf(5n), digest: 6n, owner: 9n, mutations: [], refusal: bytes };
  const entry = sealFlush(new Uint8Array(16).fill(7), [encodeFlushed(flushed, "replicas apply")], "replicas apply", checksum);
  assert.deepEqual(openFlush(entry, checksum).transactions, [flushed]);
  const length = bytes.length.toString(16).padStart(2, "0");
  const fields = `${id}000000000000000500000000000000060000000000000009${length}${hex(bytes)}`;
  assert.ok(hex(entry).includes(`${"07".repeat(16)}0104${fields}`));
  const [row] = outcomeMutations("g0", [flushed], 7n as never).map(imageOf);
  const [cell] = row!.cells.values();
  assert.ok(cell?.value?.kind === "blob");
  assert.equal(hex(cell.value.value), `03${id}03${fields.slice(32)}`);
  assert.deepEqual(outcomesIn(row!), [[id, { kind: "refused", timestampUs: 5n, seq: 7n, digest: 6n, owner: 9n, refusal: bytes }]]);
});
