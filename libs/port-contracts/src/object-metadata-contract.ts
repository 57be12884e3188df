import type { MetadataCondition, MetadataOutcome, MetadataRow, MetadataWrite, ObjectMetadata, RowVersion } from "@concord/ports";
import { expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

/** Empty metadata, and what tests can do to it. */
export interface ObjectMetadataSubject {
  readonly metadata: ObjectMetadata;
  /** Opens what a crash at this moment would leave. */
  crash(): Promise<ObjectMetadata>;
}

type Case = ContractCase<ObjectMetadataSubject>;

const P = "bucket/0";
const OTHER = "bucket/1";
const key = (...bytes: number[]): Uint8Array => Uint8Array.from(bytes);
const version = (commit: number | bigint, guid: number | bigint): RowVersion => ({ commit: BigInt(commit), guid: BigInt(guid) });
const rowOf = (name: Uint8Array, at: RowVersion, ...value: number[]): MetadataRow => ({
  key: name,
  version: at,
  value: Uint8Array.from(value),
});
const put = (row: MetadataRow): MetadataWrite => ({ kind: "put", row });
const remove = (name: Uint8Array): MetadataWrite => ({ kind: "delete", key: name });
const add = (name: Uint8Array, ...amounts: (number | bigint)[]): MetadataWrite => ({
  kind: "add",
  key: name,
  amounts: amounts.map(BigInt),
});
const absent = (name: Uint8Array): MetadataCondition => ({ key: name, version: undefined });
const is = (name: Uint8Array, commit: number, guid: number): MetadataCondition => ({ key: name, version: version(commit, guid) });
const EVERYTHING = { from: key(), to: key(255, 255, 255), limit: 1000 };
const LETTERS = [key(1), key(1, 0), key(1, 0, 255), key(1, 255), key(2), key(127), key(128), key(255)];
/** Bytes of a row are the port's own: compare copies, not views. */
const plain = (row: MetadataRow | undefined): MetadataRow | undefined =>
  row && {
    key: Uint8Array.from(row.key),
    version: { commit: row.version.commit, guid: row.version.guid },
    value: Uint8Array.from(row.value),
  };

function simple(name: string, run: (metadata: ObjectMetadata, subject: ObjectMetadataSubject) => Promise<void>): Case {
  return {
    name,
    async run(open) {
      const subject = await open();
      await run(subject.metadata, subject);
    },
  };
}

function commit(
  metadata: ObjectMetadata,
  conditions: readonly MetadataCondition[],
  writes: readonly MetadataWrite[],
  partition = P,
): Promise<MetadataOutcome> {
  return metadata.commit({ partition, conditions, writes });
}

async function committed(
  metadata: ObjectMetadata,
  conditions: readonly MetadataCondition[],
  writes: readonly MetadataWrite[],
  partition = P,
): Promise<void> {
  expectEqual(await commit(metadata, conditions, writes, partition), { kind: "committed" }, "commit");
}

/** The rows a conflict shows. */
async function refused(
  metadata: ObjectMetadata,
  conditions: readonly MetadataCondition[],
  writes: readonly MetadataWrite[],
): Promise<(MetadataRow | undefined)[]> {
  const outcome = await commit(metadata, conditions, writes);
  expectEqual(outcome.kind, "conflict", "outcome");
  return outcome.kind === "conflict" ? outcome.rows.map(plain) : [];
}

const read = async (metadata: ObjectMetadata, names: readonly Uint8Array[], partition = P): Promise<(MetadataRow | undefined)[]> =>
  (await metadata.read(partition, names)).map(plain);

const keysOf = (rows: readonly MetadataRow[]): Uint8Array[] => rows.map((row) => Uint8Array.from(row.key));

async function filled(metadata: ObjectMetadata): Promise<void> {
  await committed(
    metadata,
    [],
    LETTERS.toReversed().map((name) => put(rowOf(name, version(5, 6), ...name, 9))),
  );
}

const A = key(1);
const B = key(2);
const C = key(3);
const A5 = rowOf(A, version(5, 50), 1);
const B5 = rowOf(B, version(5, 51), 2);

const READ_CASES: readonly Case[] = [
  simple("read: absent row: undefined", async (metadata) => expectEqual(await read(metadata, [A]), [undefined], "read")),
  simple("read: present row: key, version and value", async (metadata) => {
    await committed(metadata, [absent(A)], [put(A5)]);
    expectEqual(await read(metadata, [A]), [A5], "read");
  }),
  simple("read: mixed keys, one twice: answers in the order of the keys", async (metadata) => {
    await committed(metadata, [], [put(A5), put(B5)]);
    expectEqual(await read(metadata, [B, C, A, B]), [B5, undefined, A5, B5], "read");
  }),
  simple("read: a prefix and an extension of a stored key: undefined", async (metadata) => {
    await committed(metadata, [], [put(rowOf(key(1, 2), version(1, 1), 1))]);
    expectEqual(await read(metadata, [key(1), key(1, 2, 0)]), [undefined, undefined], "read");
  }),
  simple("partitions: the same key in two: apart", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    await committed(metadata, [absent(A)], [put(rowOf(A, version(7, 7), 7))], OTHER);
    expectEqual(await read(metadata, [A]), [A5], "first");
    expectEqual(await read(metadata, [A], OTHER), [rowOf(A, version(7, 7), 7)], "second");
    expectEqual(keysOf(await metadata.range(OTHER, EVERYTHING)), [A], "range");
  }),
  simple("partitions: one name is the beginning of another: apart", async (metadata) => {
    await committed(metadata, [], [put(A5)], "b");
    await committed(metadata, [], [put(B5)], "b/0");
    await committed(metadata, [], [put(rowOf(C, version(1, 1)))], "");
    expectEqual(keysOf(await metadata.range("b", EVERYTHING)), [A], "b");
    expectEqual(keysOf(await metadata.range("", EVERYTHING)), [C], "system");
  }),
  simple("values: 64 KiB, empty, the largest versions, a key of 1200 bytes: round trip", async (metadata) => {
    const large = {
      key: A,
      version: version(2n ** 63n - 1n, 2n ** 63n - 1n),
      value: Uint8Array.from({ length: 65_536 }, (_, at) => at % 251),
    };
    const empty = { key: new Uint8Array(1200).fill(254), version: version(0, 0), value: new Uint8Array() };
    await committed(metadata, [], [put(large), put(empty)]);
    expectEqual(await read(metadata, [large.key, empty.key]), [large, empty], "rows");
  }),
  simple("read: the caller changes the answer: the store does not", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    (await metadata.read(P, [A]))[0]?.value.fill(0);
    expectEqual(await read(metadata, [A]), [A5], "read");
  }),
  simple("commit: the caller reuses its buffers: the store keeps what it was given", async (metadata) => {
    const [name, value] = [key(1), key(6)];
    const done = committed(metadata, [], [put({ key: name, version: version(1, 1), value })]);
    await done;
    name[0] = 9;
    value[0] = 9;
    expectEqual(await read(metadata, [key(1), key(9)]), [rowOf(key(1), version(1, 1), 6), undefined], "read");
  }),
];

