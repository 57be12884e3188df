// The store of a data folder on real files: a bit flips or a block is lost in any of them while the process is down. Either opening refuses, or
// everything that was acknowledged is there and found, or the loss is said; the next opening says the same.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLevel } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDescriptors, nodeDisk, nodeRandom } from "@concord/adapter-node-runtime";
import type { Store } from "@concord/ports";
import { ConcordError, silentLog } from "@concord/runtime";
import { openStore } from "@concord/store";

const ROWS = 4_000;
const LATER_ROWS = 300;
export const FOLDER = "store";
/** Later rows fill several segments. */
const SEGMENT_BYTES = 16 * 1024;
/** What a disk loses at once. */
const BLOCK_BYTES = 4_096;

export async function open(folder: string, failpoint: (name: string) => void = () => undefined): Promise<Store> {
  const disk = nodeDisk(folder);
  const environment = { clock: nodeClock, random: nodeRandom, checksum: nodeChecksum, log: silentLog, failpoint };
  const limits = { journal: { segmentBytes: SEGMENT_BYTES } };
  return openStore({ ...environment, disk, folder: FOLDER, backing: await openLevel(join(folder, FOLDER), nodeDescriptors()), limits });
}

export const keyOf = (n: number): Uint8Array => new TextEncoder().encode(`r:${String(n).padStart(6, "0")}`);
export const valueOf = (n: number): Uint8Array => Uint8Array.from({ length: 80 }, (_, at) => (n * 31 + at * 7) % 256);

/** Rows in tables below a checkpoint, and later ones: in the journal only, as a killed process leaves them, or the journal is trimmed. */
export type Journal = "holds rows" | "trimmed";
export type Harm = "bit flip" | "lost block";

async function makeFolder(root: string, journal: Journal): Promise<string> {
  const [live, killed] = [join(root, `live ${journal}`), join(root, `killed ${journal}`)];
  const first = await open(live);
  for (let n = 0; n < ROWS; n += 500) {
    const operations = Array.from({ length: 500 }, (_, at) => ({ kind: "put" as const, key: keyOf(n + at), value: valueOf(n + at) }));
    await first.batch(operations, { sync: true });
  }
  await first.close();
  const second = await open(live);
  for (let n = ROWS; n < ROWS + LATER_ROWS; n += 1) await second.batch([{ kind: "put", key: keyOf(n), value: valueOf(n) }], { sync: true });
  if (journal === "trimmed") await second.close();
  await cp(live, killed, { recursive: true });
  if (journal !== "trimmed") await second.close();
  return killed;
}

interface Found {
  readonly outcome: "refused" | "open" | "cut";
  readonly missing: number;
}

async function lookAt(folder: string): Promise<Found> {
  let store: Store;
  try {
    store = await open(folder);
  } catch (thrown) {
    assert.ok(thrown instanceof ConcordError && ["CORRUPT_DATA", "STORE_FAILED"].includes(thrown.code), String(thrown));
    return { outcome: "refused", missing: 0 };
  }
  let missing = 0;
  try {
    for (let n = 0; n < ROWS + LATER_ROWS; n += 100) {
      const numbers = Array.from({ length: 100 }, (_, at) => n + at);
      const values = await store.getMany(numbers.map(keyOf));
      for (const [at, value] of values.entries()) if (value === undefined || Buffer.compare(value, valueOf(n + at)) !== 0) missing += 1;
    }
    return { outcome: store.cutTail ? "cut" : "open", missing };
  } finally {
    await store.close();
  }
}

export type Draw = (below: number) => number;

/** The same numbers in each run. */
export function drawing(): Draw {
  let drawn = 12_345;
  return (below) => (drawn = (drawn * 48_271) % 2_147_483_647) % below;
}

export interface Kind {
  readonly kind: string;
  readonly pattern: RegExp;
  /** Harm comes to the last of the files by name only. */
  readonly isNewest?: boolean;
  /** The byte to harm; any when not given. */
  readonly at?: (content: Buffer, draw: Draw) => number;
}

const SEGMENT_HEADER_BYTES = 64;
const TABLE = /\.ldb$/;
const SEGMENT = /^journal\/.*\.journal$/;
const FOOTER_BYTES = 48;
const FILTER_BYTES = 4_000;
const LAST_RECORD_BYTES = 100;

