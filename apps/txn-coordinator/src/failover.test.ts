// Three coordinators on one log; what the cluster says of each is the test's word. Members and their verdicts themselves: failure-detection.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TopologyService } from "@concord/protos-txn";
import { UNIT_TIMES } from "./limits.ts";
import { albumKey, CoordinatorFixture, fails, settle, write, type Answer, type Client } from "./test/coordinator-fixture.ts";

const ALBUMS = Array.from({ length: 40 }, (_, at) => at + 1);

interface Route {
  readonly id: string;
  readonly master: string;
  readonly epoch: bigint;
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
  const verdicts = fixture.counted.filter((name) => name.startsWith("coordinator_verdicts_total") && name.endsWith("gone"));
  assert.deepEqual(verdicts, ["coordinator_verdicts_total c0 gone", "coordinator_verdicts_total c0 gone"], "at each of the two others");
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
  await fixture.clock.advance(3 * UNIT_TIMES.againMs);
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
  await fixture.clock.advance(UNIT_TIMES.lostServingMs + 10);
  await fails("TRANSACTION_UNKNOWN", clients[0]!.call("Read", { operation: operation(id, 2), keys: [albumKey(album)] }));
  membership!.self("works");
  await fixture.clock.advance(2 * UNIT_TIMES.againMs);
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
  await fixture.clock.advance(UNIT_TIMES.lostServingMs / 2);
  fixture.memberships[0]!.self("works");
  await fixture.clock.advance(UNIT_TIMES.lostServingMs);
  await clients[0]!.call("Commit", { operation: operation(id, 2), writes: [] });
  await fixture.stop();
});

test("[TX17] takeover: the standby is lost for a moment meanwhile: it goes on, and serves without a pause", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const [first] = await standbysOf(clients[0]!, "c0");
  const { promise, resolve } = Promise.withResolvers<void>();
  fixture.log.mayRaise = promise;
  await callGone(fixture, [0]);
  fixture.memberships[first!]!.self("lost");
  await settle();
  fixture.memberships[first!]!.self("works");
  await settle();
  resolve();
  await settle();
  await insert(fixture, clients[first!]!, album);
  await fixture.stop();
});

test("[TX17] takeover: the standby stays lost meanwhile: it ends its takeover, and does not raise against the one that takes over instead", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const [first, second] = await standbysOf(clients[0]!, "c0");
  const { promise, resolve } = Promise.withResolvers<void>();
  fixture.log.mayRaise = promise;
  await callGone(fixture, [0]);
  fixture.memberships[first!]!.self("lost");
  await fixture.clock.advance(UNIT_TIMES.lostOpeningMs + 10);
  fixture.log.mayRaise = Promise.resolve();
  fixture.memberships[second!]!.about(first!, "gone");
  await settle();
  await fixture.clock.advance(50);
  await insert(fixture, clients[second!]!, album);
  // Refused now: no raise above it follows.
  resolve();
  await settle();
  await fixture.clock.advance(50);
  await insert(fixture, clients[second!]!, album);
  await fixture.stop();
});

test("[TX17] stop: a coordinator that drains beats until its groups are done, then is silent", async () => {
  const { fixture } = await clusterOfThree();
  assert.equal(fixture.memberships[0]!.isStopped, false);
  await fixture.coordinators[0]!.stop();
  assert.equal(fixture.memberships[0]!.isStopped, true);
  await fixture.stop();
});

test("[TX3, TX17, TX32] [OPS17] stop: its groups are handed over: what is open is committed, what begins goes to the standby, nothing fails", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const [open, next] = [fixture.id(), fixture.id()];
  await clients[0]!.call("Start", { operation: operation(open, 1), key: albumKey(album) });
  const stopping = fixture.coordinators[0]!.stop();
  await settle();
  await fixture.clock.advance(30);
  await fails("DRAINING", clients[0]!.call("Start", { operation: operation(next, 1), key: albumKey(album) }));
  await clients[0]!.call("Commit", {
    operation: operation(open, 2),
    writes: [write("UPDATE", albumKey(album), { title: { textValue: "late" } })],
  });
  await fixture.clock.advance(30);
  await stopping;
  const tried = await Promise.allSettled([clients[1]!, clients[2]!].map((client) => insert(fixture, client, album)));
  assert.equal(tried.filter(({ status }) => status === "fulfilled").length, 1, "served before any verdict");
  assert.equal(fixture.memberships[0]!.isStopped, true);
  await fixture.stop();
});

