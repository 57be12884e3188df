// A bundle has the modules that run as threads, and its program finds them there.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { bundlePrograms } from "@concord/nx-targets/bundle";

const ROOT = resolve(import.meta.dirname, "../..");
const HELLO_MD5 = "5d41402abc4b2a76b9719d911017c592";

const PROGRAM = `
import { nodeClock, nodeDigestThread } from "@concord/adapter-node-runtime";
const silent = () => undefined;
const log = { debug: silent, info: silent, warn: silent, error: (text, { reason }) => console.error(text, reason) };
const digests = nodeDigestThread({ clock: nodeClock, log }).begin(["MD5"]);
(await digests.buffer()).set(new TextEncoder().encode("hello"));
digests.add(5);
console.log(Buffer.from((await digests.finish()).get("MD5")).toString("hex"));
digests.close();
`;

test("bundle: a program that hashes on a thread finds the thread's module beside its own", async () => {
  const folder = mkdtempSync(join(tmpdir(), "concord-bundle-"));
  const output = join(folder, "dist");
  try {
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "program.ts"), PROGRAM);
    const packages = await bundlePrograms({ program: join(folder, "program.ts") }, output);
    assert.ok("@node-rs/crc32" in packages, "what only a thread imports is a dependency, too");
    const { stdout, stderr } = spawnSync(process.execPath, [join(output, "program.js")], { encoding: "utf8" });
    assert.deepEqual([stdout.trim(), stderr], [HELLO_MD5, ""]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