const CONDITION_CASES: readonly Case[] = [
  simple("condition: absent wanted, row there: conflict with it, nothing written", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    expectEqual(await refused(metadata, [absent(A)], [put(rowOf(A, version(9, 9), 9))]), [A5], "conflict");
    expectEqual(await read(metadata, [A]), [A5], "read");
  }),
  simple("condition: version wanted, row absent: conflict with undefined", async (metadata) => {
    expectEqual(await refused(metadata, [is(A, 5, 50)], [put(A5)]), [undefined], "conflict");
    expectEqual(await read(metadata, [A]), [undefined], "read");
  }),
  simple("condition: exactly this version: committed", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    await committed(metadata, [is(A, 5, 50)], [put(rowOf(A, version(6, 1), 7))]);
    expectEqual(await read(metadata, [A]), [rowOf(A, version(6, 1), 7)], "read");
  }),
  simple("condition: same commit number, another GUID: conflict (OGD5)", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    expectEqual(await refused(metadata, [is(A, 5, 49)], [put(rowOf(A, version(6, 49)))]), [A5], "conflict");
  }),
  simple("condition: same GUID, an older or newer commit number: conflict", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    expectEqual(await refused(metadata, [is(A, 4, 50)], [remove(A)]), [A5], "older");
    expectEqual(await refused(metadata, [is(A, 6, 50)], [remove(A)]), [A5], "newer");
    expectEqual(await read(metadata, [A]), [A5], "read");
  }),
  simple("condition: one of several fails: nothing is written, all rows shown in their order", async (metadata) => {
    await committed(metadata, [], [put(A5), put(B5)]);
    const writes = [put(rowOf(A, version(6, 6))), put(rowOf(C, version(6, 6))), remove(B), add(key(0, 2), 1)];
    expectEqual(await refused(metadata, [absent(C), is(B, 5, 0), is(A, 5, 50)], writes), [undefined, B5, A5], "last but one");
    expectEqual(await refused(metadata, [is(B, 5, 51), is(A, 5, 0)], writes), [B5, A5], "last");
    expectEqual(await read(metadata, [A, B, C]), [A5, B5, undefined], "read");
    expectEqual([...(await metadata.readCounters(P, key(0, 2)))], [], "counters");
  }),
  simple("condition: on a row the commit does not write: honoured (OGD17)", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    await committed(metadata, [is(A, 5, 50)], [put(B5)]);
    expectEqual(await refused(metadata, [is(A, 4, 50)], [put(rowOf(C, version(1, 1)))]), [A5], "conflict");
    expectEqual(await read(metadata, [A, B, C]), [A5, B5, undefined], "read");
  }),
  simple("condition: after an overwrite: the conflict shows the row as it is now", async (metadata) => {
    await committed(metadata, [absent(A)], [put(A5)]);
    await read(metadata, [A]);
    await committed(metadata, [is(A, 5, 50)], [put(rowOf(A, version(6, 60), 3))]);
    expectEqual(await refused(metadata, [is(A, 5, 50)], [remove(A)]), [rowOf(A, version(6, 60), 3)], "conflict");
  }),
  simple("condition: after a delete: absent holds, the old version does not", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    await committed(metadata, [is(A, 5, 50)], [remove(A)]);
    expectEqual(await refused(metadata, [is(A, 5, 50)], [remove(A)]), [undefined], "conflict");
    await committed(metadata, [absent(A)], [put(A5)]);
  }),
  simple("condition: delete under a wrong version: the row stays", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    await refused(metadata, [is(A, 5, 51)], [remove(A)]);
    expectEqual(await read(metadata, [A]), [A5], "read");
  }),
  simple("conditions without writes: checked", async (metadata) => {
    await committed(metadata, [absent(A)], []);
    await committed(metadata, [], [put(A5)]);
    expectEqual(await refused(metadata, [absent(A)], []), [A5], "conflict");
  }),
  simple("race: ten commits on one version: one is committed, the others see its row", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    const attempts = Array.from({ length: 10 }, (_, at) => rowOf(A, version(6, at), at));
    const outcomes = await Promise.all(attempts.map((row) => commit(metadata, [is(A, 5, 50)], [put(row), add(key(0, 2), 1)])));
    const winners = outcomes.flatMap((outcome, at) => (outcome.kind === "committed" ? [at] : []));
    expectEqual(winners.length, 1, "winners");
    const winner = attempts[winners[0]!]!;
    expectEqual(await read(metadata, [A]), [winner], "read");
    for (const outcome of outcomes) if (outcome.kind === "conflict") expectEqual(outcome.rows.map(plain), [winner], "the row a loser sees");
    expectEqual([...(await metadata.readCounters(P, key(0, 2)))], [1n], "counters");
  }),
  simple("race: ten commits on an absent row: one is committed", async (metadata) => {
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, at) => commit(metadata, [absent(A)], [put(rowOf(A, version(6, at), at))])),
    );
    expectEqual(outcomes.filter((outcome) => outcome.kind === "committed").length, 1, "winners");
  }),
];

