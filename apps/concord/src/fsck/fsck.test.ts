// The check of a node's data on real files: whole, in use, and with one byte of each kind of file harmed.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { nodeChecksum, nodeDisk, nodeRandom } from "@concord/adapter-node-runtime";
import { connect } from "@concord/client";
import { startConcord } from "../index.ts";
import { KILLED_CONFIG, makeKilledNode } from "../test/killed-node.ts";
import { fsckCommand, type FsckExit } from "./fsck.ts";
import { repairCommand } from "./repair.ts";

let root: string;
/** Of a node that was killed: rows below a checkpoint, and journals. */
let data: string;

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-fsck-"));
  data = await makeKilledNode(root);
});

after(() => rm(root, { recursive: true, force: true }));

async function fsck(...args: readonly string[]): Promise<{ readonly code: FsckExit; readonly said: string }> {
  const lines: string[] = [];
  const code = await fsckCommand(args, (line) => lines.push(line));
  return { code, said: lines.join("\n") };
}

/** The content of every file but LevelDB's own, which it brings up to date when it opens. */
async function journalsOf(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => /(\.journal|checkpoint)$/.test(name));
  return new Map(await Promise.all(names.map(async (name) => [name, (await readFile(join(folder, name))).toString("base64")] as const)));
}

async function copied(): Promise<string> {
  const copy = await mkdtemp(join(root, "copy-"));
  await cp(data, copy, { recursive: true });
  return copy;
}

test("fsck: data of a killed node: all stores, logs and journals named, nothing damaged, nothing changed; again: the same", async () => {
  const folder = await copied();
  const before = await journalsOf(folder);
  assert.ok(before.size > 5);
  const first = await fsck(folder);
  assert.equal(first.code, 0, first.said);
  for (const part of ["storage/store: ", "objects/metadata: ", "objects/journal: ", "messages/meta: ", "messages/log/"]) {
    assert.ok(first.said.includes(part), `${part} in\n${first.said}`);
  }
  assert.deepEqual(await journalsOf(folder), before);
  assert.equal((await fsck(folder)).code, 0);
  await using concord = await startConcord({ dataFolder: folder, config: KILLED_CONFIG });
  const db = await connect({ coordinators: [concord.address] });
  assert.deepEqual(await db.read("notes", { id: 0n }), { id: 0n, body: "changed" });
  db.close();
  const used = await fsck(folder);
  assert.equal(used.code, 2);
  assert.match(used.said, /another process has .*: stop it first/);
});

/** Which byte of a file of that kind is harmed: one that holds content. */
const KINDS: readonly (readonly [kind: string, pattern: RegExp, at: (bytes: Buffer) => number, names: RegExp])[] = [
  ["a table", /^storage\/store\/\d+\.ldb$/, () => 20, /storage\/store: .*\.ldb has a spoilt block/],
  ["a store's journal", /^storage\/store\/journal\/.*\.journal$/, () => 12, /storage\/store\/journal: /],
  ["a store's checkpoint", /^storage\/store\/checkpoint$/, (bytes) => bytes.length >> 1, /storage\/store: .*checkpoint/],
  ["a log of messages", /^messages\/log\/.*\.journal$/, () => 12, /messages\/log\/.*: /],
  ["the journal of blobs", /^objects\/journal\/.*\.journal$/, () => 12, /objects\/journal: /],
];

for (const [kind, pattern, at, expected] of KINDS) {
  test(`fsck: a bit of ${kind} flipped: found, named, with what to do; the next check says the same`, async () => {
    const folder = await copied();
    const names = (await readdir(folder, { recursive: true })).filter((name) => pattern.test(name)).sort();
    const path = join(folder, names[0]!);
    const bytes = await readFile(path);
    bytes[at(bytes)]! ^= 4;
    await writeFile(path, bytes);
    for (const again of [false, true]) {
      const { code, said } = await fsck(folder);
      assert.equal(code, 1, said);
      assert.match(said, new RegExp(`DAMAGED ${expected.source}[^]*do: `), String(again));
    }
  });
}

