// Rows of two entities in one transaction: their groups decide, by the map, and neither the ids nor how near they are to each other.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RowKey } from "@concord/ports";
import { groupIdOf, readGroupMap } from "@concord/schema";
import type { ConcordError } from "@concord/runtime";
import { albumKey, bigint, type Client, CoordinatorFixture, photoKey, settle, write } from "./test/coordinator-fixture.ts";

const PAIRS = 40;
const TIMEOUT_MS = 1000;

/** Writes a row of either entity in one transaction; rejects when it is refused. */
type Attempt = (client: Client, first: object, second: object) => Promise<unknown>;

const ATTEMPTS: Readonly<Record<string, Attempt>> = {
  "Commit with both writes": async (client, first, second) => {
    const transactionId = client.fixture.id();
    await client.call("Start", { operation: { transactionId, number: 1 }, key: first });
    await client.call("Commit", { operation: { transactionId, number: 2 }, writes: [write("INSERT", first), write("INSERT", second)] });
  },
  "Write, then Commit": async (client, first, second) => {
    const transactionId = client.fixture.id();
    await client.call("Start", { operation: { transactionId, number: 1 }, key: first });
    await client.call("Write", { operation: { transactionId, number: 2 }, writes: [write("INSERT", first)] });
    await client.call("Write", { operation: { transactionId, number: 3 }, writes: [write("INSERT", second)] });
    await client.call("Commit", { operation: { transactionId, number: 4 }, writes: [] });
  },
  Execute: (client, first, second) =>
    client.call("Execute", { transactionId: client.fixture.id(), writes: [write("INSERT", first), write("INSERT", second)] }),
};

const rowOf = (table: string, ...[id, ...clustering]: readonly [number, ...number[]]): RowKey => ({
  table,
  partition: [bigint(id)],
  clustering: clustering.map(bigint),
});

for (const [how, attempt] of Object.entries(ATTEMPTS)) {
  test(`[TX2] rows of neighbouring albums in one transaction (${how}): both are written where the map has one group for them, else GROUP_MISMATCH names both and nothing is`, async () => {
    const fixture = await new CoordinatorFixture().start();
    const client = fixture.connect();
    await client.createTables();
    await settle();
    const map = (await readGroupMap(fixture.rows, TIMEOUT_MS))!;
    const outcomes = { written: 0, refused: 0 };
    for (let album = 1; album <= PAIRS; album += 1) {
      const isShared = groupIdOf(map, rowOf("albums", album)) === groupIdOf(map, rowOf("photos", album + 1, 7));
      const before = await fixture.rows.snapshot();
      const appends = fixture.log.appends.length;
      const error = await attempt(client, albumKey(album), photoKey(album + 1, 7)).then(
        () => undefined,
        (thrown: ConcordError) => thrown,
      );
      await settle();
      const pair = `album ${album} and a photo of album ${album + 1}, ${isShared ? "one group" : "two groups"}`;
      const images = await fixture.rows.read([rowOf("albums", album), rowOf("photos", album + 1, 7)]);
      if (isShared) {
        assert.equal(error, undefined, pair);
        assert.ok(images[0] !== undefined && images[1] !== undefined, `${pair}: both are stored`);
        outcomes.written += 1;
        continue;
      }
      assert.equal(error?.code, "GROUP_MISMATCH", pair);
      assert.deepEqual([error.applied, error.metadata["table"], error.metadata["entityTable"]], ["no", "photos", "albums"], pair);
      for (const name of [error.metadata["key"]!, error.metadata["entity"]!]) assert.ok(error.message.includes(name), error.message);
      assert.match(error.metadata["key"]!, new RegExp(`photos.*\\b${album + 1}\\b`), pair);
      assert.match(error.metadata["entity"]!, new RegExp(`albums.*\\b${album}\\b`), pair);
      assert.match(error.message, /an outbox/);
      assert.equal(await fixture.rows.snapshot(), before, `${pair}: the store is as before`);
      assert.equal(fixture.log.appends.length, appends, `${pair}: nothing is logged`);
      outcomes.refused += 1;
    }
    assert.ok(outcomes.written >= 3 && outcomes.refused >= 3, `both outcomes were met: ${JSON.stringify(outcomes)}`);
    await fixture.stop();
  });
}
