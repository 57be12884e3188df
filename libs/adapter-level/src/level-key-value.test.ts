// The level store keeps the port's promises. A crash is a copy of the files at that moment: what kill -9 would leave.
import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { backingStoreContract, type BackingStoreSubject } from "@concord/port-contracts";
import type { BackingStore } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { openLevel } from "./index.ts";

const root = await mkdtemp(join(tmpdir(), "concord-level-"));
const opened: BackingStore[] = [];
let folders = 0;

after(async () => {
  for (const store of opened) await store.close();
  await rm(root, { recursive: true });
});

async function open(folder: string): Promise<BackingStore> {
  const store = await openLevel(folder);
  opened.push(store);
  return store;
}

async function subject(): Promise<BackingStoreSubject> {
  const folder = join(root, `store-${(folders += 1)}`);
  const store = await open(folder);
  return {
    store,
    async reopen() {
      await store.close();
      return open(folder);
    },
    async crash() {
      await cp(folder, `${folder}-crashed`, { recursive: true });
      return open(`${folder}-crashed`);
    },
  };
}

backingStoreContract(test, subject);

test("openLevel: the store is open already: STORE_FAILED with the reason", async () => {
  const folder = join(root, "taken");
  await open(folder);
  await assert.rejects(
    openLevel(folder),
    (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && /lock/i.test(error.message),
  );
});

test("openLevel: a folder below folders that do not exist: made; a file in the way: STORE_FAILED", async () => {
  const store = await open(join(root, "a", "b", "c"));
  await store.batch([{ kind: "put", key: Uint8Array.of(1), value: Uint8Array.of(1) }]);
  await writeFile(join(root, "file"), "in the way");
  await assert.rejects(openLevel(join(root, "file")), { code: "STORE_FAILED" });
});

test("openLevel: crash right after creation: opens again, empty", async () => {
  const { crash } = await subject();
  const store = await crash();
  assert.deepEqual(await store.range({ from: new Uint8Array(), to: Uint8Array.of(255), limit: 1 }), []);
});

test("batch: the store was closed under it: STORE_FAILED, and every later write refused", async () => {
  const { store } = await subject();
  await store.close();
  const write = (): Promise<void> => store.batch([{ kind: "put", key: Uint8Array.of(1), value: Uint8Array.of(1) }]);
  await assert.rejects(write(), (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && error.applied === "unknown");
  await assert.rejects(write(), (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && error.applied === "no");
});
