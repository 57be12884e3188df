import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { diskContract } from "@concord/port-contracts";
import { nodeDisk } from "./index.ts";

const scratch = await mkdtemp(join(tmpdir(), "concord-disk-"));
after(() => rm(scratch, { recursive: true, force: true }));
const newRoot = (): Promise<string> => mkdtemp(join(scratch, "root-"));

diskContract(test, async () => ({ disk: nodeDisk(await newRoot()) }));

test("makeFolder: the root itself and folders above it are absent: made", async () => {
  const root = join(await newRoot(), "data", "gateway");
  const disk = nodeDisk(root);
  await disk.makeFolder("");
  await disk.makeFolder("");
  await disk.makeFolder("a/b");
  assert.deepEqual(await disk.list("a"), [{ name: "b", kind: "folder" }]);
  const other = nodeDisk(join(await newRoot(), "x"));
  await other.makeFolder("a/b");
  assert.deepEqual(await other.list(""), [{ name: "a", kind: "folder" }]);
});

test("makeFolder: a file is in the way: STORE_FAILED", async () => {
  const root = await newRoot();
  await writeFile(join(root, "f"), "");
  await assert.rejects(nodeDisk(root).makeFolder("f/g"), { code: "STORE_FAILED" });
});

test(
  "write: no room: STORAGE_FULL, nothing applied; sync that fails: STORE_FAILED, unknown",
  { skip: process.platform !== "linux" },
  async () => {
    const root = await newRoot();
    await symlink("/dev/full", join(root, "full"));
    const file = await nodeDisk(root).open("full");
    assert.ok(file !== undefined);
    await assert.rejects(file.write(0, [Uint8Array.of(1)]), { code: "STORAGE_FULL", applied: "no" });
    await assert.rejects(file.sync(), { code: "STORE_FAILED", applied: "unknown" });
    await file.close();
  },
);

test("read: the folder cannot be listed: STORE_FAILED", async () => {
  const root = await newRoot();
  await writeFile(join(root, "f"), "");
  await assert.rejects(nodeDisk(root).list("f"), { code: "STORE_FAILED" });
});

test(
  "open: all descriptors of the process are taken: files are opened with those of the reserve; without any: OVERLOADED, nothing applied",
  { skip: process.platform !== "linux" },
  async () => {
    const script = join(import.meta.dirname, "test", "starved-disk.ts");
    const command = 'ulimit -n 128; exec "$0" "$@"';
    const printed = execFileSync("sh", ["-c", command, process.execPath, script, await newRoot()], { encoding: "utf8" });
    assert.deepEqual(JSON.parse(printed), ["created", "a", "OVERLOADED/no", true]);
  },
);
