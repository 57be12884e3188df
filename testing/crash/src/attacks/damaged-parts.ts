// A disk that flips a bit of one service's files while the node is stopped: the other services serve, and that one too once the bit is put back.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Attack, Target } from "./attack.ts";
import type { Served } from "./bystanders.ts";

/** A byte in the header of a journal. */
const AT = 12;
const LOOK_MS = 100;
const OUT_MS_MAX = 120_000;

interface Kind {
  readonly what: string;
  /** Files below the node's folder, all of which are damaged. */
  readonly files: RegExp;
  /** Services that do not serve meanwhile; the others must. */
  readonly out: readonly Served[];
  /** Text that /readyz must have meanwhile; absent: the node is ready. */
  readonly readyz?: RegExp;
}

const KINDS: readonly Kind[] = [
  {
    what: "the journal of rows",
    files: /^storage\/store\/journal\/[^/]+\.journal$/,
    out: ["storage-proxy", "txn-coordinator"],
    readyz: /storage is out/,
  },
  {
    what: "the journal of rows of objects",
    files: /^objects\/metadata\/journal\/[^/]+\.journal$/,
    out: ["object-gateway"],
    readyz: /objects is out/,
  },
  {
    what: "the journal of marks of ids",
    files: /^messages\/meta\/journal\/[^/]+\.journal$/,
    out: ["dedup-worker"],
    readyz: /messages is out/,
  },
  {
    what: "the output of every partition",
    files: /^messages\/log\/partition-\d+\/output\/[^/]+\.journal$/,
    out: ["dedup-worker"],
    readyz: /partition/,
  },
  { what: "the journal of blobs", files: /^objects\/journal\/[^/]+\.journal$/, out: [] },
];

/** Flips a bit in each of the files; returns what puts them back. */
function damage(folder: string, files: RegExp): { readonly count: number; readonly putBack: () => void } {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => files.test(name))
    .map((name) => join(folder, name));
  const sound = paths.map((path) => ({ path, bytes: readFileSync(path) }));
  for (const { path, bytes } of sound) {
    const damaged = Buffer.from(bytes);
    damaged[AT]! ^= 4;
    writeFileSync(path, damaged);
  }
  return { count: paths.length, putBack: () => sound.forEach(({ path, bytes }) => writeFileSync(path, bytes)) };
}

/** Waits until /readyz says why the node is not ready. */
async function isOut({ adminAddress }: Target, expected: RegExp): Promise<string | undefined> {
  const signal = AbortSignal.timeout(OUT_MS_MAX);
  for (let text = "nothing"; ; await sleep(LOOK_MS)) {
    const response = await fetch(`http://${adminAddress}/readyz`).catch(() => undefined);
    text = response === undefined ? text : `${response.status} ${await response.text()}`;
    if (text.startsWith("503") && expected.test(text)) return undefined;
    if (signal.aborted) return text;
  }
}

async function attackOne(target: Target, { what, files, out, readyz }: Kind): Promise<void> {
  await target.stop();
  const { count, putBack } = damage(target.dataFolder(target.name), files);
  if (count === 0) return target.fail(`${what} has no file: the attack harmed nothing`);
  if (readyz === undefined) {
    await target.start();
    return target.serves(`while ${what} is damaged`);
  }
  target.constellation.process(target.name).spawn();
  const said = await isOut(target, readyz);
  if (said !== undefined) target.fail(`/readyz does not name ${what}, which is damaged: ${said}`);
  target.bystanders.resume();
  await target.serves(`while ${what} is damaged`, out);
  await target.stop();
  putBack();
  await target.start();
  await target.serves(`after ${what} was put back`);
}

async function attack(target: Target): Promise<void> {
  for (const kind of KINDS) await attackOne(target, kind);
  target.note(`a bit flipped in ${KINDS.map(({ what }) => what).join(", ")}: only the services on it were out`);
}

export const damagedParts: Attack = {
  name: "damaged-parts",
  symptom: "7 of 10 kinds of one flipped bit ended all four services at each start",
  isShort: false,
  run: attack,
};
