// A disk that forgets: reads come from below until the first write, which stays above; the files below stay as they are and are closed.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Disk, DiskFile } from "@concord/runtime";
import { nodeDisk, overlayDisk } from "./index.ts";

const scratch = await mkdtemp(join(tmpdir(), "concord-overlay-"));
after(() => rm(scratch, { recursive: true, force: true }));

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = async (file: DiskFile): Promise<string> => Buffer.from(await file.read(0, file.size)).toString();

interface Subject {
  readonly root: string;
  readonly disk: Disk & { close(): Promise<void> };
  /** Files of the disk below that are open. */
  readonly open: () => number;
}

async function subject(): Promise<Subject> {
  const root = await mkdtemp(join(scratch, "root-"));
  await writeFile(join(root, "a"), "below");
  const base = nodeDisk(root, "reading");
  let count = 0;
  const counted: Disk = {
    ...base,
    open: async (path) => {
      const file = await base.open(path);
      if (file === undefined) return undefined;
      count += 1;
      const close = file.close.bind(file);
      file.close = () => close().finally(() => (count -= 1));
      return file;
    },
  };
  return { root, disk: overlayDisk(counted), open: () => count };
}

test("overlay: written, grown, truncated: read back through any handle, and after it was closed; the file below is as it was", async () => {
  const { root, disk, open } = await subject();
  const [one, two] = [(await disk.open("a"))!, (await disk.open("a"))!];
  await one.writeSynced(5, [bytesOf(" and"), bytesOf(" above")]);
  assert.equal(await textOf(two), "below and above");
  await two.truncate(3);
  await Promise.all([one.close(), one.close(), two.close()]);
  assert.equal(await textOf((await disk.open("a"))!), "bel");
  await disk.close();
  assert.deepEqual([await readFile(join(root, "a"), "utf8"), open()], ["below", 0]);
});

test("overlay: only read: the file below is closed with the last handle", async () => {
  const { disk, open } = await subject();
  const [one, two] = [(await disk.open("a"))!, (await disk.open("a"))!];
  await one.close();
  assert.deepEqual([await textOf(two), open()], ["below", 1]);
  await two.close();
  assert.equal(open(), 0);
  assert.equal(await textOf((await disk.open("a"))!), "below");
});

test("overlay: made, renamed, removed: names as they are above, none below", async () => {
  const { root, disk } = await subject();
  assert.equal(await disk.create("a"), "exists");
  const made = await disk.create("b");
  assert.ok(made !== "exists");
  await made.write(0, [bytesOf("b")]);
  assert.deepEqual([await disk.rename("a", "c"), await disk.rename("a", "d"), await disk.remove("b")], [true, false, true]);
  assert.deepEqual(await disk.list(""), [{ name: "c", kind: "file" }]);
  assert.equal(await textOf((await disk.open("c"))!), "below");
  assert.deepEqual(await readdir(root), ["a"]);
  await disk.close();
});
