// Commits whose answer was lost: decided in the background, or left to the recovery of their epoch.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { isRecovered, readEpoch } from "../reservation/epoch-row.ts";
import { bytes, codeOf, get, openWorld, put, restart, turns } from "../test/gateway.ts";

const A_DAY_MS = 24 * 3600_000;

test("[OGD2] resolver: an unresolved commit longer than its request: decided in the background, its name is free again", async () => {
  const { world, gateway } = await openWorld();
  world.metadata.nextFates("late");
  let down = false;
  world.metadata.before = (operation) => {
    if (operation === "commit" && !down) down = true;
    else if (down) throw new ConcordError("STORE_FAILED", "the store is away", { applied: "no" });
  };
  assert.equal(await codeOf(put(gateway, "k", bytes("v"))), "OUTCOME_UNKNOWN");
  assert.equal(gateway.resolver.size, 1);
  assert.equal(await gateway.resolver.resolveNow(), 1, "the store is still away");
  world.metadata.before = () => undefined;
  const resolvedTwice = Promise.all([gateway.resolver.resolveNow(), gateway.resolver.resolveNow()]);
  assert.deepEqual(await resolvedTwice, [0, 0], "one attempt for both");
  assert.equal(world.metadata.applyLate(), 0, "the fence holds");
  assert.equal(await get(gateway, "k"), undefined);
  await gateway.collector.runAhead(A_DAY_MS);
  assert.deepEqual(world.data.contents(), []);
  await gateway.journal.stop();
  assert.ok(isRecovered((await readEpoch(world.metadata, gateway.journal.epoch))!.row), "nothing is unresolved");
});

test("[OGD2] resolver: stops with an unresolved commit: its epoch stays for recovery", async () => {
  const { world, gateway } = await openWorld();
  world.metadata.nextFates("applied");
  let down = false;
  world.metadata.before = (operation) => {
    if (operation === "commit" && !down) down = true;
    else if (down) throw new ConcordError("STORE_FAILED", "the store is away", { applied: "no" });
  };
  assert.equal(await codeOf(put(gateway, "k", bytes("v"))), "OUTCOME_UNKNOWN");
  await gateway.resolver.stop();
  world.metadata.before = () => undefined;
  await gateway.journal.stop();
  const { row } = (await readEpoch(world.metadata, gateway.journal.epoch))!;
  assert.deepEqual([row.closed, row.lowWater], [false, 0]);
  const next = await restart(gateway);
  await turns();
  assert.equal((await next.recovery.runOnce()).epochs[0]!.referenced, 1);
  assert.equal(await get(next, "k"), bytes("v"));
});
