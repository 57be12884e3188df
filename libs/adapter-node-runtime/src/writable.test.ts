// What a program may do with its data folder. File systems that take no writes: read-only.test.ts of the apps, which mount one.
import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { requireWritable, writableOf } from "./index.ts";

const root = await mkdtemp(join(tmpdir(), "concord-writable-"));
after(() => rm(root, { recursive: true, force: true }));

test("a data folder: there, or absent below one that is there: writable", async () => {
  assert.deepEqual(await writableOf(root), { kind: "writable" });
  assert.deepEqual(await writableOf(join(root, "data", "node")), { kind: "writable" });
  await requireWritable(root);
});

test("a data folder of another user: refused, with what to do", async (t) => {
  if (process.getuid?.() === 0 || process.platform === "win32") return t.skip("everything is root's");
  const folder = join(root, "closed");
  await mkdir(folder);
  await chmod(folder, 0o500);
  await assert.rejects(writableOf(folder), { code: "STORE_FAILED", applied: "no", message: /cannot be read and written by this user/u });
});
