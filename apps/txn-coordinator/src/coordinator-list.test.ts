// The list of coordinators changes while they run (TX32). What the cluster says of each is the test's word.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DETECTION_LIMITS, MESH_MEMBERS_MAX } from "@concord/failure-detection";
import { changeList, COMMAND_POLL_MS, COORDINATOR_LIST } from "@concord/member-lists";
import { LIST_READ_EVERY_MS } from "@concord/ownership";
import { warmUpGroup } from "./groups/warm-up.ts";
import { UNIT_TIMES } from "./limits.ts";
import { albumKey, CoordinatorFixture, fails, settle, write, type Answer } from "./test/coordinator-fixture.ts";

const TOKEN = "secret-o";
const COORDINATOR_TOKEN = "secret-c";
const FOURTH = { name: "c3", address: "c3:1", datacenter: "d0" };

interface Topology {
  readonly coordinators: readonly { readonly name: string }[];
  readonly groups: readonly { readonly id: string; readonly master: string; readonly epoch: bigint }[];
}

const listed = (): Promise<CoordinatorFixture> => new CoordinatorFixture({ isListed: true }).start(3);

function change(fixture: CoordinatorFixture, at: number, request: object): Promise<Answer> {
  return fixture.connect(at, TOKEN).unary("ChangeList", { kind: COORDINATOR_LIST.wire, ...request }, "MemberListService");
}

async function topology(fixture: CoordinatorFixture, at: number): Promise<Topology> {
  return (await fixture.connect(at).unary("GetTopology", { groupMapVersion: 0n }, "TopologyService")) as unknown as Topology;
}

/** All hear each other, as a majority does. */
function hearAll(fixture: CoordinatorFixture): void {
  for (const [at, membership] of fixture.memberships.entries())
    for (const other of fixture.memberships.keys()) if (other !== at) membership.about(other, "works");
}

async function add(fixture: CoordinatorFixture): Promise<void> {
  hearAll(fixture);
  const first = await change(fixture, 1, { add: FOURTH });
  assert.equal(first["done"], false);
  const service = fixture.compose(FOURTH.name, FOURTH.address, fixture.nodes);
  fixture.coordinators.push(service);
  const starting = service.start();
  await fixture.clock.advance(100);
  fixture.addresses.push((await starting).address);
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  hearAll(fixture);
  await fixture.clock.advance(DETECTION_LIMITS.nextListAfterMs);
  await change(fixture, 2, { add: FOURTH });
  await fixture.clock.advance(LIST_READ_EVERY_MS + 2 * UNIT_TIMES.againMs);
}

test("[TX3, TX32] list: a fourth coordinator is added: it takes its share by asking for it; what was open commits; clients hear of it", async () => {
  const fixture = await listed();
  const [client] = [0, 1, 2].map((at) => fixture.connect(at));
  await client!.createTables();
  const before = await topology(fixture, 0);
  const open: { readonly at: number; readonly id: Uint8Array }[] = [];
  for (let album = 1; album <= 30; album += 1) {
    for (const at of [0, 1, 2]) {
      const id = fixture.id();
      const started = fixture.connect(at).call("Start", { operation: { transactionId: id, number: 1 }, key: albumKey(album) });
      if (
        await started.then(
          () => true,
          () => false,
        )
      )
        open.push({ at, id });
    }
  }
  assert.ok(open.length >= 30);
  const adding = add(fixture);
  const writes = [write("INSERT", albumKey(1), { title: { textValue: "t" } })];
  await settle();
  // They end while their groups are asked for.
  const ended = Promise.all(
    open.map(({ at, id }) => fixture.connect(at).call("Commit", { operation: { transactionId: id, number: 2 }, writes: [] })),
  );
  await Promise.all([adding, ended]);
  const after = await topology(fixture, 3);
  assert.deepEqual(
    after.coordinators.map(({ name }) => name),
    ["c0", "c1", "c2", "c3"],
  );
  assert.deepEqual(await topology(fixture, 0).then(({ coordinators }) => coordinators), after.coordinators);
  const moved = after.groups.filter(({ master }, at) => master !== before.groups[at]!.master);
  assert.deepEqual(
    moved.map(({ master, epoch }) => [master, epoch > 0n]),
    [["c3", true]],
  );
  assert.ok(fixture.coordinators.every(({ ready }) => ready));
  const executed = await Promise.allSettled(
    [0, 1, 2, 3].map((at) => fixture.connect(at).call("Execute", { transactionId: fixture.id(), writes })),
  );
  assert.equal(executed.filter(({ status }) => status === "fulfilled").length, 1);
  await fixture.stop();
});

test("[TX32] list: one that arrives has warmed up before others hear it, as they release groups for it at once", async () => {
  const fixture = await listed();
  await fixture.connect(0).createTables();
  hearAll(fixture);
  await change(fixture, 1, { add: FOURTH });
  const warm = Promise.withResolvers<void>();
  fixture.log.mayRaiseOf = (group) => (group === warmUpGroup(FOURTH.name) ? warm.promise : Promise.resolve());
  const service = fixture.compose(FOURTH.name, FOURTH.address, fixture.nodes);
  fixture.coordinators.push(service);
  const membership = fixture.memberships[3]!;
  let beats = false;
  const begin = membership.start.bind(membership);
  membership.start = async (...args: Parameters<typeof begin>) => {
    beats = true;
    await begin(...args);
  };
  const starting = service.start();
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  assert.equal(beats, false);
  warm.resolve();
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  assert.equal(beats, true);
  await starting;
  await fixture.stop();
});

