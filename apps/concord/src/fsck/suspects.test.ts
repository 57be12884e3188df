// A store of rows with a damaged block: fsck names the keys, before a start and after one that left the block out; repair --accept-loss drops the ranges.
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openLevel, reportFiltersTo } from "@concord/adapter-level";
import { nodeDescriptors, nodeDisk } from "@concord/adapter-node-runtime";
import type { Store } from "@concord/ports";
import { silentLog } from "@concord/runtime";
import { admittingRows } from "@concord/storage-proxy";
import { openStore, type StoreOptions } from "@concord/store";
import { fsckCommand } from "./fsck.ts";
import { STORE_ENVIRONMENT } from "./inspect.ts";
import { repairCommand } from "./repair.ts";

const ROWS = 500;
const keyOf = (n: number): Uint8Array => new TextEncoder().encode(`r${String(n).padStart(4, "0")}`);
const valueOf = (n: number): Uint8Array => new TextEncoder().encode(`value ${n} ${"v".repeat(80)}`);
const RANGE = /values with keys from "r\d+(\\u0000)?" on and below "r\d+(\\u0000)?"/;

async function open(folder: string): Promise<Store> {
  const options: Omit<StoreOptions, "backing"> = { ...STORE_ENVIRONMENT, disk: nodeDisk(folder), folder: "store" };
  const backing = await openLevel(join(folder, "store"), nodeDescriptors(), { ...reportFiltersTo(silentLog), ...admittingRows(options) });
  return openStore({ ...options, backing });
}

async function run(command: typeof fsckCommand, ...args: readonly string[]): Promise<{ readonly code: number; readonly said: string }> {
  const lines: string[] = [];
  return { code: await command(args, (line) => lines.push(line)), said: lines.join("\n") };
}

async function damageBlock(folder: string): Promise<void> {
  const names = (await readdir(join(folder, "store"))).filter((name) => name.endsWith(".ldb"));
  for (const name of names) {
    const path = join(folder, "store", name);
    const content = await readFile(path);
    const at = content.indexOf("value 250 ");
    if (at < 0) continue;
    content[at]! ^= 4;
    await writeFile(path, content);
    return;
  }
  assert.fail("a table has the row");
}

test("fsck and repair --accept-loss: a damaged block of rows: the keys are named while they are refused, and dropped and printed at the end", async () => {
  const root = await mkdtemp(join(tmpdir(), "concord-suspects-"));
  try {
    const folder = join(root, "storage");
    await mkdir(folder);
    const first = await open(folder);
    await first.batch(
      Array.from({ length: ROWS }, (_, n) => ({ kind: "put", key: keyOf(n), value: valueOf(n) })),
      { sync: true },
    );
    await first.close();
    await damageBlock(folder);
    const damaged = await run(fsckCommand, root);
    assert.equal(damaged.code, 1);
    assert.match(damaged.said, new RegExp(`${RANGE.source} were, or some of them, in a damaged block`));

    const store = await open(folder);
    await assert.rejects(store.get(keyOf(250)), { code: "CORRUPT_DATA" });
    assert.deepEqual(Buffer.from((await store.get(keyOf(ROWS - 1)))!), Buffer.from(valueOf(ROWS - 1)));
    await store.close();
    const refused = await run(fsckCommand, root);
    assert.equal(refused.code, 1);
    assert.match(refused.said, new RegExp(`${RANGE.source} are refused`));

    const without = await run(repairCommand, root, "--apply");
    assert.equal(without.code, 1, "nothing proves the rows");
    await (await open(folder)).close();
    const accepted = await run(repairCommand, root, "--apply", "--accept-loss");
    assert.equal(accepted.code, 0, accepted.said);
    assert.match(accepted.said, new RegExp(`lost: [^]*${RANGE.source} were refused until now`));
    assert.equal((await run(fsckCommand, root)).code, 0);
    const last = await open(folder);
    assert.deepEqual(last.suspects.ranges, []);
    assert.equal(await last.get(keyOf(250)), undefined);
    assert.deepEqual(Buffer.from((await last.get(keyOf(0)))!), Buffer.from(valueOf(0)));
    await last.close();
  } finally {
    await rm(root, { recursive: true });
  }
});
