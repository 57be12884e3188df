// Programs that do nothing without writing, on a real file system that takes none: they end, and say what to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, test } from "node:test";
import { Processes } from "./test/process.ts";

const WORKER = fileURLToPath(import.meta.resolve("@concord/dedup-worker/main"));
const EXPECTED = /takes no writes: mount it for writing, then start again/u;

const disk = await mkdtemp(join(tmpdir(), "concord-read-only-test-"));
const processes = new Processes();
const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", disk], { encoding: "utf8" });
const refusal = mounted.status === 0 ? undefined : `a file system cannot be mounted here: ${mounted.error?.message ?? mounted.stderr}`;

after(async () => {
  processes.end();
  if (refusal === undefined) spawnSync("umount", ["--lazy", disk]);
  await rm(disk, { recursive: true, force: true });
});

test("a start on a read-only disk: the one program ends with what to do", async (t) => {
  if (refusal !== undefined) return t.skip(refusal);
  const { code, output } = await processes.run(["--data-folder", join(disk, "data"), "--admin-address", "127.0.0.1:0"]);
  assert.equal(code, 1);
  assert.match(output, EXPECTED);
});

test("a start on a read-only disk: the dedup-worker ends with what to do", (t) => {
  if (refusal !== undefined) return t.skip(refusal);
  const args = [WORKER, "--data-folder", join(disk, "data"), "--admin-address", "127.0.0.1:0"];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(status, 1);
  assert.match(stdout, EXPECTED);
});