/** Reads the row and replaces it under its version until that succeeds: one more each time. */
async function increment(metadata: ObjectMetadata, guid: number): Promise<void> {
  for (;;) {
    const [row] = await read(metadata, [A]);
    const condition = row === undefined ? absent(A) : { key: A, version: row.version };
    const next = rowOf(A, version((row?.version.commit ?? 0n) + 1n, guid), (row?.value[0] ?? 0) + 1);
    if ((await commit(metadata, [condition], [put(next)])).kind === "committed") return;
  }
}

const RACE_CASES: readonly Case[] = [
  simple("race: two commits with conditions on the same two rows, in opposite orders: one is committed", async (metadata) => {
    await committed(metadata, [], [put(A5), put(B5)]);
    const [A6, B6] = [rowOf(A, version(6, 1), 1), rowOf(B, version(6, 1), 1)];
    const outcomes = await Promise.all([
      commit(metadata, [is(A, 5, 50), is(B, 5, 51)], [put(A6), put(B6)]),
      commit(metadata, [is(B, 5, 51), is(A, 5, 50)], [remove(B), remove(A)]),
    ]);
    expectEqual(outcomes.filter(({ kind }) => kind === "committed").length, 1, "committed");
    expectEqual(await read(metadata, [A, B]), outcomes[0].kind === "committed" ? [A6, B6] : [undefined, undefined], "rows");
  }),
  simple("race: each of two writes what the other needs to be absent: one is committed (OGD17)", async (metadata) => {
    const outcomes = await Promise.all([commit(metadata, [absent(A)], [put(B5)]), commit(metadata, [absent(B)], [put(A5)])]);
    expectEqual(outcomes.filter(({ kind }) => kind === "committed").length, 1, "committed");
    expectEqual((await read(metadata, [A, B])).filter((row) => row !== undefined).length, 1, "rows");
  }),
  simple("race: eight read and replace one row until they succeed: no change is lost", async (metadata) => {
    await Promise.all(Array.from({ length: 8 }, (_, at) => increment(metadata, at)));
    const [row] = await read(metadata, [A]);
    expectEqual([row?.version.commit, row?.value], [8n, Uint8Array.of(8)], "row");
  }),
  simple("race: commits of rows of their own at once: all are committed", async (metadata) => {
    const rows = Array.from({ length: 30 }, (_, at) => rowOf(key(5, at), version(1, at), at));
    await Promise.all(rows.map((row) => committed(metadata, [absent(row.key)], [put(row)])));
    expectEqual((await metadata.range(P, EVERYTHING)).map(plain), rows, "rows");
  }),
];

