// Each kind of damage of a stopped node, mended or isolated: what is lost is printed, nothing is deleted, and all four services serve afterwards.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";
import { openLevel, remakeLevel } from "@concord/adapter-level";
import { nodeDescriptors } from "@concord/adapter-node-runtime";
import type { KeyValueEntry } from "@concord/ports";
import { startConcord } from "../index.ts";
import { KILLED_CONFIG, makeKilledNode } from "../test/killed-node.ts";
import { fsckCommand, type FsckExit } from "./fsck.ts";
import { contentOf } from "./mend-store.ts";
import { repairCommand } from "./repair.ts";

let root: string;
let data: string;
/** Stopped in order, with messages of a record each. */
let stopped: string;

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-accept-loss-"));
  data = await makeKilledNode(root);
  stopped = join(root, "stopped");
  await cp(data, stopped, { recursive: true });
  await using concord = await startConcord({ dataFolder: stopped, config: KILLED_CONFIG });
  const db = await connect({ coordinators: [concord.address], dedupWorker: concord.address });
  for (let n = 0; n < 12; n += 1) await db.messages.ingest([{ id: `alone${n}`, value: "xxxxxxxx" }]);
  db.close();
  const s3 = new S3Client({ ...concord.s3, forcePathStyle: true });
  for (let n = 0; n < 40; n += 1) await s3.send(new PutObjectCommand({ Bucket: "photos", Key: `album/${n}`, Body: "xxxxxxxx".repeat(20) }));
  s3.destroy();
});

after(() => rm(root, { recursive: true, force: true }));

async function run(
  command: (args: readonly string[], print: (line: string) => void) => Promise<FsckExit>,
  ...args: readonly string[]
): Promise<{ readonly code: FsckExit; readonly said: string }> {
  const lines: string[] = [];
  const code = await command(args, (line) => lines.push(line));
  return { code, said: lines.join("\n") };
}

const middle = (bytes: Buffer): number => bytes.findLastIndex((byte) => byte !== 0) >> 1;
const value = (bytes: Buffer): number => bytes.indexOf("xxxx") + 1;

interface Kind {
  readonly kind: string;
  readonly file: RegExp;
  readonly at: (bytes: Buffer) => number;
  readonly said: RegExp;
  readonly isStopped?: boolean;
  /** Changes the folder before its damage. */
  readonly prepare?: (folder: string) => Promise<void>;
}

/** Makes one table of the store, as a compaction of everything does, or the first checkpoint of all: its first block has the headers of group logs and the first entries. */
async function intoOneTable(folder: string): Promise<void> {
  const store = join(folder, "storage/store");
  const entries: KeyValueEntry[] = [];
  {
    const level = await openLevel(store, nodeDescriptors());
    let from = new Uint8Array();
    for (;;) {
      const page = await level.range({ from, to: Uint8Array.of(0xff), limit: 1000 });
      entries.push(...page);
      if (page.length < 1000) break;
      from = Uint8Array.of(...page.at(-1)!.key, 0);
    }
    await level.close();
  }
  for (const name of await contentOf(store)) await rm(join(store, name));
  const level = await openLevel(store, nodeDescriptors());
  await level.batch(entries.map((entry) => ({ kind: "put", ...entry })));
  await level.close();
  await remakeLevel(store);
}