test("[TX17, TX32] list: a coordinator is removed: its groups go to others by their asking, then it has to end", async () => {
  const fixture = await listed();
  hearAll(fixture);
  const [client] = [0].map((at) => fixture.connect(at));
  await client!.createTables();
  const own = (await topology(fixture, 0)).groups.filter(({ master }) => master === "c0").map(({ id }) => id);
  assert.ok(own.length > 0);
  // The first has the system group too, so the next step is another's.
  assert.equal((await change(fixture, 0, { remove: { name: "c0" } }))["done"], false);
  await fixture.clock.advance(LIST_READ_EVERY_MS + 3 * UNIT_TIMES.againMs);
  const leaving = await topology(fixture, 1);
  assert.ok(leaving.groups.every(({ master }) => master !== "c0"));
  assert.deepEqual(fixture.failures, []);
  for (let step = 0; step < 4 && fixture.failures.length === 0; step += 1) {
    await change(fixture, 1, { remove: { name: "c0" } });
    await fixture.clock.advance(DETECTION_LIMITS.nextListAfterMs);
  }
  assert.match(fixture.failures.join(), /^c0 was removed/);
  assert.equal((await change(fixture, 1, { remove: { name: "c0" } }))["done"], true);
  assert.deepEqual(
    (await topology(fixture, 2)).coordinators.map(({ name }) => name),
    ["c1", "c2"],
  );
  await fixture.stop();
});

test("[TX32] [OPS20] list: what may not be done is refused, and nothing is written", async () => {
  const fixture = await listed();
  hearAll(fixture);
  await fixture.connect(0).createTables();
  const before = await fixture.rows.snapshot();
  assert.equal(MESH_MEMBERS_MAX, 16);
  await fails("PRECONDITION_FAILED", change(fixture, 1, { add: { ...FOURTH, address: "c1:1" } }));
  await fails("PRECONDITION_FAILED", change(fixture, 0, { add: { ...FOURTH, name: "c1" } }));
  await fails("MALFORMED_REQUEST", change(fixture, 0, { add: { ...FOURTH, address: "nowhere" } }));
  await fails("MALFORMED_REQUEST", change(fixture, 0, {}));
  await fails("MALFORMED_REQUEST", change(fixture, 0, { kind: "MEMBER_KIND_WORKER", add: FOURTH }), "a list of workers is meant");
  await fails(
    "PERMISSION_DENIED",
    fixture.connect(0).unary("ChangeList", { kind: COORDINATOR_LIST.wire, remove: { name: "c2" } }, "MemberListService"),
  );
  fixture.memberships[0]!.about(2, "gone");
  await fails("PRECONDITION_FAILED", change(fixture, 0, { add: FOURTH }), "no majority of four would work");
  assert.equal(await fixture.rows.snapshot(), before);
  await fixture.stop();
});

test("[TX32] list: coordinators that are configured for ever: refused, with what to do", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  const refused = await fails("UNIMPLEMENTED", change(fixture, 1, { add: FOURTH }));
  assert.match(refused.message, /restart/);
  await fixture.stop();
});

test("[TX17, TX32] release: by an older list than known here nothing is released, by a newer one the list is read first", async () => {
  const fixture = await listed();
  hearAll(fixture);
  const release = (at: number, request: object): Promise<Answer> =>
    fixture.connect(at, COORDINATOR_TOKEN).unary("Release", request, "CoordinatorService");
  await fixture.connect(0).createTables();
  const group = (await topology(fixture, 1)).groups.find(({ master }) => master === "c1")!.id;
  await change(fixture, 0, { remove: { name: "c2" } });
  await fixture.clock.advance(LIST_READ_EVERY_MS + UNIT_TIMES.againMs);
  assert.equal((await release(1, { name: "c0", group, listVersion: 0 }))["listVersion"], 1);
  assert.equal((await topology(fixture, 1)).groups.find(({ id }) => id === group)!.epoch > 0n, true, "it serves on");
  await fixture.stop();
});

test("[TX32] command: add: says what it waits for, goes on until it is done, and asks another when one does not answer", async () => {
  const fixture = await listed();
  hearAll(fixture);
  await fixture.connect(0).createTables();
  const said: string[] = [];
  const { clock, transport } = fixture;
  const say = (line: string): void => void said.push(line);
  const options = { list: COORDINATOR_LIST, addresses: ["absent:1", "c1:1"], transport, clock, token: TOKEN, timeoutMs: 60_000, say };
  const done = changeList({ kind: "add", ...FOURTH }, options);
  await clock.advance(20 * COMMAND_POLL_MS);
  for (const membership of fixture.memberships) membership.about(3, "works");
  await clock.advance(20 * COMMAND_POLL_MS);
  const { version, members } = await done;
  assert.deepEqual([version, members.at(-1)], [2, { ...FOURTH, state: "LISTED_STATE_MEMBER" }]);
  assert.match(said.join("\n"), /no answer yet[^]*arriving[^]*c3 is in the list, but does not work yet: start it at c3:1/);
  await fixture.stop();
});

test("[TX32] list: two take a step of two changes at the same time: one is written, the other waits for its time", async () => {
  const fixture = await listed();
  hearAll(fixture);
  await fixture.connect(0).createTables();
  const answers = await Promise.all([
    change(fixture, 0, { add: FOURTH }),
    change(fixture, 1, { add: { ...FOURTH, name: "c4", address: "c4:1" } }),
  ]);
  assert.deepEqual(answers[0]["list"], answers[1]["list"], "both answer the version that counts");
  assert.match(answers.map((answer) => String(answer["waitsFor"])).join(" "), /another member changed version 0/);
  await fixture.stop();
});
