// One bit of one part's store is flipped while the real program is stopped: what the others do, and what happens when the bit is put back.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@concord/client";
import { KILLED_CONFIG, makeKilledNode } from "./test/killed-node.ts";
import { ended, Processes, type Ready } from "./test/process.ts";

const LOOK_MS = 50;
/** A busy machine is slow; what has not come by then does not. */
const LOOKS_MAX = 2_400;

let root: string;
let data: string;
const processes = new Processes();

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-parts-"));
  data = await makeKilledNode(root);
});

after(async () => {
  processes.end();
  await rm(root, { recursive: true, force: true });
});

/** Flips a bit of the folder's first journal; returns what puts it back. */
async function damage(folder: string): Promise<() => Promise<void>> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".journal")).sort();
  const path = join(folder, names[0]!);
  const sound = await readFile(path);
  const damaged = Buffer.from(sound);
  damaged[12]! ^= 4;
  await writeFile(path, damaged);
  return () => writeFile(path, sound);
}

/** Each on a connection of its own: on a busy machine the server ends an idle one in the moment in which it is used again. */
const get = (url: string): Promise<Response> => fetch(url, { headers: { connection: "close" } });

async function readyz({ adminAddress }: Ready): Promise<string> {
  const response = await get(`http://${adminAddress}/readyz`);
  return `${response.status} ${await response.text()}`;
}

async function untilReady(ready: Ready): Promise<void> {
  for (let looks = 0; !(await readyz(ready)).startsWith("200"); looks += 1) {
    assert.ok(looks < LOOKS_MAX, `the part did not come back: ${await readyz(ready)}`);
    await sleep(LOOK_MS);
  }
}

type Store = "storage" | "objects" | "messages";

/** Which stores serve what was acknowledged; of those in `out` only a refusal counts. */
async function assertServed({ address, httpAddress }: Ready, out: readonly Store[]): Promise<void> {
  const connecting = connect({ coordinators: [address], dedupWorker: address, timeoutMs: 60_000 });
  if (out.includes("storage")) {
    await assert.rejects(connecting, {
      code: "CORRUPT_DATA",
      applied: "no",
      retryable: false,
      message: /transactions waits for storage, which is out: storage is out: .*concord repair/u,
    });
  } else {
    const db = await connecting;
    assert.deepEqual(await db.read("notes", { id: 0n }), { id: 0n, body: "changed" });
    if (!out.includes("messages")) assert.equal((await db.messages.ingest([{ id: "m0", value: "hello" }]))[0]!.verdict, "duplicate");
    db.close();
  }
  const s3 = await get(`http://${httpAddress}/photos/cat`);
  assert.match(`${s3.status} ${await s3.text()}`, out.includes("objects") ? /^503 .*<Code>ServiceUnavailable</su : /^403 /u);
}

for (const [part, journal] of [
  ["storage", "storage/store/journal"],
  ["objects", "objects/metadata/journal"],
  ["messages", "messages/meta/journal"],
] as const) {
  test(`[OPS4] [OPS6] process: a bit of ${journal} is damaged before the start: the other parts serve, and it too once the bit is put back`, async () => {
    const folder = await mkdtemp(join(root, "copy-"));
    await cp(data, folder, { recursive: true });
    const putBack = await damage(join(folder, journal));
    const { groupCount, partitions } = KILLED_CONFIG;
    const args = ["--data-folder", folder, "--group-count", String(groupCount), "--partitions", String(partitions)];
    const stopped = await processes.start(args, "serving without a part");
    assert.equal(await ended(stopped.child, "SIGTERM"), 0);
    const running = await processes.start(args, "serving without a part");
    assert.match(await readyz(running), new RegExp(`^503 not ready\\n${part} is out: .*; .*concord repair ${folder}`, "u"));
    await assertServed(running, [part]);
    await putBack();
    await untilReady(running);
    await assertServed(running, []);
    assert.equal(await ended(running.child, "SIGTERM"), 0);
  });
}

const FOOTER_BYTES = 48;

test("[OPS6] process: the way to the filters of every table of rows and of objects is damaged: no key is lost, so everything serves", async () => {
  const folder = await mkdtemp(join(root, "copy-"));
  await cp(data, folder, { recursive: true });
  let damaged = 0;
  for (const store of ["storage/store", "objects/metadata", "messages/meta"]) {
    for (const name of (await readdir(join(folder, store))).filter((one) => one.endsWith(".ldb"))) {
      const bytes = await readFile(join(folder, store, name));
      bytes[bytes.length - FOOTER_BYTES]! ^= 4;
      await writeFile(join(folder, store, name), bytes);
      damaged += 1;
    }
  }
  assert.ok(damaged > 0);
  const { groupCount, partitions } = KILLED_CONFIG;
  const args = ["--data-folder", folder, "--group-count", String(groupCount), "--partitions", String(partitions)];
  const running = await processes.start(args);
  await untilReady(running);
  await assertServed(running, []);
  assert.equal(await ended(running.child, "SIGTERM"), 0);
});