test("fsck: the file of closed epochs: named, and found when a bit of it is flipped; repaired: away, and the next start writes it", async () => {
  const folder = await copied();
  const disk = nodeDisk(join(folder, "objects"));
  const release = async (): Promise<void> => {
    const data = new FilesystemObjectData({ disk, checksum: nodeChecksum, random: nodeRandom, failpoint: () => undefined });
    await data.closeEpoch(1);
    await data.releaseEpochs(2);
    await data.close();
  };
  await release();
  const whole = await fsck(folder);
  assert.equal(whole.code, 0, whole.said);
  assert.match(whole.said, /objects\/pieces\/closed-below: epochs of object data below \d+ are closed/);
  const parent = join(folder, "objects/pieces/closed-below");
  const [name] = (await readdir(parent)).sort().slice(-1);
  const bytes = await readFile(join(parent, name!));
  bytes[8]! ^= 4;
  await writeFile(join(parent, name!), bytes);
  const damaged = await fsck(folder);
  assert.equal(damaged.code, 1, damaged.said);
  assert.match(damaged.said, /DAMAGED objects\/pieces\/closed-below: .*damaged[^]*do: concord repair moves it away/);
  const lines: string[] = [];
  assert.equal(await repairCommand([folder, "--apply"], (line) => lines.push(line)), 0, lines.join("\n"));
  await release();
  assert.equal((await fsck(folder)).code, 0);
});

/** Objects of this node: packed into a segment, and a file of its own. */
const OBJECTS = { packed: 100_000, long: 3 * 1024 * 1024 } as const;

async function withS3<Result>(dataFolder: string, work: (s3: S3Client) => Promise<Result>): Promise<Result> {
  await using concord = await startConcord({ dataFolder, config: KILLED_CONFIG });
  const s3 = new S3Client({ ...concord.s3, forcePathStyle: true, maxAttempts: 1 });
  try {
    return await work(s3);
  } finally {
    s3.destroy();
  }
}

async function bytesOf(s3: S3Client, Key: string): Promise<number> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: "photos", Key }));
  return (await Body!.transformToByteArray()).length;
}

async function flipMiddle(folder: string, pattern: RegExp): Promise<void> {
  const [name] = (await readdir(folder, { recursive: true })).filter((one) => pattern.test(one));
  assert.ok(name !== undefined, `${pattern} is there`);
  const bytes = await readFile(join(folder, name));
  bytes[bytes.length >> 1]! ^= 4;
  await writeFile(join(folder, name), bytes);
}

test("fsck --blobs: a bit of a packed segment and of a long blob flipped: the objects named; all others are served, and these again once they are put", async () => {
  const folder = await copied();
  const put = (s3: S3Client, Key: keyof typeof OBJECTS): Promise<unknown> =>
    s3.send(new PutObjectCommand({ Bucket: "photos", Key, Body: Buffer.alloc(OBJECTS[Key], Key) }));
  await withS3(folder, async (s3) => void (await Promise.all([put(s3, "packed"), put(s3, "long")])));
  const whole = await fsck(folder, "--blobs");
  assert.equal(whole.code, 0, whole.said);
  assert.match(whole.said, new RegExp(`objects/pieces: 2 blobs with ${OBJECTS.packed + OBJECTS.long} bytes as they were written`));
  await flipMiddle(folder, /^objects\/pieces\/[^/]+\/packed[^/]*\/seg-/);
  await flipMiddle(folder, /^objects\/pieces\/[^/]+\/\d+\/[0-9a-f]+-[0-9a-f]+$/);
  assert.equal((await fsck(folder)).code, 0);
  const damaged = await fsck(folder, "--blobs");
  assert.equal(damaged.code, 1, damaged.said);
  for (const key of Object.keys(OBJECTS)) {
    const line = `DAMAGED objects/pieces: blob \\S+ \\(photos/${key}\\): .*block \\d+ of blob \\S+ fails its checksum\\n +do: .*put it again`;
    assert.match(damaged.said, new RegExp(line));
  }
  await withS3(folder, async (s3) => {
    for (const key of Object.keys(OBJECTS)) await assert.rejects(bytesOf(s3, key), key);
    assert.equal(await bytesOf(s3, "cat"), "meow".length);
    await put(s3, "packed");
    assert.equal(await bytesOf(s3, "packed"), OBJECTS.packed);
  });
});

test("fsck: a lost table: the range of values that is missing is named", async () => {
  const folder = await copied();
  const names = (await readdir(join(folder, "storage/store"))).filter((name) => name.endsWith(".ldb"));
  for (const name of names) await rm(join(folder, "storage/store", name));
  const { code, said } = await fsck(folder);
  assert.equal(code, 1, said);
  assert.match(said, /DAMAGED storage\/store: /);
});

test("fsck: no folder, none of Concord's, no argument: 2, and why; --help: 0", async () => {
  assert.deepEqual([(await fsck(join(root, "absent"))).code, (await fsck(import.meta.dirname)).code], [2, 2]);
  const lines: string[] = [];
  assert.equal(await fsckCommand([], (line) => lines.push(line)), 2);
  assert.equal(await fsckCommand(["--help"], (line) => lines.push(line)), 0);
  assert.match(lines.join("\n"), /usage: concord fsck DATA_FOLDER/);
});
