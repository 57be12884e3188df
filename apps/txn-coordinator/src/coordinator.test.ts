import assert from "node:assert/strict";
import { test } from "node:test";
import { CELL_TYPES, cellFromWire, cellToWire, type CellMessage } from "@concord/values";
import { sampleCells } from "@concord/values/testing";
import {
  albumKey,
  CoordinatorFixture,
  fails,
  photoKey,
  settle,
  STATEMENTS,
  write,
  type Answer,
  type Client,
} from "./test/coordinator-fixture.ts";

interface StoredDefinition {
  readonly formatVersion: 1;
  readonly kind: string;
  readonly version: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

interface WireGroup {
  readonly id: string;
  readonly fromToken: bigint;
  readonly master: string;
}

const columnsOf = (row: unknown): Record<string, unknown> => {
  const { columns } = row as { columns: { name: string; value: Record<string, unknown> & { kind: string } }[] };
  return Object.fromEntries(columns.map(({ name, value }) => [name, value[value.kind]]));
};

const photosOf = (answer: Answer): unknown[] =>
  (answer["rows"] as unknown as { key: { clustering: { bigintValue: bigint }[] } }[]).map((row) =>
    Number(row.key.clustering[0]!.bigintValue),
  );

async function opened(
  client: Client,
  album = 1,
): Promise<{ id: Uint8Array; next: () => { operation: { transactionId: Uint8Array; number: number } } }> {
  const id = client.fixture.id();
  let number = 0;
  const next = (): { operation: { transactionId: Uint8Array; number: number } } => ({
    operation: { transactionId: id, number: (number += 1) },
  });
  await client.call("Start", { ...next(), key: albumKey(album) });
  return { id, next };
}

async function withPhotos(fixture: CoordinatorFixture): Promise<Client> {
  const client = fixture.connect();
  await client.createTables();
  const writes = [0, 1, 2, 3, 4].map((at) =>
    write("INSERT", photoKey(1, at), {
      owner: { textValue: "me" },
      status: { textValue: at % 2 === 0 ? "public" : "private" },
      modified: { timestampValue: BigInt(100 - at) },
    }),
  );
  await client.unary("Execute", { transactionId: fixture.id(), writes });
  await settle();
  return client;
}

test("[TX2] three coordinators: the map covers all tokens; a row's other coordinators name its master", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  await fixture.connect(1).createTables();
  const topology = await fixture.connect(2).unary("GetTopology", {}, "TopologyService");
  const groups = topology["groups"] as unknown as WireGroup[];
  assert.deepEqual(
    groups.map(({ master }) => master),
    ["c0", "c1", "c2", "c0"],
  );
  assert.equal(groups[0]!.fromToken, 0n);
  const codes = await Promise.all(
    [0, 1, 2].map(async (at) => {
      const starting = fixture.connect(at).unary("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(1) });
      return starting.then(
        ({ group }) => `${String(group)} at c${at}`,
        (error: { code: string; metadata: Record<string, string> }) => error,
      );
    }),
  );
  const serving = codes.filter((one) => typeof one === "string");
  assert.equal(serving.length, 1);
  const master = serving[0]!.slice(-2);
  for (const refused of codes.filter((one) => typeof one !== "string")) {
    assert.equal(refused.code, "NOT_MASTER");
    assert.deepEqual([refused.metadata["master"], refused.metadata["address"]], [master, `${master}:1`]);
  }
  await fixture.stop();
});

test("[TX3] schema: created at any coordinator in one transaction, others catch up when asked", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  const version = (await fixture.connect(1).createTables())["schemaVersion"];
  assert.equal(version, 1n as unknown);
  const other = await fixture.connect(2).unary("GetSchema", { schemaVersion: version }, "SchemaService");
  assert.equal((other["tables"] as unknown as string[]).length, 3);
  const again = await fixture.connect(2).createTables(STATEMENTS.slice(0, 1));
  assert.equal(again["schemaVersion"], version, "the same definition again changes nothing");
  await fixture.connect(0).createTables(["CREATE TABLE IF NOT EXISTS albums (id bigint PRIMARY KEY, title text, photos int)"]);
  const next = await fixture.connect(0).createTables(["CREATE TABLE extra (id bigint PRIMARY KEY)"]);
  assert.equal(next["schemaVersion"], 2n as unknown);
  await fails(
    "TABLE_EXISTS",
    fixture.connect(1).createTables(["CREATE TABLE good (id bigint PRIMARY KEY)", "CREATE TABLE extra (id text PRIMARY KEY)"]),
  );
  await fails(
    "TABLE_UNKNOWN",
    fixture
      .connect(0)
      .unary("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: { table: "good", partition: [{ bigintValue: 1n }] } }),
  );
  await fixture.stop();
});

test("[TX3] schema: a table with a column of every type: its message says what its JSON text says", async () => {
  const fixture = await new CoordinatorFixture().start();
  const columns = CELL_TYPES.map((type) => ({ name: `a_${type}`, type }));
  const listed = columns.map(({ name, type }) => `${name} ${type}`).join(", ");
  const plain = "CREATE TABLE log (day int, at timestamp, PRIMARY KEY (day, at)) WITH kind = 'plain'";
  await fixture.connect().createTables([...STATEMENTS, `CREATE TABLE every_type (id bigint PRIMARY KEY, ${listed})`, plain]);
  const schema = await fixture.connect().unary("GetSchema", {}, "SchemaService");
  const { tables, definitions } = schema as unknown as { tables: string[]; definitions: { name: string; columns: object[] }[] };
  const definedByText = tables.map((text) => {
    const { formatVersion: _, kind, version, ...shape } = JSON.parse(text) as StoredDefinition;
    const typed = shape.columns.map(({ name, type }) => ({ name, type: `CELL_TYPE_${type.toUpperCase()}` }));
    return { ...shape, kind: `TABLE_KIND_${kind.toUpperCase()}`, columns: typed, version: BigInt(version) };
  });
  assert.deepEqual(definitions, definedByText);
  const everyType = definitions.find(({ name }) => name === "every_type")!;
  const expected = columns.map(({ name, type }) => ({ name, type: `CELL_TYPE_${type.toUpperCase()}` }));
  assert.deepEqual(everyType.columns, [{ name: "id", type: "CELL_TYPE_BIGINT" }, ...expected]);
  await fixture.stop();
});

test("[TX5] transaction: values of every type, written, read in it and after it: as they were", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  const columns = CELL_TYPES.map((type) => `${type}_column ${type}`).join(", ");
  await client.createTables([...STATEMENTS, `CREATE TABLE every_type (album bigint, at int, ${columns}, PRIMARY KEY (album, at))`]);
  const { next } = await opened(client);
  const rows = [0, 1].map((at) => CELL_TYPES.map((type) => sampleCells(type).at(-at)!));
  for (const [at, cells] of rows.entries()) {
    const key = { table: "every_type", partition: [{ bigintValue: 1n }], clustering: [{ intValue: at }] };
    const set = Object.fromEntries(cells.map((cell) => [`${cell.kind}_column`, cellToWire(cell)]));
    await client.call("Write", { ...next(), writes: [write("INSERT", key, set)] });
  }
  const read = async (more: object): Promise<unknown[]> => {
    const answer = await client.call("Query", { ...more, statement: { text: "SELECT * FROM every_type WHERE album = 1", binds: [] } });
    return (answer["rows"] as unknown as { columns: { value: CellMessage }[] }[]).map((row) =>
      row.columns.map(({ value }) => cellFromWire(value)),
    );
  };
  const expected = rows.map((cells) => cells.toSorted((left, right) => (left.kind < right.kind ? -1 : 1)));
  assert.deepEqual(await read(next()), expected);
  await client.call("Commit", next());
  const after = await opened(client);
  assert.deepEqual(await read(after.next()), expected);
  await fixture.stop();
});