const WRITE_CASES: readonly Case[] = [
  simple("commit: 200 puts and deletes in one: all of them", async (metadata) => {
    const old = Array.from({ length: 100 }, (_, at) => rowOf(key(4, at), version(1, at), at));
    await committed(metadata, [], old.map(put));
    const fresh = Array.from({ length: 100 }, (_, at) => rowOf(key(5, at), version(2, at), at));
    const writes = old.flatMap((row, at) => [remove(row.key), put(fresh[at]!)]);
    await committed(metadata, [{ key: old[7]!.key, version: old[7]!.version }], writes);
    expectEqual((await metadata.range(P, EVERYTHING)).map(plain), fresh, "rows");
  }),
  simple("commit: the same version again with another value: the last one is read, its condition holds", async (metadata) => {
    await committed(metadata, [], [put(A5)]);
    await committed(metadata, [is(A, 5, 50)], [put(rowOf(A, version(5, 50), 9))]);
    expectEqual(await read(metadata, [A]), [rowOf(A, version(5, 50), 9)], "read");
    await committed(metadata, [is(A, 5, 50)], [remove(A)]);
    expectEqual(await read(metadata, [A]), [undefined], "after delete");
  }),
  simple("commit: partitions and keys beyond ASCII, every byte in keys and values: round trip, apart", async (metadata) => {
    const names = ["b\u00fccher/\u{1f600}", "bu\u0308cher/\u{1f600}", "b\u00fccher"];
    const every = Uint8Array.from({ length: 255 }, (_, at) => at + 1);
    for (const [at, name] of names.entries()) {
      const row = rowOf(every, version(at, at), ...every, 0);
      await committed(metadata, [absent(every)], [put(row)], name);
    }
    for (const [at, name] of names.entries())
      expectEqual(await read(metadata, [every], name), [rowOf(every, version(at, at), ...every, 0)], name);
  }),
  simple("commit: puts and deletes of several rows: all of them", async (metadata) => {
    await committed(metadata, [], [put(A5), put(B5)]);
    await committed(metadata, [is(A, 5, 50), absent(C)], [remove(A), put(rowOf(C, version(8, 8), 8)), put(rowOf(B, version(8, 8), 9))]);
    expectEqual(await read(metadata, [A, B, C]), [undefined, rowOf(B, version(8, 8), 9), rowOf(C, version(8, 8), 8)], "read");
  }),
  simple("commit: delete of an absent row: harmless", async (metadata) => {
    await committed(metadata, [], [remove(A), put(B5)]);
    expectEqual(await read(metadata, [A, B]), [undefined, B5], "read");
  }),
  simple("commit: one key twice: the last write wins", async (metadata) => {
    await committed(metadata, [], [put(A5), remove(A), put(rowOf(A, version(6, 6), 6))]);
    expectEqual(await read(metadata, [A]), [rowOf(A, version(6, 6), 6)], "put");
    await committed(metadata, [], [put(A5), remove(A)]);
    expectEqual(await read(metadata, [A]), [undefined], "delete");
  }),
  simple("commit: empty: committed", async (metadata) => committed(metadata, [], [])),
  simple("commit: answered: read and range see it at once", async (metadata) => {
    for (let at = 1; at <= 5; at += 1) {
      await committed(metadata, [], [put(rowOf(A, version(at, at), at))]);
      expectEqual(await read(metadata, [A]), [rowOf(A, version(at, at), at)], "read");
      expectEqual((await metadata.range(P, EVERYTHING)).map(plain), [rowOf(A, version(at, at), at)], "range");
    }
  }),
];

