// What a standby does before it is needed: on the log and the rows of all, in a group of its own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { WARM_UP_COMMITS } from "../limits.ts";
import { CoordinatorFixture, settle } from "../test/coordinator-fixture.ts";
import { warmUpGroup } from "./warm-up.ts";

const LIVES = 2;

async function warmedUp(fixture: CoordinatorFixture): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await settle();
  await fixture.clock.advance(200);
}

test("warm-up: of three coordinators one serves all groups: the two others take groups of their own over, twice, and touch no other", async () => {
  const fixture = await new CoordinatorFixture({ masters: "together" }).start(3);
  await warmedUp(fixture);
  for (const name of ["c1", "c2"]) {
    const { promisedEpoch, owner } = await fixture.log.status(warmUpGroup(name));
    assert.equal(promisedEpoch, BigInt(LIVES));
    assert.equal(owner.split("/")[0], name);
    const appends = fixture.log.appends.filter(({ group }) => group === warmUpGroup(name));
    const seqs = appends.filter(({ epoch }) => epoch === 1n).map(({ seq }) => seq);
    // The aborted outcome that was asked for, then the commits.
    assert.deepEqual(
      seqs,
      Array.from({ length: 1 + WARM_UP_COMMITS }, (_, at) => BigInt(at + 1)),
    );
    assert.ok(appends.some(({ epoch }) => epoch === 2n));
  }
  const foreign = fixture.log.appends.filter(({ group, owner }) => !owner.startsWith("c0/") && !group.startsWith("warm-up/"));
  assert.deepEqual(foreign, []);
  await fixture.stop();
});

test("warm-up: a coordinator that serves groups: has done it all, and no warm-up of it is in the log", async () => {
  const fixture = await new CoordinatorFixture().start(3);
  await warmedUp(fixture);
  for (const { name } of fixture.nodes) assert.equal((await fixture.log.status(warmUpGroup(name))).promisedEpoch, 0n);
  await fixture.stop();
});

test("warm-up: the log does not answer: the coordinator is ready all the same, and its stop ends the warm-up", async () => {
  const fixture = new CoordinatorFixture({ masters: "together" });
  const answers = Promise.withResolvers<void>();
  fixture.log.mayRaiseOf = (group) => (group.startsWith("warm-up/") ? answers.promise : Promise.resolve());
  await fixture.start(3);
  await warmedUp(fixture);
  assert.ok(fixture.coordinators.every(({ ready }) => ready));
  await fixture.stop();
  answers.resolve();
  await warmedUp(fixture);
  assert.equal(fixture.log.appends.filter(({ group }) => group.startsWith("warm-up/")).length, 0);
});
