// Programs that do nothing without writing, on a real file system that takes none: they end, and say what to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, test } from "node:test";
import { MountedDisk } from "@concord/adapter-node-runtime/testing";
import { Processes } from "./test/process.ts";

const WORKER = fileURLToPath(import.meta.resolve("@concord/dedup-worker/main"));
const EXPECTED = /takes no writes: mount it for writing, then start again/u;

const disk = new MountedDisk({ mib: 1 });
const { skip } = disk;
const processes = new Processes();
if (skip === false) disk.remount("read-only");

after(() => {
  processes.end();
  disk.remove();
});

test("a start on a read-only disk: the one program ends with what to do", async (t) => {
  if (skip !== false) return t.skip(skip);
  const { code, output } = await processes.run(["--data-folder", join(disk.folder, "data"), "--admin-address", "127.0.0.1:0"]);
  assert.equal(code, 1);
  assert.match(output, EXPECTED);
});

test("a start on a read-only disk: the dedup-worker ends with what to do", (t) => {
  if (skip !== false) return t.skip(skip);
  const args = [WORKER, "--data-folder", join(disk.folder, "data"), "--admin-address", "127.0.0.1:0"];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(status, 1);
  assert.match(stdout, EXPECTED);
});