const KINDS: readonly Kind[] = [
  {
    kind: "rows: journal",
    file: /^storage\/store\/journal\/.*\.journal$/,
    at: middle,
    said: /made anew with \d+ values and the journal's sound records; [^]*lost: writes \d+ to \d+ of the journal/,
  },
  {
    kind: "rows: table",
    file: /^storage\/store\/\d+\.ldb$/,
    at: value,
    // Compacted by an opening meanwhile, the table is not the one of the report.
    said: /made anew with \d+ values[^]*lost: (keys (up to|behind) [^]*bytes of the table \d+\.ldb; [^]*\d+ were there, \d+ are left|values with keys that begin with [^]*not what was written)/,
  },
  {
    kind: "rows: the only table, the header of a group's log in the block",
    isStopped: true,
    prepare: intoOneTable,
    file: /^storage\/store\/\d+\.ldb$/,
    at: value,
    said: /made anew with \d+ values[^]*lost: [^]*the promise and the marks of the log of group g0/,
  },
  {
    kind: "rows of objects: journal",
    file: /^objects\/metadata\/journal\/.*\.journal$/,
    at: middle,
    said: /made anew with \d+ values[^]*lost: writes \d+ to \d+ of the journal/,
  },
  {
    kind: "rows of objects: table",
    isStopped: true,
    file: /^objects\/metadata\/\d+\.ldb$/,
    at: value,
    said: /objects\/metadata: [^]*made anew with \d+ values[^]*lost: [^]*(\d+ were there, \d+ are left|not what was written)/,
  },
  {
    kind: "marks of ids: journal",
    file: /^messages\/meta\/journal\/.*\.journal$/,
    at: () => 80,
    said: /messages\/meta: [^]*made anew with \d+ values[^]*lost: writes 0 to 0 of the journal/,
  },
  {
    kind: "input",
    isStopped: true,
    file: /^messages\/log\/partition-0000\/input\/.*\.journal$/,
    at: value,
    said: /made anew with \d+ records; [^]*lost: nothing/,
  },
  {
    kind: "output",
    file: /^messages\/log\/partition-0000\/output\/.*\.journal$/,
    at: value,
    isStopped: true,
    said: /made anew with \d+ records; [^]*lost: offsets \d+ to \d+ of the output of partition 0 \(published; /,
  },
  {
    kind: "names of blobs",
    file: /^objects\/journal\/.*\.journal$/,
    at: () => 12,
    said: /DAMAGED objects\/journal: [^]*moved to/,
  },
  { kind: "window", file: /^messages\/window\/0\/window\/CURRENT$/, at: () => 3, said: /window: [^]*moved to/ },
];

for (const { kind, file, at, said, isStopped = false, prepare } of KINDS) {
  test(`repair --accept-loss: ${kind}: says what is lost, keeps the files of before, and all four services serve`, async () => {
    const folder = await mkdtemp(join(root, "copy-"));
    await cp(isStopped ? stopped : data, folder, { recursive: true });
    await prepare?.(folder);
    const names = (await readdir(folder, { recursive: true })).filter((name) => file.test(name)).sort();
    const files = await Promise.all(names.map(async (name) => ({ name, bytes: await readFile(join(folder, name)) })));
    // A table may be an older one that the next opening deletes: the newest is not.
    const { name, bytes } = isStopped ? files.at(-1)! : files.toSorted((left, right) => right.bytes.length - left.bytes.length)[0]!;
    bytes[at(bytes)]! ^= 4;
    await writeFile(join(folder, name), bytes);
    const dry = await run(repairCommand, folder);
    const mended = await run(repairCommand, folder, "--apply", "--accept-loss");
    assert.equal(mended.code, 0, `${dry.said}\n${mended.said}`);
    assert.match(mended.said, said);
    const [quarantine] = (await readdir(folder)).filter((each) => each.startsWith("quarantine-"));
    assert.match(await readFile(join(folder, quarantine!, "report.txt"), "utf8"), /: /);
    assert.deepEqual(await readFile(join(folder, quarantine!, name)), bytes);
    assert.equal((await run(fsckCommand, folder)).code, 0);
    await allServe(folder);
    await rm(folder, { recursive: true });
  });
}

async function allServe(folder: string): Promise<void> {
  await using concord = await startConcord({ dataFolder: folder, config: KILLED_CONFIG });
  const db = await connect({ coordinators: [concord.address], dedupWorker: concord.address });
  const s3 = new S3Client({ ...concord.s3, forcePathStyle: true });
  try {
    await db.insert("notes", { id: 7_000n, body: "after" });
    assert.deepEqual(await db.read("notes", { id: 7_000n }), { id: 7_000n, body: "after" });
    await s3.send(new CreateBucketCommand({ Bucket: "later" }));
    await s3.send(new PutObjectCommand({ Bucket: "later", Key: "dog", Body: "woof" }));
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: "later", Key: "dog" }));
    assert.equal(await Body!.transformToString(), "woof");
    const messages = Array.from({ length: 8 }, (_, n) => ({ id: `later${n}`, value: "hello" }));
    const results = await db.messages.ingest(messages);
    assert.deepEqual(
      results.map(({ verdict }) => verdict),
      messages.map(() => "accepted"),
    );
  } finally {
    db.close();
    s3.destroy();
  }
}
