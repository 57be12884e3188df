// A store on a real file system without space, mounted in memory: read through a copy of its logs, and opened where it is once there is space.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { devNull, tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, test } from "node:test";
import type { BackingStore, KeyValueOperation } from "@concord/ports";
import { DescriptorReserve, type Clock } from "@concord/runtime";
import { openLevel } from "./index.ts";

const MIB = 1024 * 1024;
const CRUMB = 4096;
const ALL = { from: Uint8Array.of(1), to: Uint8Array.of(255), limit: 100 };

const clock = {
  monotonicMs: () => performance.now(),
  setTimer: (ms: number, action: () => void) => {
    const timer = setTimeout(action, ms);
    return { cancel: () => clearTimeout(timer) };
  },
} as unknown as Clock;
const descriptors = new DescriptorReserve({ clock, open: () => openSync(devNull, "r"), close: closeSync });

const disk = mkdtempSync(join(tmpdir(), "concord-level-full-"));
const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64m", "concord-test", disk], { encoding: "utf8" });
const skip = status === 0 ? false : `a file system cannot be mounted here (Linux, as root): ${stderr}`;
after(() => {
  if (skip === false) spawnSync("umount", ["--lazy", disk]);
  rmSync(disk, { recursive: true, force: true });
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const put = (key: string): KeyValueOperation => ({ kind: "put", key: bytes(key), value: bytes(key) });
const keysOf = async (store: BackingStore): Promise<string> =>
  (await store.range(ALL)).map(({ key }) => new TextDecoder().decode(key)).join("");

/** The last byte too. */
function fill(): void {
  for (const [name, step] of [
    ["junk", MIB],
    ["crumbs", CRUMB],
  ] as const) {
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(join(disk, name), Buffer.alloc(Math.floor((bavail * bsize) / step) * step));
  }
  assert.equal(statfsSync(disk).bavail, 0);
}

function empty(): void {
  for (const name of ["junk", "crumbs"]) rmSync(join(disk, name));
}

/** Row a is in a table, row b in the log. */
async function made(folder: string): Promise<void> {
  const store = await openLevel(folder, descriptors);
  await store.batch([put("a")]);
  await store.flush();
  await store.batch([put("b")]);
  await store.close();
}

/** How many there are of the store in `folder`. */
function copiesOf(folder: string): number {
  const prefix = `concord-full-disk-${createHash("sha256").update(folder).digest("hex").slice(0, 16)}`;
  return ["/dev/shm", tmpdir()].flatMap((parent) => readdirSync(parent)).filter((name) => name.startsWith(prefix)).length;
}
const filesOf = (folder: string): readonly string[] => readdirSync(folder).filter((name) => !name.startsWith("LOG"));

test(
  "[OPS11] full disk: a store opens and is read, tables and logs; its files stay; a write waits, and with space it is made where the store is",
  { skip },
  async () => {
    const folder = join(disk, "store");
    await made(folder);
    const files = filesOf(folder);
    fill();
    const store = await openLevel(folder, descriptors);
    assert.deepEqual([await keysOf(store), copiesOf(folder), filesOf(folder)], ["ab", 1, files]);
    const evidence = await store.evidence();
    const written = store.batch([put("c")]).then(() => store.flush());
    assert.equal((await keysOf(store)).slice(0, 2), "ab");
    empty();
    await written;
    assert.deepEqual([await keysOf(store), copiesOf(folder)], ["abc", 0]);
    await store.close();
    const later = await openLevel(folder, descriptors);
    assert.deepEqual([await keysOf(later), later.holds(evidence)], ["abc", false]);
    await later.close();
  },
);

test("full disk: closed while a write waits: STORAGE_FULL, no copy is left, and the next opening has every row", { skip }, async () => {
  const folder = join(disk, "closed");
  await made(folder);
  fill();
  const store = await openLevel(folder, descriptors);
  const evidence = await store.evidence();
  const refused = assert.rejects(store.batch([put("c")]), { code: "STORAGE_FULL" });
  store.refuseWaiting?.();
  await refused;
  await store.close();
  assert.equal(copiesOf(folder), 0);
  const again = await openLevel(folder, descriptors);
  assert.deepEqual([await keysOf(again), again.holds(evidence)], ["ab", true]);
  await again.close();
  empty();
  const later = await openLevel(folder, descriptors);
  assert.equal(await keysOf(later), "ab");
  await later.close();
});

test(
  "full disk: another process has the store, read through a copy: STORE_FAILED with the lock; what a killed one left goes",
  { skip },
  async () => {
    const folder = join(disk, "taken");
    await made(folder);
    fill();
    const module = pathToFileURL(join(import.meta.dirname, "test/levels.ts")).href;
    const script = (then: string): string =>
      `const { openLevel } = await import(${JSON.stringify(module)}); await openLevel(${JSON.stringify(folder)}).then(${then});`;
    const inProcess = (then: string): string =>
      spawnSync(process.execPath, ["--input-type=module", "-e", script(then)], { encoding: "utf8" }).stdout;
    const store = await openLevel(folder, descriptors);
    assert.match(inProcess("() => console.log('opened'), (thrown) => console.log(thrown.code, thrown.message)"), /^STORE_FAILED.*lock/iu);
    await store.close();
    inProcess("() => process.kill(process.pid, 'SIGKILL')");
    assert.equal(copiesOf(folder), 1);
    empty();
    const later = await openLevel(folder, descriptors);
    assert.deepEqual([await keysOf(later), copiesOf(folder)], ["ab", 0]);
    await later.close();
  },
);