const RANGE_CASES: readonly Case[] = [
  simple("range: everything: bytewise order, a prefix before its extensions, whole rows", async (metadata) => {
    await filled(metadata);
    expectEqual(
      (await metadata.range(P, EVERYTHING)).map(plain),
      LETTERS.map((name) => rowOf(name, version(5, 6), ...name, 9)),
      "rows",
    );
  }),
  simple("range: bounds: from is inclusive, to is exclusive", async (metadata) => {
    await filled(metadata);
    expectEqual(keysOf(await metadata.range(P, { from: key(1, 0), to: key(128), limit: 10 })), LETTERS.slice(1, 6), "keys");
    expectEqual(keysOf(await metadata.range(P, { from: key(1, 1), to: key(126), limit: 10 })), [key(1, 255), key(2)], "between");
  }),
  simple("range: limit: the first ones; pages one behind the other give all", async (metadata) => {
    await filled(metadata);
    expectEqual(keysOf(await metadata.range(P, { ...EVERYTHING, limit: 3 })), LETTERS.slice(0, 3), "keys");
    const seen: Uint8Array[] = [];
    for (let from = key(); ; from = Uint8Array.from([...seen.at(-1)!, 0])) {
      const page = keysOf(await metadata.range(P, { from, to: EVERYTHING.to, limit: 3 }));
      seen.push(...page);
      if (page.length < 3) break;
    }
    expectEqual(seen, LETTERS, "pages");
  }),
  simple("range: reverse: from the upper bound down, the same bounds, the last ones under a limit", async (metadata) => {
    await filled(metadata);
    const bounds = { from: key(1, 0), to: key(128), limit: 10, reverse: true };
    expectEqual(keysOf(await metadata.range(P, bounds)), LETTERS.slice(1, 6).toReversed(), "keys");
    expectEqual(keysOf(await metadata.range(P, { ...EVERYTHING, limit: 2, reverse: true })), LETTERS.slice(-2).toReversed(), "limit");
  }),
  simple("range: reverse: pages of two, one in front of the other, give all", async (metadata) => {
    await filled(metadata);
    const seen: Uint8Array[] = [];
    for (let to = EVERYTHING.to; ; to = seen.at(-1)!) {
      const page = keysOf(await metadata.range(P, { from: key(), to, limit: 2, reverse: true }));
      seen.push(...page);
      if (page.length < 2) break;
    }
    expectEqual(seen, LETTERS.toReversed(), "pages");
  }),
  simple("range: rows change between two pages: what stayed is seen once, in order", async (metadata) => {
    await filled(metadata);
    const first = keysOf(await metadata.range(P, { ...EVERYTHING, limit: 3 }));
    const [gone, changed] = [LETTERS[0]!, LETTERS[4]!];
    await committed(metadata, [], [remove(gone), put(rowOf(changed, version(9, 9), 7)), put(rowOf(key(2, 2), version(9, 9), 7))]);
    const rest = await metadata.range(P, { ...EVERYTHING, from: Uint8Array.from([...first.at(-1)!, 0]) });
    expectEqual(keysOf(rest), [LETTERS[3], changed, key(2, 2), ...LETTERS.slice(5)], "second page");
    expectEqual(plain(rest[1]), rowOf(changed, version(9, 9), 7), "the changed row");
  }),
  simple("range: onUnreadable, nothing damaged: never called, the rows as without it", async (metadata) => {
    await filled(metadata);
    const unreadable: Uint8Array[] = [];
    const rows = await metadata.range(P, { ...EVERYTHING, onUnreadable: (name) => unreadable.push(name) });
    expectEqual([keysOf(rows), unreadable], [LETTERS, []], "range");
  }),
  simple("range: empty or inverted: nothing", async (metadata) => {
    await filled(metadata);
    expectEqual(await metadata.range(P, { from: key(2), to: key(2), limit: 10 }), [], "empty");
    expectEqual(await metadata.range(P, { from: key(128), to: key(2), limit: 10 }), [], "inverted");
    expectEqual(await metadata.range("nowhere", EVERYTHING), [], "no such partition");
  }),
  simple("range: deleted rows and counters: not in it", async (metadata) => {
    await filled(metadata);
    await committed(metadata, [], [remove(key(2)), add(key(1, 1), 1), add(key(3), 1)]);
    expectEqual(
      keysOf(await metadata.range(P, EVERYTHING)),
      LETTERS.filter((name) => name[0] !== 2),
      "keys",
    );
  }),
  simple("range: 300 rows: all of them, in order", async (metadata) => {
    const names = Array.from({ length: 300 }, (_, at) => key(at >> 8, at & 255));
    await committed(
      metadata,
      [],
      names.map((name) => put(rowOf(name, version(1, 1), 1))),
    );
    expectEqual(keysOf(await metadata.range(P, EVERYTHING)), names, "keys");
  }),
];

