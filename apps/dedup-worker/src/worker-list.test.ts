// The list of workers changes while they run (TX32). What the cluster says of each is the test's word; partitions are scripted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DETECTION_LIMITS } from "@concord/failure-detection";
import { changeList, COMMAND_POLL_MS, WORKER_LIST } from "@concord/member-lists";
import { LIST_READ_EVERY_MS } from "@concord/ownership";
import { MemoryDisk, MemoryMessageLog, ScriptedListedMembership, ScriptedMembership } from "@concord/port-contracts";
import { MemberListService, type ChangeListRequestInit, type ChangeListResponse } from "@concord/protos-cluster";
import { bearer, MemoryTransport } from "@concord/rpc";
import { composeDedupWorker, dedupWorkerSchema, type DedupWorkerService } from "./index.ts";
import { RELEASE_WAIT_MS } from "./limits.ts";
import { ScriptedWorker } from "./test/scripted-worker.ts";
import { fails, Folder, ManualClock, WorkerFixture } from "./test/worker-fixture.ts";

const PARTITIONS = 6;
const TOKEN = "of-the-workers";
const worker = (name: string): { name: string; address: string; datacenter: string } => ({ name, address: `${name}:1`, datacenter: name });
const FOUNDERS = ["a", "b", "c"].map(worker);
const FOURTH = worker("d");

interface Running {
  readonly service: DedupWorkerService;
  readonly membership: ScriptedListedMembership;
  readonly started: Promise<unknown>;
  /** Of each partition the tenures here. */
  readonly tenures: ScriptedWorker[];
}

/** Workers over one log folder, one network and one clock. */
class Fixture {
  readonly clock = new ManualClock();
  readonly transport = new MemoryTransport({ clock: this.clock });
  readonly logDisk = new MemoryDisk();
  readonly messages = new MemoryMessageLog(PARTITIONS);
  readonly running = new Map<string, Running>();
  readonly failures: string[] = [];
  readonly #environment = new WorkerFixture().environment();

  async start(...names: readonly string[]): Promise<this> {
    for (const name of names) this.#compose(name);
    await this.clock.advance(100);
    return this;
  }

  async startAll(): Promise<this> {
    await this.start("a", "b", "c");
    await this.hear();
    return this;
  }

  /** All hear each other, as a majority does, but those that are away. */
  async hear(...away: readonly string[]): Promise<void> {
    for (const [name, { membership }] of this.running) {
      const members = membership.readings.at(-1)?.members ?? [];
      for (const [place, member] of members.entries())
        if (member !== undefined && member.name !== name && this.running.has(member.name))
          membership.about(place, away.includes(member.name) ? "gone" : "works");
    }
    await this.clock.advance(RELEASE_WAIT_MS);
  }

  call(at: string, request: ChangeListRequestInit, token = TOKEN): Promise<ChangeListResponse> {
    const channel = this.transport.connect(`${at}:1`);
    const options = { timeoutMs: 60_000, metadata: bearer(token) };
    return channel.unary(
      MemberListService.methods.ChangeList,
      { kind: WORKER_LIST.wire, ...request },
      options,
    ) as Promise<ChangeListResponse>;
  }

  /** A call, and the time until another version may be written and all have read this one. */
  async step(at: string, request: ChangeListRequestInit): Promise<ChangeListResponse> {
    const answer = await this.call(at, request);
    await this.clock.advance(LIST_READ_EVERY_MS);
    await this.hear();
    await this.clock.advance(DETECTION_LIMITS.nextListAfterMs);
    return answer;
  }

  /** Names of the workers that have a partition open, by partition. */
  get owners(): readonly (readonly string[])[] {
    return Array.from({ length: PARTITIONS }, (_, partition) =>
      [...this.running].flatMap(([name, { tenures }]) =>
        tenures.some((tenure) => tenure.partition === partition && tenure.stops === 0) ? [name] : [],
      ),
    );
  }

  async stop(): Promise<void> {
    const stopped = Promise.all([...this.running.values()].map(({ service }) => service.stop()));
    await this.clock.advance(20_000);
    await stopped;
  }