test("[TX17] [OPS17] return: the old master asks for its groups: what is open at the standby is committed first", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const stopping = fixture.coordinators[0]!.stop();
  await fixture.clock.advance(100);
  await stopping;
  await callGone(fixture, [0]);
  const [standby] = (
    await Promise.all(
      [1, 2].map((at) =>
        insert(fixture, clients[at]!, album).then(
          () => [at],
          () => [],
        ),
      ),
    )
  ).flat();
  const open = fixture.id();
  await clients[standby!]!.call("Start", { operation: operation(open, 1), key: albumKey(album) });
  fixture.coordinators[0] = fixture.compose("c0", "c0:1", fixture.nodes);
  const starting = fixture.coordinators[0].start();
  await settle();
  for (const at of [1, 2]) fixture.memberships[at]!.about(0, "works");
  await fixture.clock.advance(20);
  await clients[standby!]!.call("Commit", { operation: operation(open, 2), writes: [] });
  await fixture.clock.advance(30);
  await starting;
  await insert(fixture, fixture.connect(0), album);
  await fixture.stop();
});

test("[TX17] stop: those that were to take over are gone before they answer: not waited for", async () => {
  const { fixture } = await clusterOfThree();
  const { promise, resolve } = Promise.withResolvers<void>();
  fixture.log.mayRaise = promise;
  let isStopped = false;
  const stopping = fixture.coordinators[0]!.stop().then(() => (isStopped = true));
  await fixture.clock.advance(50);
  assert.equal(isStopped, false, "its groups are taken over");
  for (const at of [1, 2]) fixture.memberships[0]!.about(at, "gone");
  await fixture.clock.advance(50);
  assert.equal(isStopped, true);
  resolve();
  await stopping;
  await fixture.stop();
});

test("[TX17] stop of all: no coordinator is left to take over: each drains and stops without waiting", async () => {
  const { fixture } = await clusterOfThree();
  const stopping = fixture.stop();
  await fixture.clock.advance(200);
  await stopping;
  assert.ok(fixture.memberships.every(({ isStopped }) => isStopped));
});

test("[TX17] hand-over: a transaction that stays open is aborted after drainMs", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const open = fixture.id();
  await clients[0]!.call("Start", { operation: operation(open, 1), key: albumKey(album) });
  const stopping = fixture.coordinators[0]!.stop();
  await fixture.clock.advance(UNIT_TIMES.drainMs / 2);
  await clients[0]!.call("Read", { operation: operation(open, 2), keys: [albumKey(album)] });
  await fixture.clock.advance(UNIT_TIMES.drainMs);
  await stopping;
  const resolved = await Promise.allSettled(
    [1, 2].map((at) => clients[at]!.call("ResolveOutcome", { transactionId: open, key: albumKey(album) })),
  );
  const [outcome] = resolved.flatMap((one) => (one.status === "fulfilled" ? [one.value["outcome"]] : []));
  assert.equal(outcome, "aborted");
  await fixture.stop();
});

const start = (id: Uint8Array, album: number, queueMs = 0): object => ({ operation: operation(id, 1), key: albumKey(album), queueMs });

/** The standbys in the order in which they take the album's group over. */
async function standbysOf(client: Client, master: string): Promise<number[]> {
  const topology = await client.unary("GetTopology", { groupMapVersion: 0n }, "TopologyService");
  const groups = topology["groups"] as unknown as { master: string; standbys: string[] }[];
  return groups.find((group) => group.master === master)!.standbys.map((name) => Number(name.slice(1)));
}