const varint = (bytes: Buffer): number => {
  let [value, at] = [0, 0];
  for (let scale = 1; ; scale *= 128) {
    const byte = bytes[at++]!;
    value += (byte & 127) * scale;
    if (byte < 128) return value;
  }
};

/** Without the zeros that were there before the first record. */
const endOfContent = (content: Buffer): number => content.findLastIndex((byte) => byte !== 0) + 1;

export const KINDS: readonly Kind[] = [
  { kind: "journal segment", pattern: SEGMENT },
  { kind: "journal segment's header", pattern: SEGMENT, at: (_, draw) => draw(SEGMENT_HEADER_BYTES) },
  {
    kind: "journal's newest group",
    pattern: SEGMENT,
    isNewest: true,
    at: (content, draw) => endOfContent(content) - 1 - draw(LAST_RECORD_BYTES),
  },
  { kind: "checkpoint", pattern: /^checkpoint$/ },
  { kind: "file of keys", pattern: /^keys$/ },
  { kind: "table", pattern: TABLE },
  {
    kind: "filter block",
    pattern: TABLE,
    at: (content, draw) => Math.max(0, varint(content.subarray(content.length - FOOTER_BYTES)) - 6 - draw(FILTER_BYTES)),
  },
  { kind: "table's end", pattern: TABLE, at: (content, draw) => Math.max(0, content.length - 1 - draw(400)) },
  { kind: "manifest", pattern: /^MANIFEST/ },
  { kind: "log", pattern: /^\d+\.log$/ },
  { kind: "current", pattern: /^CURRENT$/ },
];

function loseBlock(content: Buffer, place: number): void {
  const from = place - (place % BLOCK_BYTES);
  content.fill(0, from, Math.min(content.length, from + BLOCK_BYTES));
}

/** Harms one place of a file of the kind; undefined: it is empty. */
export function harmFile(content: Buffer, { at }: Kind, harm: Harm, draw: Draw): number | undefined {
  if (content.length === 0) return undefined;
  const place = at?.(content, draw) ?? draw(content.length);
  if (harm === "lost block") loseBlock(content, place);
  else content.writeUInt8(content.readUInt8(place) ^ (1 << draw(8)), place);
  return place;
}

/** What trials of a kind ended in. `unreported`: a row was missing or another one, and nothing said so. */
export interface Tally {
  refused: number;
  cut: number;
  whole: number;
  unreported: number;
}

/** Folders to harm copies of. */
export class DamageTrials {
  readonly #root: string;
  readonly #folders: Readonly<Record<Journal, string>>;

  private constructor(root: string, folders: Readonly<Record<Journal, string>>) {
    this.#root = root;
    this.#folders = folders;
  }

  static async make(): Promise<DamageTrials> {
    const root = await mkdtemp(join(tmpdir(), "concord-damage-"));
    return new DamageTrials(root, { "holds rows": await makeFolder(root, "holds rows"), trimmed: await makeFolder(root, "trimmed") });
  }

  async remove(): Promise<void> {
    await rm(this.#root, { recursive: true });
  }

  async run(harmed: Kind, journal: Journal, harm: Harm, trials: number): Promise<Tally> {
    const { kind, pattern, isNewest = false } = harmed;
    const folder = this.#folders[journal];
    const names = (await readdir(join(folder, FOLDER), { recursive: true })).filter((name) => pattern.test(name)).sort();
    assert.ok(names.length > 0, `there is a ${kind}`);
    const tally: Tally = { refused: 0, cut: 0, whole: 0, unreported: 0 };
    const draw = drawing();
    for (let trial = 0; trial < trials; trial += 1) {
      const copy = join(this.#root, "copy");
      await cp(folder, copy, { recursive: true });
      const path = join(copy, FOLDER, names[isNewest ? names.length - 1 : draw(names.length)]!);
      const content = await readFile(path);
      const place = harmFile(content, harmed, harm, draw);
      await writeFile(path, content);
      const found = await lookAt(copy);
      const next = await lookAt(copy);
      const said = found.outcome === "cut" ? { ...found, outcome: "open" } : found;
      assert.deepEqual(next, said, `${harm} in ${path} at ${place} of ${content.length}: the next opening`);
      await rm(copy, { recursive: true });
      tally[found.outcome === "open" ? (found.missing > 0 ? "unreported" : "whole") : found.outcome] += 1;
    }
    return tally;
  }
}