test("[TX3] schema: two calls at once: serial, both tables are there", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  const versions = await Promise.all(
    [0, 1, 2].map((at) => fixture.connect(at).createTables([`CREATE TABLE t${at} (id bigint PRIMARY KEY)`])),
  );
  assert.deepEqual(
    versions.map((one) => Number(one["schemaVersion"])).sort((a, b) => a - b),
    [1, 2, 3],
  );
  const { tables } = await fixture.connect(1).unary("GetSchema", { schemaVersion: 3n }, "SchemaService");
  assert.equal((tables as unknown as string[]).length, 3);
  await fixture.stop();
});

test("restart: a second life finds group map, schema and rows, and its epochs are above the first's", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("INSERT", albumKey(1), { photos: { intValue: 7 } })] });
  const first = await client.unary("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(2) });
  await fixture.stop();
  const again = fixture.compose("c0", "again:1", []);
  const { address } = await again.start();
  fixture.addresses[0] = address;
  const second = await fixture.connect().unary("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(1) });
  assert.equal(columnsOf(second["row"])["photos"], 7);
  const other = await fixture.connect().unary("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(2) });
  assert.ok((other["epoch"] as unknown as bigint) > (first["epoch"] as unknown as bigint));
  await again.stop();
});

test("[TX4] session: many transactions on one stream, operations of one sent without waiting", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  const commits = [1, 2, 3, 4].map(async (album) => {
    const transactionId = fixture.id();
    const answers = [
      client.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(album) }),
      client.call("Write", {
        operation: { transactionId, number: 2 },
        writes: [write("INSERT", albumKey(album), { title: { textValue: `a${album}` } })],
      }),
      client.call("Read", { operation: { transactionId, number: 3 }, keys: [albumKey(album)] }),
      client.call("Commit", { operation: { transactionId, number: 4 } }),
    ];
    const [, , read] = await Promise.all(answers);
    return columnsOf((read!["rows"] as unknown as { row: unknown }[])[0]!.row)["title"];
  });
  assert.deepEqual(await Promise.all(commits), ["a1", "a2", "a3", "a4"]);
  await fixture.stop();
});

