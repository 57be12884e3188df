// A disk that flips bits of one part's files while the node is stopped: the other services serve, `concord repair` mends what it can prove, a backup the rest.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Attack, Target } from "./attack.ts";
import type { Served } from "./bystanders.ts";
import { attackBlock } from "./damaged-block.ts";
import { repair } from "./repair.ts";

const LOOK_MS = 100;
const JOURNAL_HEADER_BYTES = 64;
/** One message falls into each of four partitions with one chance of four. */
const ROUNDS_MAX = 100;
const OUT_MS_MAX = 120_000;

interface Harm {
  readonly what: string;
  /** Files below the node's folder, in all of which a bit is flipped. */
  readonly files: RegExp;
  readonly at: (bytes: Buffer) => number;
  /** Records of messages are in it only once some fell into its partition. */
  readonly isJournal?: boolean;
}

interface Case {
  readonly harms: readonly Harm[];
  /** The part that is out, and the services that do not serve meanwhile; the others must. */
  readonly part?: "storage" | "objects" | "messages";
  readonly out: readonly Served[];
  /** Text of /readyz about a partition that is refused beside the part. */
  readonly refused?: RegExp;
  /** Flags of `concord repair`; absent: it can prove nothing, and the files are put back, as from a backup. */
  readonly repair?: readonly string[];
}

const inHeader = (): number => 12;
const inName = (): number => 3;
const inMiddle = (bytes: Buffer): number => bytes.length >> 1;
const FOOTER_BYTES = 48;
const ROWS: readonly Served[] = ["storage-proxy", "txn-coordinator"];

const JOURNAL_OF_ROWS: Harm = { what: "the journal of rows", files: /^storage\/store\/journal\/[^/]+\.journal$/, at: inHeader };
const JOURNAL_OF_OBJECTS: Case = {
  harms: [{ what: "the journal of objects", files: /^objects\/metadata\/journal\/[^/]+\.journal$/, at: inHeader }],
  part: "objects",
  out: ["object-gateway"],
};
/** Partition 0 is refused, the dedup-worker serves the other partitions. */
const OUTPUT_BESIDE_ROWS: Case = {
  harms: [
    JOURNAL_OF_ROWS,
    { what: "the output of partition 0", files: /^messages\/log\/partition-0000\/output\/[^/]+\.journal$/, at: inHeader, isJournal: true },
  ],
  part: "storage",
  refused: /partition 0 /,
  out: ROWS,
};

const MANIFEST_OF_ROWS: Case = {
  harms: [
    { what: "the manifest of rows", files: /^storage\/store\/MANIFEST-\d+$/, at: inMiddle },
    { what: "the journal of blobs", files: /^objects\/journal\/[^/]+\.journal$/, at: inHeader },
  ],
  part: "storage",
  out: ROWS,
  repair: [],
};

/** No key is lost with them: the node serves everything. */
const FILTERS_OF_ROWS: Harm = {
  what: "a way to filters of rows",
  files: /^storage\/store\/\d+\.ldb$/,
  at: (bytes) => bytes.length - FOOTER_BYTES,
};

const CASES: readonly Case[] = [
  MANIFEST_OF_ROWS,
  { harms: [JOURNAL_OF_ROWS], part: "storage", out: ROWS },
  {
    harms: [{ what: "CURRENT of objects", files: /^objects\/metadata\/CURRENT$/, at: inName }],
    part: "objects",
    out: ["object-gateway"],
    repair: [],
  },
  JOURNAL_OF_OBJECTS,
  {
    harms: [{ what: "the checkpoint of meta", files: /^messages\/meta\/checkpoint$/, at: inMiddle }],
    part: "messages",
    out: ["dedup-worker"],
    repair: ["--unproven"],
  },
  {
    harms: [{ what: "the journal of meta", files: /^messages\/meta\/journal\/[^/]+\.journal$/, at: inHeader }],
    part: "messages",
    out: ["dedup-worker"],
  },
  {
    harms: [
      {
        what: "the output of every partition",
        files: /^messages\/log\/partition-\d+\/output\/[^/]+\.journal$/,
        at: inHeader,
        isJournal: true,
      },
    ],
    out: ["dedup-worker"],
  },
];

