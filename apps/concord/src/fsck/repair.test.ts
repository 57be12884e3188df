// Damage of a killed node's files, mended: what is proven, what is moved away, what is left; nothing is deleted, and a dry run changes nothing.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { openLevel } from "@concord/adapter-level";
import { nodeDescriptors, nodeDisk } from "@concord/adapter-node-runtime";
import { connect } from "@concord/client";
import { openStore } from "@concord/store";
import { startConcord } from "../index.ts";
import { KILLED_CONFIG, makeKilledNode, MESSAGES, messagesOf } from "../test/killed-node.ts";
import { fsckCommand, type FsckExit } from "./fsck.ts";
import { storeOptions } from "./inspect.ts";
import { repairCommand } from "./repair.ts";

/** LevelDB's last bytes of a table: padding and magic; the handles of its index and filters are before them. */
const FOOTER_BYTES = 48;

let root: string;
let data: string;

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-repair-"));
  data = await makeKilledNode(root);
});

after(() => rm(root, { recursive: true, force: true }));

async function repair(...args: readonly string[]): Promise<{ readonly code: FsckExit; readonly said: string }> {
  const lines: string[] = [];
  const code = await repairCommand(args, (line) => lines.push(line));
  return { code, said: lines.join("\n") };
}

const silent = (): void => undefined;

async function copied(): Promise<string> {
  const copy = await mkdtemp(join(root, "copy-"));
  await cp(data, copy, { recursive: true });
  return copy;
}

/** Flips a bit of the largest file of that name, at one place or at several. */
async function flip(folder: string, pattern: RegExp, at: (bytes: Buffer) => number | readonly number[]): Promise<string> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => pattern.test(name)).sort();
  const files = await Promise.all(names.map(async (name) => ({ name, bytes: await readFile(join(folder, name)) })));
  const { name, bytes } = files.toSorted((left, right) => right.bytes.length - left.bytes.length)[0]!;
  const places = [at(bytes)].flat();
  assert.ok(places.length > 0 && places.every((place) => place >= 0), `${name} has what is to be harmed`);
  for (const place of places) bytes[place]! ^= 4;
  await writeFile(join(folder, name), bytes);
  return name;
}

/** Every file but those that each opening of LevelDB makes anew. */
async function contentOf(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true })).filter(
    (entry) => entry.isFile() && entry.name !== "LOCK",
  );
  const paths = names.map(({ parentPath, name }) => join(parentPath, name)).filter((path) => !/\/LOG(\.old)?$/.test(path));
  return new Map(await Promise.all(paths.map(async (path) => [path, (await readFile(path)).toString("base64")] as const)));
}

async function quarantined(folder: string): Promise<{ readonly names: readonly string[]; readonly report: string }> {
  const [name] = (await readdir(folder)).filter((entry) => entry.startsWith("quarantine-"));
  assert.ok(name !== undefined, "there is a quarantine");
  const names = await readdir(join(folder, name), { recursive: true });
  return { names, report: await readFile(join(folder, name, "report.txt"), "utf8") };
}

const isThere = async (folder: string, name: string): Promise<boolean> => (await readdir(folder, { recursive: true })).includes(name);

test("repair: nothing is damaged: 0, and no quarantine is made", async () => {
  const folder = await copied();
  assert.deepEqual((await repair(folder, "--apply")).code, 0);
  assert.deepEqual(
    (await readdir(folder)).filter((name) => name.startsWith("quarantine-")),
    [],
  );
});

/** Files that follow from the rest of a store: which, and where a bit of it is flipped. */
const DERIVED: readonly (readonly [what: string, pattern: RegExp, at: (bytes: Buffer) => number])[] = [
  ["manifest", /^storage\/store\/MANIFEST-\d+$/, (bytes) => bytes.length >> 1],
  ["CURRENT", /^storage\/store\/CURRENT$/, () => 3],
  ["way to a table's filters", /^storage\/store\/\d+\.ldb$/, (bytes) => bytes.length - FOOTER_BYTES],
];

for (const [what, pattern, at] of DERIVED) {
  test(`repair: a bit of a store's ${what} flipped: made anew, proven by the checkpoint; the files of before are kept`, async () => {
    const folder = await copied();
    const name = await flip(folder, pattern, at);
    const harmed = await readFile(join(folder, name));
    const dry = await repair(folder);
    assert.equal(dry.code, 1, dry.said);
    assert.match(
      dry.said,
      /DAMAGED storage\/store: [^]*would be made anew from its tables, proven by the checkpoint[^]*nothing was changed/,
    );
    assert.deepEqual(await readFile(join(folder, name)), harmed);
    const done = await repair(folder, "--apply");
    assert.equal(done.code, 0, done.said);
    assert.equal(await fsckCommand([folder], silent), 0);
    const { names, report } = await quarantined(folder);
    assert.ok(names.includes(name) && report.includes(name), report);
  });
}

/** A place in each: some are of values that were deleted, whose loss is none. */
function valuesIn(bytes: Buffer): number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf("xxxx"); at !== -1; at = bytes.indexOf("xxxx", at + 100)) places.push(at + 1);
  return places;
}

/** What LevelDB cannot make anew: it would drop values, and the checkpoint tells. */
const LOST: readonly (readonly [what: string, at: (bytes: Buffer) => number | readonly number[]])[] = [
  ["values in a table", valuesIn],
  ["a table's index", (bytes) => bytes.length - FOOTER_BYTES - 6],
];

for (const [what, at] of LOST) {
  test(`repair: ${what} flipped: not proven, so left; with peers that have it the store is moved away whole`, () => leftOrMoved(at));
}