test("[TX3] session: the first use of a table is pipelined: no call overtakes the Start that reads the schema", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  await fixture.connect(0).createTables();
  for (const at of [0, 1, 2]) {
    const client = fixture.connect(at);
    const transactionId = fixture.id();
    const results = await Promise.allSettled([
      client.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(1) }),
      client.call("Write", { operation: { transactionId, number: 2 }, writes: [write("INSERT", albumKey(1))] }),
      client.call("Commit", { operation: { transactionId, number: 3 } }),
    ]);
    const codes = results.map((result) => (result.status === "fulfilled" ? "ok" : (result.reason as { code: string }).code));
    const expected = codes[0] === "ok" ? ["ok", "ok", "ok"] : ["NOT_MASTER", "TRANSACTION_UNKNOWN", "TRANSACTION_UNKNOWN"];
    assert.deepEqual(codes, expected);
  }
  await fixture.stop();
});

test("[TX10] session: the stream breaks: its transaction is aborted after the grace and its locks are free", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  const { next } = await opened(client);
  client.session.close();
  const other = fixture.connect();
  const waiting = other.call("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(1) });
  await fixture.clock.advance(1_040);
  await waiting;
  await fails("TRANSACTION_ABORTED", other.unary("Commit", next()));
  await fixture.stop();
});

test("stop: asked again while it drains: the second waits for the first", async () => {
  const fixture = await new CoordinatorFixture().start();
  await fixture.connect().createTables();
  const [service] = fixture.coordinators;
  const ended: string[] = [];
  const stops = ["first", "second"].map((name) => service!.stop().then(() => ended.push(name)));
  await Promise.all(stops);
  assert.deepEqual(ended, ["first", "second"]);
});

test("[TX20] [TX22] queries: by key, range and index: RowStore is asked for keys and one partition only, a scan is refused", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = await withPhotos(fixture);
  const { next } = await opened(client);
  fixture.rows.ranges = [];
  fixture.rows.reads = [];
  const query = (text: string, ...binds: object[]): Promise<Answer> => client.call("Query", { ...next(), statement: { text, binds } });
  const byIndex = await query(
    "SELECT photo, status FROM photos WHERE album = ? AND modified > ? ORDER BY modified DESC",
    { bigintValue: 1n },
    { timestampValue: 97n },
  );
  assert.deepEqual(photosOf(byIndex), [0, 1, 2]);
  assert.deepEqual(columnsOf((byIndex["rows"] as unknown as unknown[])[0]), { status: "public" });
  assert.deepEqual(
    fixture.rows.ranges.map(({ table, partition }) => [table, partition.length]),
    [["photos__by_modified", 1]],
  );
  const both = await query("SELECT * FROM photos WHERE album = 1 AND status = 'public' AND modified >= 98");
  assert.deepEqual(photosOf(both), [2, 0]);
  assert.deepEqual([...new Set(fixture.rows.ranges.map(({ table }) => table))].sort(), ["photos__by_modified", "photos__by_status"]);
  assert.deepEqual(photosOf(await query("SELECT * FROM photos WHERE album = 1 AND photo >= 3")), [3, 4]);
  assert.deepEqual(photosOf(await query("SELECT * FROM photos WHERE album = 1 AND photo = 2")), [2]);
  assert.equal(fixture.rows.reads.length, 0, "by key: the row is in memory since it was written");
  assert.ok(
    fixture.rows.ranges.every(({ partition }) => partition.length === 1),
    "every range is of one whole partition",
  );
  const asked = fixture.rows.ranges.length;
  await fails("SCAN_REFUSED", query("SELECT * FROM photos WHERE status = 'public'"));
  assert.equal(fixture.rows.ranges.length, asked);
  await fixture.stop();
});

