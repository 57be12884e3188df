// Programs that do nothing without writing, on a real file system that takes none: they end, and say what to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, test } from "node:test";
import { MountedDisk } from "@concord/adapter-node-runtime/testing";
import { Processes } from "./test/process.ts";

const WORKER = fileURLToPath(import.meta.resolve("@concord/dedup-worker/main"));
const GATEWAY = fileURLToPath(import.meta.resolve("@concord/object-gateway/main"));
const EXPECTED = /takes no writes: mount it for writing, then start again/u;

const disk = new MountedDisk({ mib: 1 });
const { skip } = disk;
const writable = mkdtempSync(join(tmpdir(), "concord-read-only-test-"));
const processes = new Processes();
if (skip === false) disk.remount("read-only");

after(() => {
  processes.end();
  disk.remove();
  rmSync(writable, { recursive: true, force: true });
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

for (const [flag, folder] of [
  ["--data-store-folder", "the objects' data"],
  ["--log-folder", "the log"],
] as const) {
  test(`a start with a data folder of its own, ${folder} on a read-only disk: the one program ends with what to do`, async (t) => {
    if (skip !== false) return t.skip(skip);
    const folders = ["--data-folder", join(writable, "data"), flag, join(disk.folder, "shared")];
    const { code, output } = await processes.run([...folders, "--admin-address", "127.0.0.1:0"]);
    assert.equal(code, 1);
    assert.match(output, EXPECTED);
  });
}

const KEYS = JSON.stringify([{ accessKeyId: "ANN", secretAccessKey: "a secret of forty characters, for tests..", tenant: "ann" }]);

for (const [name, main, ...flags] of [
  ["dedup-worker", WORKER, "--log-folder"],
  ["object-gateway", GATEWAY, "--access-keys", KEYS, "--data-store-folder"],
] as const) {
  test(`a start with a data folder of its own, a shared folder on a read-only disk: the ${name} ends with what to do`, (t) => {
    if (skip !== false) return t.skip(skip);
    const args = [main, "--data-folder", join(writable, name), ...flags, join(disk.folder, "shared"), "--admin-address", "127.0.0.1:0"];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
    assert.equal(status, 1);
    assert.match(stdout, EXPECTED);
  });
}