/** Flips a bit in each of the files; returns what puts them back. Fails the attack when there are none. */
function harm(target: Target, { what, files, at }: Harm): () => void {
  const folder = target.dataFolder(target.name);
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => files.test(name))
    .map((name) => join(folder, name));
  if (paths.length === 0) target.fail(`${what} has no file: the attack harmed nothing`);
  const sound = paths.map((path) => ({ path, bytes: readFileSync(path) }));
  for (const { path, bytes } of sound) {
    const damaged = Buffer.from(bytes);
    damaged[at(damaged)]! ^= 4;
    writeFileSync(path, damaged);
  }
  return () => sound.forEach(({ path, bytes }) => writeFileSync(path, bytes));
}

/** Serves until each of the files holds a record: a journal that has none is made anew, which is no damage. */
async function fill(target: Target, { what, files }: Harm): Promise<void> {
  const folder = target.dataFolder(target.name);
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => files.test(name));
    const hasRecord = (name: string): boolean =>
      readFileSync(join(folder, name))
        .subarray(JOURNAL_HEADER_BYTES)
        .some((byte) => byte !== 0);
    if (names.length > 0 && names.every(hasRecord)) return;
    await target.serves(`before ${what} is damaged`);
  }
  target.fail(`after ${ROUNDS_MAX} messages ${what} holds no record`);
}

async function page({ adminAddress }: Target, path: string): Promise<string> {
  const response = await fetch(`http://${adminAddress}/${path}`, { headers: { connection: "close" } }).catch(() => undefined);
  return response === undefined ? "no answer" : `${response.status} ${await response.text()}`;
}

/** Waits until /readyz says 503 because of what is out; then /parts must name the damaged part and no other. */
async function judgePages(target: Target, what: string, { part, refused = /^/ }: Case): Promise<void> {
  const expected = part === undefined ? /^503 [^]*partition/ : new RegExp(`^503 [^]*${part} is out`);
  const signal = AbortSignal.timeout(OUT_MS_MAX);
  for (;;) {
    const text = await page(target, "readyz");
    if (expected.test(text) && refused.test(text)) break;
    if (signal.aborted) return target.fail(`/readyz does not name ${what}, which is damaged: ${text}`);
    await sleep(LOOK_MS);
  }
  const parts = JSON.parse((await page(target, "parts")).slice("200 ".length)) as Record<string, { readonly damaged?: boolean }>;
  const damaged = Object.keys(parts).filter((name) => parts[name]!.damaged === true);
  if (damaged.join() !== (part ?? "")) target.fail(`/parts reports damage in ${damaged.join()} while ${what} is damaged`);
}

async function attackOne(target: Target, one: Case): Promise<void> {
  const what = one.harms.map((each) => each.what).join(", ");
  for (const each of one.harms) if (each.isJournal === true) await fill(target, each);
  await target.stop();
  const putBack = one.harms.map((each) => harm(target, each));
  target.constellation.process(target.name).spawn();
  await judgePages(target, what, one);
  target.bystanders.resume();
  await target.serves(`while ${what} is damaged`, one.out);
  await target.stop();
  if (one.repair === undefined) for (const put of putBack) put();
  else {
    const { code, text } = await repair(target, one.repair);
    if (code !== 0) target.fail(`concord repair left damage of ${what}: ${text}`);
  }
  await target.start();
  await target.serves(`after ${what} was mended`);
  target.note(`${what}: ${one.out.join(" and ")} out, ${one.repair === undefined ? "put back" : `repair ${one.repair.join(" ")}`}`);
}

async function attackFilters(target: Target): Promise<void> {
  const { what } = FILTERS_OF_ROWS;
  await target.stop();
  harm(target, FILTERS_OF_ROWS);
  await target.start();
  await target.serves(`while ${what} is damaged`);
  target.note(`${what}: nothing out`);
}

const symptom = "7 of 10 kinds of one flipped bit ended all four services at each start, and repair refused";

export const damagedPart: Attack = {
  name: "damaged-part",
  symptom,
  isShort: true,
  async run(target) {
    for (const one of [MANIFEST_OF_ROWS, JOURNAL_OF_OBJECTS, OUTPUT_BESIDE_ROWS]) await attackOne(target, one);
    await attackBlock(target);
  },
};

/** All kinds, two starts each: longer than the short form has. */
export const damagedParts: Attack = {
  name: "damaged-parts",
  symptom,
  isShort: false,
  async run(target) {
    await attackFilters(target);
    for (const one of CASES) await attackOne(target, one);
    await attackBlock(target);
  },
};