  #compose(nodeName: string): void {
    const { clock, transport, logDisk, messages } = this;
    const config = dedupWorkerSchema.parse({
      nodeName,
      listenAddress: `${nodeName}:1`,
      partitions: PARTITIONS,
      workers: FOUNDERS,
      logFolder: "logs",
      workerToken: TOKEN,
      drainGraceMs: 1_000,
    });
    const membership = new ScriptedListedMembership();
    const tenures: ScriptedWorker[] = [];
    const folder = new Folder(PARTITIONS);
    const service = composeDedupWorker(config, {
      environment: { ...this.#environment, clock, transport },
      disk: folder.disk,
      logDisk,
      membership,
      openKeyValue: (name) => folder.open(name),
      openMessages: async () => messages,
      openWorker: ({ partition }, { log }) => {
        const tenure = new ScriptedWorker(partition, log);
        tenures.push(tenure);
        return tenure;
      },
      onFailed: ({ message }) => void this.failures.push(message),
    });
    const started = service.start().catch(() => undefined);
    this.running.set(nodeName, { service, membership, started, tenures });
  }
}

const loads = (owners: readonly (readonly string[])[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const [owner] of owners) counts[owner ?? "none"] = (counts[owner ?? "none"] ?? 0) + 1;
  return counts;
};

test("[TX3, TX32] workers: a fourth is added while they run: it takes its share by asking for it, the rest stays where it was", async () => {
  const fixture = await new Fixture().startAll();
  assert.deepEqual(loads(fixture.owners), { a: 2, b: 2, c: 2 });
  const before = fixture.owners;
  assert.equal((await fixture.call("b", { add: FOURTH })).done, false);
  await fixture.start("d");
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  await fixture.hear();
  assert.deepEqual(fixture.owners, before, "one that arrives is assigned nothing");
  const early = await fixture.call("c", { add: FOURTH });
  assert.match(early.waitsFor, /too new for another/);
  await fixture.clock.advance(DETECTION_LIMITS.nextListAfterMs);
  await fixture.step("a", { add: FOURTH });
  const { done, list } = await fixture.call("d", { add: FOURTH });
  assert.deepEqual([done, list!.version, list!.members.at(-1)], [true, 2, { ...FOURTH, state: "LISTED_STATE_MEMBER" }]);
  assert.deepEqual(loads(fixture.owners), { a: 2, b: 2, c: 1, d: 1 });
  assert.equal(fixture.owners.filter((owners, at) => owners.join() !== before[at]!.join()).length, 1);
  await fixture.stop();
});

test("[TX17, TX32] workers: one is removed: its partitions go to the others by their asking, then it has to end; asked at itself, too", async () => {
  const fixture = await new Fixture().startAll();
  await fixture.step("a", { remove: { name: "a" } });
  assert.deepEqual(loads(fixture.owners), { b: 3, c: 3 });
  assert.deepEqual(fixture.failures, []);
  await fixture.step("a", { remove: { name: "a" } });
  assert.match(fixture.failures[0]!, /^a was removed from the list of workers/);
  const { done, list } = await fixture.call("c", { remove: { name: "a" } });
  assert.deepEqual([done, list!.members.map(({ name }) => name)], [true, ["b", "c"]]);
  await fixture.stop();
});

test("[TX32] workers: one that is gone is removed: nothing hears it and it does not answer", async () => {
  const fixture = await new Fixture().startAll();
  const dead = fixture.running.get("c")!;
  const stopped = dead.service.stop();
  await fixture.clock.advance(20_000);
  await stopped;
  await fixture.hear("c");
  for (let step = 0; step < 2; step += 1) {
    await fixture.call("b", { remove: { name: "c" } });
    await fixture.clock.advance(LIST_READ_EVERY_MS);
    await fixture.hear("c");
    await fixture.clock.advance(DETECTION_LIMITS.nextListAfterMs);
  }
  fixture.running.delete("c");
  assert.equal((await fixture.call("b", { remove: { name: "c" } })).done, true);
  assert.deepEqual(loads(fixture.owners), { a: 3, b: 3 });
  await fixture.stop();
});