const COUNTER = key(0, 2);

const COUNTER_CASES: readonly Case[] = [
  simple("counters: never added to: none", async (metadata) => expectEqual([...(await metadata.readCounters(P, COUNTER))], [], "counters")),
  simple("counters: adds, also negative ones and beyond 2^53: summed up", async (metadata) => {
    await committed(metadata, [], [add(COUNTER, 1, 2n ** 60n)]);
    await committed(metadata, [], [add(COUNTER, 2, 7), put(A5)]);
    await committed(metadata, [], [add(COUNTER, -5, -3)]);
    expectEqual([...(await metadata.readCounters(P, COUNTER))], [-2n, 2n ** 60n + 4n], "counters");
  }),
  simple("counters: a longer list of amounts: the others count from zero", async (metadata) => {
    await committed(metadata, [], [add(COUNTER, 1)]);
    await committed(metadata, [], [add(COUNTER, 1, 5)]);
    await committed(metadata, [], [add(COUNTER, 1)]);
    expectEqual([...(await metadata.readCounters(P, COUNTER))], [3n, 5n], "counters");
  }),
  simple("counters: twice in one commit: both count", async (metadata) => {
    await committed(metadata, [], [add(COUNTER, 1), add(COUNTER, 2)]);
    expectEqual([...(await metadata.readCounters(P, COUNTER))], [3n], "counters");
  }),
  simple("counters: of a refused commit: not added", async (metadata) => {
    await committed(metadata, [], [put(A5), add(COUNTER, 1)]);
    await refused(metadata, [absent(A)], [add(COUNTER, 10)]);
    expectEqual([...(await metadata.readCounters(P, COUNTER))], [1n], "counters");
  }),
  simple("counters: twenty commits at once: none lost", async (metadata) => {
    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        committed(metadata, [absent(key(9, at))], [put(rowOf(key(9, at), version(1, at))), add(COUNTER, 1)]),
      ),
    );
    expectEqual([...(await metadata.readCounters(P, COUNTER))], [20n], "counters");
  }),
  simple("counters: another partition, another key: apart; no row under their key", async (metadata) => {
    await committed(metadata, [], [add(COUNTER, 1)]);
    await committed(metadata, [], [add(key(0, 3), 5)]);
    await committed(metadata, [], [add(COUNTER, 7)], OTHER);
    expectEqual([...(await metadata.readCounters(P, COUNTER))], [1n], "counters");
    expectEqual([...(await metadata.readCounters(OTHER, COUNTER))], [7n], "other partition");
    expectEqual(await read(metadata, [COUNTER]), [undefined], "row");
    await committed(metadata, [absent(COUNTER)], []);
  }),
];

