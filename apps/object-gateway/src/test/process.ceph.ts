// The real program with objects in a real Ceph cluster: killed at points of an upload, and its OSD beside it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { conf, flagsFor, newNamespace, recovered, report } from "./on-rados.ts";
import { call, newFolder, start, stop } from "./program.ts";

const STRIPE = 4 * 1024 * 1024;
const OLD = "old ".repeat(10_000);
/** Three stripes. */
const NEW = "new!".repeat((2 * STRIPE + 1000) / 4);

/** Sizes of the namespace's stripes by name, from the cluster's own tool. */
function stripesOf(namespace: string): Map<string, number> {
  const rados = (...args: string[]): string => {
    const all = ["-c", conf, "-p", "concord", "--namespace", namespace, ...args];
    const { stdout, stderr, status } = spawnSync("rados", all, { encoding: "utf8", timeout: 30_000 });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  const names = rados("ls")
    .split("\n")
    .filter((name) => name.startsWith("data."));
  return new Map(names.map((name) => [name, Number(/size (\d+)/.exec(rados("stat", name))![1])]));
}

for (const { point, expected } of [
  { point: "piece:created:2", expected: OLD },
  { point: "piece:written:2", expected: OLD },
  { point: "object:after-seal:2", expected: OLD },
  { point: "object:after-commit:2", expected: NEW },
]) {
  test(`[OG4] on RADOS: killed at ${point}: started again: whole, nothing leaked, in no stripe`, async () => {
    const [folder, namespace] = [await newFolder(), newNamespace()];
    const flags = flagsFor(namespace);
    const killed = await start(folder, flags, point);
    await call(killed, "PUT", "/bucket");
    assert.equal((await call(killed, "PUT", "/bucket/k", OLD)).status, 200);
    await assert.rejects(call(killed, "PUT", "/bucket/k", NEW), "the process was killed before it answered");
    await stop(killed, "SIGKILL");
    const again = await start(folder, flags);
    await recovered(again);
    const got = await call(again, "GET", "/bucket/k");
    assert.deepEqual([got.status, got.body === expected], [200, true]);
    const { leaked, dangling } = await report(again);
    assert.deepEqual([leaked, dangling], [[], []]);
    const bytes = [...stripesOf(namespace).values()].reduce((sum, size) => sum + size, 0);
    assert.equal(bytes, expected.length);
    assert.equal((await call(again, "DELETE", "/bucket/k")).status, 204);
    await report(again);
    assert.deepEqual(
      [...stripesOf(namespace).values()].filter((size) => size > 0),
      [],
    );
    await stop(again, "SIGTERM");
  });
}

test("on RADOS: a data folder that is lost: the blobs are found by their epochs, no name is used twice", async () => {
  const namespace = newNamespace();
  const first = await start(await newFolder(), flagsFor(namespace));
  await call(first, "PUT", "/bucket");
  assert.equal((await call(first, "PUT", "/bucket/k", OLD)).status, 200);
  await stop(first, "SIGKILL");
  const second = await start(await newFolder(), flagsFor(namespace));
  await call(second, "PUT", "/bucket");
  assert.equal((await call(second, "PUT", "/bucket/k", NEW)).status, 200);
  assert.equal((await call(second, "GET", "/bucket/k")).body === NEW, true);
  await stop(second, "SIGTERM");
});