test("[TX28] queries: own changes are seen, page by page with a limit over all pages", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = await withPhotos(fixture);
  const { next } = await opened(client);
  await client.call("Query", { ...next(), statement: { text: "INSERT INTO photos (album, photo, modified) VALUES (1, 9, 98)" } });
  await client.call("Query", { ...next(), statement: { text: "DELETE FROM photos WHERE album = 1 AND photo = 4" } });
  const statement = { text: "SELECT photo FROM photos WHERE album = 1 AND modified > 0 LIMIT 4", binds: [] };
  const first = await client.call("Query", { ...next(), statement, limit: 3 });
  assert.deepEqual(photosOf(first), [3, 2, 9]);
  const second = await client.call("Query", { ...next(), statement, limit: 3, pageToken: first["nextPageToken"] });
  assert.deepEqual(photosOf(second), [1]);
  assert.equal((second["nextPageToken"] as unknown as Uint8Array).length, 0);
  const other = { text: "SELECT photo FROM photos WHERE album = 1 AND modified > 1", binds: [] };
  await fails("PAGE_TOKEN_INVALID", client.call("Query", { ...next(), statement: other, pageToken: first["nextPageToken"] }));
  const range = { table: "photos", partition: [{ bigintValue: 1n }], reverse: true };
  const page = await client.call("Read", { ...next(), range, limit: 2 });
  const rest = await client.call("Read", { ...next(), range, limit: 100, pageToken: page["nextPageToken"] });
  const photos = [...(page["rangeRows"] as unknown as unknown[]), ...(rest["rangeRows"] as unknown as unknown[])];
  assert.deepEqual(photosOf({ rows: photos } as unknown as Answer), [9, 3, 2, 1, 0]);
  await fixture.stop();
});

test("[TXD7] first reply dropped: Start, Write, Commit and Execute are repeated: done once, the same answers", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  const transactionId = fixture.id();
  const twice = async (method: string, request: object): Promise<Answer> => {
    const [dropped, repeated] = [await client.call(method, request), await fixture.connect().unary(method, request)];
    assert.deepEqual(repeated, dropped, method);
    return repeated;
  };
  await twice("Start", { operation: { transactionId, number: 1 }, key: albumKey(1) });
  await twice("Write", { operation: { transactionId, number: 2 }, writes: [write("UPDATE", albumKey(1), { photos: { intValue: 1 } })] });
  const commit = { operation: { transactionId, number: 3 }, writes: [write("UPDATE", albumKey(1), { title: { textValue: "x" } })] };
  const first = await client.call("Commit", commit);
  assert.deepEqual((await client.unary("Commit", commit))["token"], first["token"]);
  await twice("Execute", { transactionId: fixture.id(), writes: [write("UPDATE", albumKey(2), { photos: { intValue: 1 } })] });
  await twice("Rollback", { operation: { transactionId, number: 4 } });
  const resolved = await twice("ResolveOutcome", { transactionId, key: albumKey(1) });
  assert.deepEqual(resolved["committed"], first["token"]);
  await settle();
  const versions = fixture.log.appends.filter((append) => append.group !== "system");
  assert.equal(versions.length, 2);
  await fixture.stop();
});

test("[TXD7] commit: repeated after a restart: the first outcome; one that never came: unknown here, then aborted for ever", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  const { next, id } = await opened(client);
  const commit = { ...next(), writes: [write("UPDATE", albumKey(1), { photos: { intValue: 1 } })] };
  const first = await client.call("Commit", commit);
  const open = await opened(client, 2);
  const late = { ...open.next(), writes: [write("INSERT", albumKey(2))] };
  await fixture.stop();
  const again = fixture.compose("c0", "again:1", []);
  fixture.addresses[0] = (await again.start()).address;
  const other = fixture.connect();
  assert.deepEqual((await other.call("Commit", commit))["token"], first["token"]);
  assert.deepEqual((await other.call("ResolveOutcome", { transactionId: id, key: albumKey(1) }))["committed"], first["token"]);
  const unknown = await fails("TRANSACTION_UNKNOWN", other.call("Commit", late));
  assert.equal(unknown.applied, "unknown", "a client asks ResolveOutcome");
  assert.deepEqual((await other.call("ResolveOutcome", { transactionId: open.id, key: albumKey(2) }))["aborted"], {});
  await fails("TRANSACTION_ABORTED", other.call("Commit", late));
  await fails("TRANSACTION_ABORTED", other.call("Start", { operation: { transactionId: open.id, number: 1 }, key: albumKey(2) }));
  await again.stop();
});