const DURABILITY_CASES: readonly Case[] = [
  simple("crash: after committed: rows, deletes and counters are there", async (metadata, subject) => {
    await committed(metadata, [], [put(A5), put(B5), add(COUNTER, 3)]);
    await committed(metadata, [is(A, 5, 50)], [remove(A), put(rowOf(C, version(7, 7), 7))]);
    const left = await subject.crash();
    expectEqual(await read(left, [A, B, C]), [undefined, B5, rowOf(C, version(7, 7), 7)], "rows");
    expectEqual([...(await left.readCounters(P, COUNTER))], [3n], "counters");
  }),
  simple("crash: what was refused left nothing; a second crash changes nothing", async (metadata, subject) => {
    await committed(metadata, [], [put(A5), add(COUNTER, 3)]);
    await refused(metadata, [absent(A)], [put(B5), remove(A), add(COUNTER, 4)]);
    await (await subject.crash()).read(P, [A]);
    const left = await subject.crash();
    expectEqual(await read(left, [A, B]), [A5, undefined], "rows");
    expectEqual([...(await left.readCounters(P, COUNTER))], [3n], "counters");
  }),
  simple("crash: conditions afterwards: judged by what is there", async (metadata, subject) => {
    await committed(metadata, [], [put(A5)]);
    const left = await subject.crash();
    expectEqual(await refused(left, [absent(A)], [remove(A)]), [A5], "conflict");
    await committed(left, [is(A, 5, 50)], [put(rowOf(A, version(6, 6), 6))]);
  }),
];

export const OBJECT_METADATA_CASES: readonly Case[] = [
  ...RACE_CASES,
  ...READ_CASES,
  ...CONDITION_CASES,
  ...WRITE_CASES,
  ...RANGE_CASES,
  ...COUNTER_CASES,
  ...DURABILITY_CASES,
];

/** Registers one test per promise of the ObjectMetadata port. `open` gives empty metadata each time. */
export function objectMetadataContract(test: TestFunction, open: () => Promise<ObjectMetadataSubject>): void {
  registerContract(test, "ObjectMetadata", OBJECT_METADATA_CASES, open);
}