test("[TX32] workers: one that still has a partition, if only on its way out, is not taken out of the list", async () => {
  const fixture = await new Fixture().startAll();
  const [tenure] = fixture.running.get("a")!.tenures;
  const left = Promise.withResolvers<void>();
  tenure!.stop = () => left.promise;
  await fixture.step("b", { remove: { name: "a" } });
  for (const at of ["a", "b"])
    assert.match((await fixture.call(at, { remove: { name: "a" } })).waitsFor, /a still hands over what it serves/);
  left.resolve();
  await fixture.clock.advance(RELEASE_WAIT_MS);
  await fixture.step("b", { remove: { name: "a" } });
  assert.equal((await fixture.call("b", { remove: { name: "a" } })).done, true);
  await fixture.stop();
});

test("[TX32] workers: what may not be done is refused, and nothing is written", async () => {
  const fixture = await new Fixture().startAll();
  const before = await fixture.logDisk.list("workers");
  await fails("PRECONDITION_FAILED", fixture.call("a", { add: { ...FOURTH, address: "b:1" } }));
  await fails("PRECONDITION_FAILED", fixture.call("a", { add: { ...FOURTH, name: "b" } }));
  await fails("MALFORMED_REQUEST", fixture.call("a", { add: { ...FOURTH, address: "nowhere" } }));
  await fails("MALFORMED_REQUEST", fixture.call("a", { add: FOURTH, kind: "MEMBER_KIND_COORDINATOR" }), "a list of coordinators is meant");
  await fails("MALFORMED_REQUEST", fixture.call("a", {}));
  await fails("UNAUTHENTICATED", fixture.call("a", { add: FOURTH }, "another"));
  await fixture.hear("c");
  await fails("PRECONDITION_FAILED", fixture.call("a", { add: FOURTH }), "no majority of four would work");
  assert.deepEqual(await fixture.logDisk.list("workers"), before);
  await fixture.stop();
});

test("[TX32] workers: two take a step of two changes at the same time: one is written, the other waits for its time", async () => {
  const fixture = await new Fixture().startAll();
  const answers = await Promise.all([fixture.call("a", { add: FOURTH }), fixture.call("b", { add: worker("e") })]);
  assert.deepEqual(
    answers.map(({ list }) => list!.members.map(({ name }) => name).join("")).sort(),
    [answers[0]!.list!.members.map(({ name }) => name).join(""), answers[0]!.list!.members.map(({ name }) => name).join("")],
    "both answer the version that counts",
  );
  assert.match(answers.map(({ waitsFor }) => waitsFor).join(" "), /another member changed version 0|version 1 of the list is too new/);
  await fixture.stop();
});

test("[TX32] command: adds a worker, saying what it waits for; one that does not answer is passed over", async () => {
  const fixture = await new Fixture().startAll();
  const { clock, transport } = fixture;
  const said: string[] = [];
  const say = (line: string): void => void said.push(line);
  const options = { list: WORKER_LIST, addresses: ["absent:1", "b:1"], transport, clock, token: TOKEN, timeoutMs: 60_000, say };
  const done = changeList({ kind: "add", ...FOURTH }, options);
  await clock.advance(20 * COMMAND_POLL_MS);
  for (const { membership } of fixture.running.values()) membership.about(3, "works");
  await clock.advance(20 * COMMAND_POLL_MS);
  assert.deepEqual((await done).members.at(-1), { ...FOURTH, state: "LISTED_STATE_MEMBER" });
  assert.match(said.join("\n"), /no answer yet[^]*arriving[^]*d is in the list, but does not work yet: start it at d:1/);
  await fixture.stop();
});

test("[TX32] workers: configured for ever, as in a process with other parts: refused, with what to do", async () => {
  const config = { nodeName: "a", workers: FOUNDERS, logFolder: "logs", workerToken: TOKEN, listenAddress: "a:1" };
  const host = { membership: new ScriptedMembership(), logDisk: new MemoryDisk() };
  const fixture = await new WorkerFixture({ config, host }).start();
  const { channel } = fixture.connect();
  const request = { kind: WORKER_LIST.wire, add: FOURTH } as const;
  const call = channel.unary(MemberListService.methods.ChangeList, request, { timeoutMs: 1_000, metadata: bearer(TOKEN) });
  assert.match((await fails("UNIMPLEMENTED", call)).message, /restart/);
  await fixture.service.stop();
});