test("stop: while it starts: the start is given up, nothing goes on", async () => {
  const fixture = new CoordinatorFixture();
  const coordinators = [0, 1].map((at) => ({ name: `c${at}`, address: `c${at}:1`, datacenter: "d" }));
  const waiting = fixture.compose("c1", "c1:1", coordinators);
  const starting = waiting.start().then(
    () => "started",
    (error: { code: string }) => error.code,
  );
  await settle();
  await waiting.stop();
  assert.equal(await starting, "DRAINING");
  assert.equal(waiting.ready, false);
});

test("stop: open transactions hear DRAINING, commits in flight are answered, everything logged is applied", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  const { next } = await opened(client);
  const commits = [2, 3, 4].map((album) =>
    client.call("Execute", { transactionId: fixture.id(), writes: [write("INSERT", albumKey(album))] }),
  );
  const waiting = client.call("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(1) });
  await settle();
  const stopped = fixture.stop();
  await fails("DRAINING", waiting);
  await Promise.all(commits);
  await stopped;
  const code = await client.call("Commit", next()).then(
    () => "committed",
    (error: { code: string }) => error.code,
  );
  assert.ok(code === "DRAINING" || code === "CONNECTION_LOST", code);
  assert.equal(fixture.coordinators[0]!.ready, false);
});

/** The rows whose conditions failed. */
function failedOf(answer: Answer): readonly unknown[] {
  return (answer as unknown as { readonly failed: readonly unknown[] }).failed;
}

test("[TX8] [TX24] INSERT IF NOT EXISTS: by Execute and in a transaction: the row is there once, whichever of the two comes second is refused", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  const insertNew = (id: number): object => ({ statement: { text: `INSERT INTO albums (id, photos) VALUES (${id}, 1) IF NOT EXISTS` } });
  await client.unary("Execute", { transactionId: fixture.id(), ...insertNew(1) });
  const { next } = await opened(client);
  assert.equal(failedOf(await client.call("Query", { ...next(), ...insertNew(1) })).length, 1);
  await client.call("Commit", { ...next(), writes: [write("DELETE", albumKey(1)), write("INSERT_NEW", albumKey(1))] });
  const refused = { transactionId: fixture.id(), ...insertNew(1) };
  const answer = await client.unary("Execute", refused);
  assert.equal(failedOf(answer).length, 1);
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("DELETE", albumKey(1))] });
  assert.deepEqual(await client.unary("Execute", refused), answer, "its id is ended");
  const transactionId = fixture.id();
  const first = await client.unary("Execute", { transactionId, ...insertNew(1) });
  assert.deepEqual(await client.unary("Execute", { transactionId, ...insertNew(1) }), first, "the reply was dropped");
  await fixture.stop();
});

test("[TX4] SELECT and Read: by key, by range and by index a row that one transaction read is not written by another before it ends; without a lock it is", async () => {
  const fixture = await new CoordinatorFixture().start();
  const client = await withPhotos(fixture);
  const select = (text: string, ...binds: object[]): object => ({ statement: { text, binds } });
  const album = { bigintValue: 1n };
  const reads: readonly (readonly [what: string, method: string, request: object, holds: boolean])[] = [
    ["SELECT by key", "Query", select("SELECT * FROM photos WHERE album = ? AND photo = ?", album, { bigintValue: 2n }), true],
    ["SELECT by range", "Query", select("SELECT * FROM photos WHERE album = ?", album), true],
    ["SELECT by index", "Query", select("SELECT * FROM photos WHERE album = ? AND status = ?", album, { textValue: "public" }), true],
    ["Read", "Read", { keys: [photoKey(1, 2)] }, true],
    ["Read without a lock", "Read", { keys: [photoKey(1, 2)], lock: "READ_LOCK_NONE" }, false],
    [
      "SELECT by key without a lock",
      "Query",
      { ...select("SELECT * FROM photos WHERE album = ? AND photo = ?", album, { bigintValue: 2n }), lock: "READ_LOCK_NONE" },
      false,
    ],
  ];
  for (const [what, method, request, holds] of reads) {
    const reader = await opened(client, 1);
    await client.call(method, { ...reader.next(), ...request });
    let isWritten = false;
    const writes = [write("UPDATE", photoKey(1, 2), { status: { textValue: what } })];
    const written = client.unary("Execute", { transactionId: fixture.id(), writes }).then(() => (isWritten = true));
    await settle();
    assert.equal(isWritten, !holds, what);
    await client.call("Rollback", reader.next());
    await written;
    await client.unary("Execute", {
      transactionId: fixture.id(),
      writes: [write("UPDATE", photoKey(1, 2), { status: { textValue: "public" } })],
    });
  }
  await fixture.stop();
});
