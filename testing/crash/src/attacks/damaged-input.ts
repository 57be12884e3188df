// A disk that flips one byte of messages that were processed long ago, in each partition, while the node is stopped.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Attack, Target } from "./attack.ts";

const INPUT = /\/log\/partition-\d+\/input\/\d+\.journal$/;
const HEADER_BYTES = 64;
const ROUNDS = 12;

/** Flips a byte in the middle of each partition's input; returns how many partitions had some. */
function flipInputs(folder: string): number {
  let flipped = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!INPUT.test(`/${name}`)) continue;
    const path = join(folder, name);
    const bytes = readFileSync(path);
    const end = bytes.findLastIndex((byte) => byte !== 0);
    if (end <= HEADER_BYTES) continue;
    bytes[HEADER_BYTES + ((end - HEADER_BYTES) >> 1)]! ^= 4;
    writeFileSync(path, bytes);
    flipped += 1;
  }
  return flipped;
}

async function attack(target: Target): Promise<void> {
  // Messages in several partitions, several records each.
  for (let round = 0; round < ROUNDS; round += 1) await target.serves("before the damage");
  await target.stop();
  const flipped = flipInputs(target.dataFolder(target.name));
  if (flipped === 0) target.fail("no partition had input: the attack harmed nothing");
  for (const when of ["after the damage", "after another restart"]) {
    await target.start();
    await target.serves(when);
    await target.stop();
  }
  await target.start();
  target.note(`one byte of processed input flipped in ${flipped} partitions, three starts`);
}

export const damagedInput: Attack = {
  name: "damaged-input",
  symptom: "the program ended with 1 at each start, all four services with it, and repair refused",
  isShort: true,
  run: attack,
};
