// Three coordinators on one log; what the cluster says of each is the test's word. Members and their verdicts themselves: failure-detection.
import assert from "node:assert/strict";
import { test } from "node:test";
import { STAND_DOWN_MS, TAKE_OVER_AGAIN_MS } from "./limits.ts";
import { albumKey, CoordinatorFixture, fails, settle, write, type Answer, type Client } from "./test/coordinator-fixture.ts";

const ALBUMS = Array.from({ length: 40 }, (_, at) => at + 1);

interface Route {
  readonly id: string;
  readonly master: string;
}

async function routes(client: Client): Promise<readonly Route[]> {
  const topology = await client.unary("GetTopology", { groupMapVersion: 0n }, "TopologyService");
  return topology["groups"] as unknown as Route[];
}

async function clusterOfThree(): Promise<{ fixture: CoordinatorFixture; clients: Client[] }> {
  const fixture = await new CoordinatorFixture().start(3);
  const clients = [0, 1, 2].map((at) => fixture.connect(at));
  await clients[0]!.createTables();
  return { fixture, clients };
}

const operation = (id: Uint8Array, number: number): object => ({ transactionId: id, number });

function insert(fixture: CoordinatorFixture, client: Client, album: number): Promise<Answer> {
  const writes = [write("INSERT", albumKey(album), { title: { textValue: "t" } })];
  return client.call("Execute", { transactionId: fixture.id(), writes });
}

/** An album whose group the coordinator serves. */
async function albumOf(fixture: CoordinatorFixture, client: Client, not: readonly number[] = []): Promise<number> {
  for (const album of ALBUMS.filter((one) => !not.includes(one))) {
    const served = await insert(fixture, client, album).then(
      () => true,
      (thrown: unknown) => {
        assert.equal((thrown as { code?: string }).code, "NOT_MASTER");
        return false;
      },
    );
    if (served) return album;
  }
  assert.fail("no album of this coordinator");
}

async function callGone(fixture: CoordinatorFixture, gone: readonly number[]): Promise<void> {
  for (const [at, membership] of fixture.memberships.entries()) {
    for (const one of gone) if (one !== at) membership.about(one, "gone");
  }
  await settle();
  await fixture.clock.advance(50);
}

test("[TX16, TX17] failover: the master is gone: the first standby takes each of its groups over; then the second", async () => {
  const { fixture, clients } = await clusterOfThree();
  const before = await routes(clients[1]!);
  const album = await albumOf(fixture, clients[0]!);
  await fixture.coordinators[0]!.stop();
  await callGone(fixture, [0]);
  const after = await routes(clients[1]!);
  assert.deepEqual(
    after.map(({ master }) => master === "c0"),
    after.map(() => false),
  );
  for (const [at, { master }] of before.entries()) if (master !== "c0") assert.equal(after[at]!.master, master, "others do not move");
  const tried = await Promise.allSettled([clients[1]!, clients[2]!].map((client) => insert(fixture, client, album)));
  assert.equal(tried.filter(({ status }) => status === "fulfilled").length, 1, "one of the standbys serves it");
  const second = tried[0]!.status === "fulfilled" ? 1 : 2;
  await fixture.coordinators[second]!.stop();
  await callGone(fixture, [0, second]);
  await insert(fixture, clients[3 - second]!, album);
  await clients[3 - second]!.createTables(["CREATE TABLE more (id bigint PRIMARY KEY)"]);
  await fixture.stop();
});

test("[TX17] failover: one observer's word is none: a standby whose master works refuses and names it", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const refused = await fails("NOT_MASTER", insert(fixture, clients[1]!, album));
  assert.equal(refused.metadata["master"], "c0");
  await fixture.stop();
});

test("[TX17] return: the master works again: it takes its groups back, the standby is fenced and a standby again", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  // Paused: the others say that it is gone, it does not know.
  for (const at of [1, 2]) fixture.memberships[at]!.about(0, "gone");
  await settle();
  await fixture.clock.advance(50);
  const taken = await Promise.allSettled([clients[1]!, clients[2]!].map((client) => insert(fixture, client, album)));
  const standby = taken[0]!.status === "fulfilled" ? 1 : 2;
  // It wakes: its commit is refused by the log, and it serves no longer.
  await fails("OUTCOME_UNKNOWN", insert(fixture, clients[0]!, album));
  for (const at of [1, 2]) fixture.memberships[at]!.about(0, "works");
  await fixture.clock.advance(3 * TAKE_OVER_AGAIN_MS);
  await insert(fixture, clients[0]!, album);
  const refused = await fails("NOT_MASTER", insert(fixture, clients[standby]!, album));
  assert.equal(refused.metadata["master"], "c0");
  assert.ok(fixture.coordinators.every(({ ready }) => ready));
  await fixture.stop();
});

test("[TX14] lost: this coordinator is cut off: nothing new begins, what is open is aborted later, and it is back when it is heard", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const id = fixture.id();
  await clients[0]!.call("Start", { operation: operation(id, 1), key: albumKey(album) });
  const [membership] = fixture.memberships;
  membership!.endLease();
  await fails("STARTING", insert(fixture, clients[0]!, album));
  membership!.self("lost");
  await fails("NOT_MASTER", insert(fixture, clients[0]!, album));
  assert.equal(fixture.coordinators[0]!.ready, false);
  await fixture.clock.advance(STAND_DOWN_MS + 10);
  await fails("TRANSACTION_UNKNOWN", clients[0]!.call("Read", { operation: operation(id, 2), keys: [albumKey(album)] }));
  membership!.self("works");
  await fixture.clock.advance(2 * TAKE_OVER_AGAIN_MS);
  await insert(fixture, clients[0]!, album);
  assert.equal(fixture.coordinators[0]!.ready, true);
  await fixture.stop();
});

test("[TX14] lost for a moment: no standby took over: open transactions go on", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const id = fixture.id();
  await clients[0]!.call("Start", { operation: operation(id, 1), key: albumKey(album) });
  fixture.memberships[0]!.self("lost");
  await fixture.clock.advance(STAND_DOWN_MS / 2);
  fixture.memberships[0]!.self("works");
  await fixture.clock.advance(STAND_DOWN_MS);
  await clients[0]!.call("Commit", { operation: operation(id, 2), writes: [] });
  await fixture.stop();
});

test("[TX17] stop: a coordinator that drains beats until its groups are done, then is silent", async () => {
  const { fixture } = await clusterOfThree();
  assert.equal(fixture.memberships[0]!.isStopped, false);
  await fixture.coordinators[0]!.stop();
  assert.equal(fixture.memberships[0]!.isStopped, true);
  await fixture.stop();
});
