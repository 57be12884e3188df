// Openings that take longer than the time between two verdicts, as on a machine with little CPU: units are served all the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startWorld, UNITS, type World } from "./test/history.ts";

const OPENING_MS = 3_000;
const FLAPS = 60;
const FLAP_MS = 1_000;
const LOOK_EVERY_MS = 50;

/** Share of this time for which some member serves the unit. */
async function servedShare(world: World, unit: string, ms: number): Promise<number> {
  let [looks, served] = [0, 0];
  for (; looks * LOOK_EVERY_MS < ms; looks += 1) {
    await world.run(LOOK_EVERY_MS);
    if ([...world.lives.values()].some((life) => life.serving(unit) !== undefined)) served += 1;
  }
  return served / looks;
}

for (const confirms of [true, false]) {
  const form = confirms ? "units that ask the log" : "units that notice by themselves";

  test(`[TX17] [TX14] slow openings (${form}): each member loses its lease for a moment again and again: no unit was ever open; each opens once`, async () => {
    const world = await startWorld({ seed: 1, form: "faults", confirms, openingMs: OPENING_MS });
    for (let flap = 0; flap < FLAPS; flap += 1) {
      await world.run(400);
      for (const life of world.lives.values()) await life.blink(10);
    }
    assert.equal(world.seen.takeovers, UNITS.length);
    for (const unit of UNITS) assert.equal(await servedShare(world, unit, FLAP_MS), 1, unit);
  });

  test(`[TX17] [TX14] slow openings (${form}): the others lose a member for a second again and again: no unit of it was ever open; they leave it more and more time`, async () => {
    const world = await startWorld({ seed: 1, form: "faults", confirms, openingMs: OPENING_MS });
    const [unit] = UNITS;
    const owner = [...world.lives.values()].find(({ owners }) => owners.view.placement.get(unit!)![0] === owners.self)!;
    await world.run(2 * OPENING_MS);
    const shares: number[] = [];
    for (let flap = 0; flap < FLAPS; flap += 1) {
      await owner.fade(FLAP_MS);
      shares.push(await servedShare(world, unit!, FLAP_MS));
    }
    const last = shares.slice(-FLAPS / 2);
    const share = last.reduce((sum, one) => sum + one, 0) / last.length;
    assert.ok(share > 0.3, `served for ${Math.round(100 * share)} % of the time`);
    await world.run(4 * OPENING_MS);
    owner.isDead = true;
    world.fellSilent(owner);
    await world.run(4 * OPENING_MS);
    assert.equal(await servedShare(world, unit!, FLAP_MS), 1, "taken over once it is dead");
  });
}