/** A store without its marker of the ring's nodes, or with the marker behind all that its tables have. */
async function changeMarker(folder: string, to: "none" | "written again"): Promise<void> {
  const [where, disk] = [join(folder, "storage/store"), nodeDisk(join(folder, "storage"))];
  const store = await openStore(storeOptions(where, await openLevel(where, nodeDescriptors()), disk));
  const key = Buffer.from("m:marker");
  const value = await store.get(key);
  assert.ok(value !== undefined);
  await store.batch([to === "none" ? { kind: "delete", key } : { kind: "put", key, value }]);
  await store.close();
}

test("repair --from-peers: the ring has no other node: refused, not one file of the only copy is moved away", async () => {
  const folder = await copied();
  await changeMarker(folder, "written again");
  // The block of the marker stays sound.
  await flip(folder, /^storage\/store\/\d+\.ldb$/, (bytes) => valuesIn(bytes).slice(-1));
  const before = await contentOf(join(folder, "storage/store"));
  const { code, said } = await repair(folder, "--apply", "--from-peers");
  assert.equal(code, 1, said);
  assert.match(said, /left as it is: [^]*its ring has no other node than [^]*: restore a backup, or give --accept-loss/);
  assert.deepEqual(await contentOf(join(folder, "storage/store")), before);
});

async function leftOrMoved(at: (typeof LOST)[number][1]): Promise<void> {
  const folder = await copied();
  await changeMarker(folder, "none");
  await flip(folder, /^storage\/store\/\d+\.ldb$/, at);
  const before = await contentOf(join(folder, "storage/store/journal"));
  const left = await repair(folder, "--apply", "--unproven");
  assert.equal(left.code, 1, left.said);
  assert.match(left.said, /DAMAGED storage\/store: [^]*left as it is: [^]*--from-peers, else restore a backup/);
  assert.deepEqual(await contentOf(join(folder, "storage/store/journal")), before);
  assert.equal((await repair(folder, "--from-peers")).code, 1);
  assert.ok(await isThere(folder, "storage/store/CURRENT"));
  const moved = await repair(folder, "--apply", "--from-peers");
  assert.equal(moved.code, 0, moved.said);
  assert.equal(await isThere(folder, "storage/store"), false);
  const { names } = await quarantined(folder);
  assert.ok(names.includes("storage/store/CURRENT") && names.includes("storage/store/checkpoint"));
}

test("repair: a log of messages is damaged: left as it is, byte for byte, and said", async () => {
  const folder = await copied();
  await flip(folder, /^messages\/log\/partition-0000\/output\/.*\.journal$/, () => 12);
  const before = await contentOf(join(folder, "messages/log"));
  const { code, said } = await repair(folder, "--apply", "--from-peers", "--unproven");
  assert.equal(code, 1, said);
  assert.match(said, /DAMAGED messages\/log\/partition-0000\/output: [^]*left as it is: messages are there once[^]*1 still damaged/);
  assert.deepEqual(await contentOf(join(folder, "messages/log")), before);
});

test("repair: rows' checkpoint, a window's files and the journal of blobs are damaged: mended; the node serves all that was acknowledged", async () => {
  const folder = await copied();
  await flip(folder, /^storage\/store\/MANIFEST-\d+$/, (bytes) => bytes.length >> 1);
  await flip(folder, /^objects\/metadata\/checkpoint$/, (bytes) => bytes.length >> 1);
  await flip(folder, /^objects\/journal\/.*\.journal$/, () => 12);
  await flip(folder, /^messages\/window\/0\/window\/CURRENT$/, () => 3);
  const first = await repair(folder, "--apply");
  assert.equal(first.code, 1, first.said);
  assert.match(first.said, /DAMAGED objects\/metadata: [^]*left as it is: its checkpoint alone is damaged: --unproven/);
  assert.match(first.said, /DAMAGED messages\/window\/0\/window: [^]*moved to [^]*DAMAGED objects\/journal: [^]*moved to/);
  const second = await repair(folder, "--apply", "--unproven");
  assert.equal(second.code, 0, second.said);
  assert.match(second.said, /given a new checkpoint of \d+ values, without proof/);
  await using concord = await startConcord({ dataFolder: folder, config: KILLED_CONFIG });
  const db = await connect({ coordinators: [concord.address], dedupWorker: concord.address });
  const s3 = new S3Client({ ...concord.s3, forcePathStyle: true });
  try {
    assert.deepEqual(await db.read("notes", { id: 0n }), { id: 0n, body: "changed" });
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: "photos", Key: "cat" }));
    assert.equal(await Body!.transformToString(), "meow");
    const results = await db.messages.ingest(messagesOf(MESSAGES + 1));
    assert.deepEqual(
      results.map(({ verdict }) => verdict),
      [...Array.from({ length: MESSAGES }, () => "duplicate"), "accepted"],
    );
    const used = await repair(folder, "--apply");
    assert.equal(used.code, 2);
    assert.match(used.said, /another process has .*: stop it first/);
  } finally {
    db.close();
    s3.destroy();
  }
});

test("repair: no folder, none of Concord's, no argument, an unknown flag: 2, and why; --help: 0", async () => {
  const codes = [[join(root, "absent")], [import.meta.dirname], [], [data, "--force"]].map(async (args) => (await repair(...args)).code);
  assert.deepEqual(await Promise.all(codes), [2, 2, 2, 2]);
  const help = await repair("--help");
  assert.equal(help.code, 0);
  assert.match(help.said, /usage: concord repair DATA_FOLDER/);
});
