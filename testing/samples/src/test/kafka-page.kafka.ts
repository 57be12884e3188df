// docs/kafka.md as a reader follows it, on a real broker with access control. Changed are the block "Your cluster", which is the reader's own, and the addresses of the workers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { after, test } from "node:test";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import { brokers, env, foreign, ids, jsonOf, loginBrokers, values } from "@concord/dedup-worker/testing";
import { differencesOf, scriptOf, stepsOf } from "../page.ts";

const CLONE = resolve(import.meta.dirname, "../../../..");
const PAGE = readFileSync(join(CLONE, "docs/kafka.md"), "utf8");
const ENGINE = process.env["ENGINE_KAFKA_FOLDER"] ?? "";
/** Not a reader's, and what would make the workers' settings others than the page's. */
const NOT_A_READERS = /^(npm_|NX_|CONCORD_)/i;

const folder = mkdtempSync(join(tmpdir(), "concord-kafka-page-"));
after(() => rmSync(folder, { recursive: true, force: true }));

/** The reader's own settings in place of the page's: one broker, its commands, this clone. */
function yourCluster(): string {
  const plain = brokers.join(",");
  return [
    `export BROKERS=${loginBrokers().join(",")}`,
    `export ADMIN="--bootstrap-server ${plain}"`,
    `export CLIENT='${JSON.stringify({ "bootstrap.servers": plain })}'`,
    "export REPLICAS=1 MIN_INSYNC=1",
    `export PATH=${[join(ENGINE, "bin"), join(CLONE, "node_modules/.bin")].join(delimiter)}:$PATH`,
    `export DEDUP_WORKER=${join(CLONE, "apps/dedup-worker/src/main.ts")}`,
    "",
  ].join("\n");
}

async function withFreeAddresses(script: string): Promise<string> {
  const free = new Map<string, string>();
  for (const [address] of script.matchAll(/127\.0\.0\.1:7\d{3}\b/g)) if (!free.has(address)) free.set(address, await freeAddress());
  return script.replaceAll(/127\.0\.0\.1:7\d{3}\b/g, (address) => free.get(address)!);
}

/** In a process group of its own: what it left running ends with it. */
async function ran(script: string): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => !NOT_A_READERS.test(name)));
  const child = spawn("bash", ["--norc", "-euo", "pipefail", "-c", script], {
    cwd: folder,
    env: kept,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (bytes: Buffer) => (stdout += bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => (stderr += bytes.toString()));
  const closed = once(child, "close");
  const [code] = (await once(child, "exit")) as [number | null];
  try {
    process.kill(-child.pid!, "SIGKILL");
  } catch {
    // Nothing of it is left.
  }
  await closed;
  return { code, stdout, stderr };
}

test("docs/kafka.md: followed from top to bottom: each step prints what the page shows, each message of the topic comes out once", async () => {
  const steps = stepsOf(PAGE.replace(/(?<=^## Your cluster\n[^]*?```sh\n)[^]*?(?=```)/m, () => yourCluster()));
  assert.ok(steps.length >= 15, "the page has its steps");
  await foreign("admin", { create: "events", partitions: 2 });
  await foreign("produce", { topic: "events", messages: ids(10, "old").map((id) => ({ value: jsonOf(id) })) });
  writeFileSync(join(folder, "worker.log"), "");
  const { code, stdout, stderr } = await ran(await withFreeAddresses(scriptOf(steps)));
  const log = readFileSync(join(folder, "worker.log"), "utf8");
  assert.deepEqual([differencesOf(steps, stdout), code], [[], 0], `${stderr}\n${log}`);
  const orders = Array.from({ length: 100 }, (_, at) => `{"messageId": "order-${at}", "user": "u${at % 7}"}`);
  assert.deepEqual(await values("events-once"), [...orders, '{"id": "order-100", "user": "u1"}'].toSorted());
});