test("[TX18, TX19, TXD8] queued start: a standby waits, takes over, answers, and locks nothing before the client's next word", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const [first] = await standbysOf(clients[0]!, "c0");
  const standby = clients[first!]!;
  const [asked, abandoned] = [fixture.id(), fixture.id()];
  const waits = [asked, abandoned].map((id) => standby.call("Start", start(id, album, 2_000)));
  await fixture.clock.advance(20);
  await fixture.coordinators[0]!.stop();
  await callGone(fixture, [0]);
  for (const answer of await Promise.all(waits)) assert.deepEqual([answer["queued"], answer["row"]], [true, null]);
  // Nothing of either is open: another transaction locks the row at once, then the asked one opens under its id.
  const other = fixture.id();
  await standby.call("Start", start(other, album));
  await standby.call("Rollback", { operation: operation(other, 2) });
  const opened = await standby.call("Start", start(asked, album));
  assert.deepEqual([opened["queued"], opened["row"] === null], [false, false]);
  await standby.call("Commit", { operation: operation(asked, 2), writes: [] });
  await fixture.stop();
});

test("[TX19, TXD8] queued start: withdrawn, or the time is over, or the master is asked: no transaction is left anywhere", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const [withdrawn, late, asked] = [fixture.id(), fixture.id(), fixture.id()];
  const first = fails("TRANSACTION_ABORTED", clients[1]!.call("Start", start(withdrawn, album, 2_000)));
  const second = fails("NOT_MASTER", clients[1]!.call("Start", start(late, album, 50)));
  await settle();
  await clients[1]!.call("Rollback", { operation: operation(withdrawn, 2) });
  await first;
  await fixture.clock.advance(60);
  assert.equal((await second).metadata["master"], "c0");
  const master = await clients[0]!.call("Start", start(asked, album, 2_000));
  assert.equal(master["queued"], true, "the master itself locks nothing for it either");
  await fails("TRANSACTION_UNKNOWN", clients[0]!.call("Read", { operation: operation(asked, 2), keys: [albumKey(album)] }));
  await fixture.stop();
});

test("[TXD13] watch: masters and epochs at once, and again when a standby has taken over, until the client ends it", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  const [first] = await standbysOf(clients[0]!, "c0");
  const seen: Route[][] = [];
  const stream = clients[first!]!.channel.stream(TopologyService.methods.WatchTopology, {});
  let ended = 0;
  stream.onMessage((message) => void seen.push((message as { topology: { groups: Route[] } }).topology.groups));
  stream.onEnd(() => void (ended += 1));
  stream.send({});
  await settle();
  assert.equal(seen.length, 1);
  const own = `c${first}`;
  for (const { master, epoch } of seen[0]!) assert.equal(epoch > 0n, master === own, "an epoch is said by the master alone");
  await fixture.coordinators[0]!.stop();
  await callGone(fixture, [0]);
  await insert(fixture, clients[first!]!, album);
  const last = seen.at(-1)!;
  assert.ok(last.every(({ master }) => master !== "c0"));
  assert.ok(
    last.filter(({ master, epoch }) => master === own && epoch > 0n).length > seen[0]!.filter(({ master }) => master === own).length,
  );
  assert.ok(seen.length <= 8, "groups that move together come together");
  stream.end();
  await settle();
  assert.equal(ended, 1);
  await fixture.stop();
});

test("[TX14] lost and heard again, a standby took over meanwhile: opens nothing before the log said whether its epoch holds", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  fixture.memberships[0]!.self("lost");
  await callGone(fixture, [0]);
  for (const at of [1, 2]) fixture.memberships[at]!.about(0, "works");
  fixture.memberships[0]!.self("works");
  await fails("STARTING", insert(fixture, clients[0]!, album));
  await fixture.clock.advance(3 * UNIT_TIMES.againMs);
  await insert(fixture, clients[0]!, album);
  await fixture.stop();
});

test("[TX14] lost for a moment, the log takes 800 ms to say whose a group is: the coordinator serves again when it said so", async () => {
  const { fixture, clients } = await clusterOfThree();
  const album = await albumOf(fixture, clients[0]!);
  fixture.log.slowVerify = { clock: fixture.clock, takesMs: 800 };
  fixture.memberships[0]!.self("lost");
  await settle();
  fixture.memberships[0]!.self("works");
  await fails("STARTING", insert(fixture, clients[0]!, album));
  await fixture.clock.advance(5_000);
  await insert(fixture, clients[0]!, album);
  await fixture.stop();
});
