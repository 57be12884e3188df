// The log that a manifest names, by manifests of LevelDB and by cuts of them.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ManifestLog } from "./manifest-log.ts";
import { openLevel } from "./test/levels.ts";

const root = await mkdtemp(join(tmpdir(), "concord-manifest-log-"));
after(() => rm(root, { recursive: true }));

const FLUSHES = 100;

test("manifest: many edits over block bounds, read as they come: names the newest log after each flush", async () => {
  const folder = join(root, "store");
  const store = await openLevel(folder);
  const name = (await readdir(folder)).find((one) => one.startsWith("MANIFEST"))!;
  const manifest = new ManifestLog(join(folder, name));
  const ends: { readonly bytes: number; readonly number: number | undefined }[] = [];
  for (let flush = 0; flush < FLUSHES; flush += 1) {
    await store.batch([{ kind: "put", key: new Uint8Array(1000).fill(flush), value: Uint8Array.of(1) }]);
    await store.flush();
    const logs = (await readdir(folder)).filter((one) => one.endsWith(".log"));
    const number = await manifest.number();
    assert.deepEqual(logs, [`${String(number).padStart(6, "0")}.log`]);
    ends.push({ bytes: (await readFile(join(folder, name))).length, number });
  }
  await store.close();
  const content = await readFile(join(folder, name));
  assert.ok(content.length > 2 * 32 * 1024, "several blocks");
  // A record that is not there whole counts once it is.
  const growing = join(root, "growing");
  await writeFile(growing, "");
  const grown = new ManifestLog(growing);
  for (let bytes = 0; bytes <= content.length; bytes += 211) {
    await writeFile(growing, content.subarray(0, bytes));
    const number = await grown.number();
    const whole = ends.findLast((end) => end.bytes <= bytes)?.number;
    assert.ok(whole === undefined || number! >= whole, `${number} of the first ${bytes} bytes`);
  }
  await writeFile(growing, content);
  assert.equal(await grown.number(), await new ManifestLog(join(folder, name)).number());
});

test("manifest: empty, zeros or of another program: names none", async () => {
  const path = join(root, "other");
  for (const content of [Buffer.alloc(0), Buffer.alloc(100), Buffer.from("no manifest at all, a text that is longer than a header")]) {
    await writeFile(path, content);
    assert.equal(await new ManifestLog(path).number(), undefined);
  }
});
