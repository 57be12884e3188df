import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { FolderInUseError, startConstellation, type Constellation, type ConstellationOptions, type Exit } from "./constellation.ts";

const FAKE = join(import.meta.dirname, "test/fake-node.ts");
const programs = { "storage-proxy": FAKE, "txn-coordinator": FAKE };
let root: string;

before(() => {
  root = mkdtempSync(join(tmpdir(), "concord-constellation-"));
});
after(() => rmSync(root, { recursive: true, force: true }));

const start = (folder: string, options: Partial<ConstellationOptions> = {}): Promise<Constellation> =>
  startConstellation({ dataFolder: join(root, folder), portBase: "free", programs, ...options });
const log = (folder: string, node: string): string => readFileSync(join(root, folder, node, "log"), "utf8");

test("constellation: start: six nodes ready in three datacenters, secrets private; a second start finds tokens and folders", async () => {
  const first = await start("twice");
  const { coordinator } = first.tokens;
  assert.equal(first.nodes.length, 6);
  assert.equal(new Set(first.nodes.map((node) => node.datacenter)).size, 3);
  assert.equal(new Set(first.nodes.flatMap((node) => [node.address, node.adminAddress])).size, 12);
  for (const file of ["tokens.json", "storage-proxy-1/config.json", "storage-proxy-1/log"])
    assert.equal(statSync(join(root, "twice", file)).mode & 0o777, 0o600, file);
  for (const one of ["", "storage-proxy-1"]) assert.equal(statSync(join(root, "twice", one)).mode & 0o777, 0o700, one);
  await first.stop();
  assert.match(log("twice", "txn-coordinator-3"), /drained/);
  const second = await start("twice");
  assert.equal(second.tokens.coordinator, coordinator);
  await second.stop();
});

test("constellation: two on one folder: the second is refused with the first one's process", async () => {
  const first = await start("shared");
  await assert.rejects(start("shared"), (error) => error instanceof FolderInUseError && error.message.includes(String(process.pid)));
  await first.stop();
  assert.equal(existsSync(join(root, "shared/lock")), false);
});

test("constellation: a node ends while starting: refused with the tail of its log, nothing left running", async () => {
  const broken = start("broken", { environment: { "storage-proxy-2": { FAKE_EXIT: "3" } } });
  await assert.rejects(broken, /storage-proxy-2 ended before it was ready[^]*the disk is on fire/);
  await (await start("broken")).stop();
});

test("constellation: a node waits longer than any limit: what it waits for is reported, and the start goes on", async () => {
  const awaited = join(root, "awaited");
  const lines: string[] = [];
  const onProgress = (line: string): void => {
    lines.push(line);
    if (line.includes("waits for")) writeFileSync(awaited, "");
  };
  const environment = { "storage-proxy-2": { FAKE_WAITS_FOR: awaited } };
  const running = await start("waiting", { environment, onProgress, reportMs: 1, readyTimeoutMs: Infinity, silenceMsMax: 60_000 });
  await running.stop();
  assert.ok(
    lines.some((line) => /^storage-proxy-2 after \d+ s: not ready: the start waits for .*awaited$/.test(line)),
    lines.join("\n"),
  );
});

test("constellation: a node waits longer than the given limit: refused with what it waits for, nothing left running", async () => {
  const environment = { "storage-proxy-2": { FAKE_WAITS_FOR: join(root, "never") } };
  const waiting = start("limited", { environment, readyTimeoutMs: 1 });
  await assert.rejects(waiting, /storage-proxy-\d is not ready after 0.001 s: /);
  await (await start("limited")).stop();
});

test("constellation: a node that hangs in its start, without a limit: refused, nothing left running", async () => {
  const environment = { "storage-proxy-2": { FAKE_HANGS: "1" } };
  const hanging = start("hanging", { environment, readyTimeoutMs: Infinity, silenceMsMax: 5_000 });
  await assert.rejects(hanging, /storage-proxy-\d neither answered, used CPU nor logged for 5 s/);
  await (await start("hanging")).stop();
});

test("constellation: told to stop while it starts: what runs is drained, no crash is reported, the folder is free", async () => {
  const stopping = new AbortController();
  const crashes: string[] = [];
  const onProgress = (): void => stopping.abort(new Error("told to stop"));
  const starting = start("stopped", { signal: stopping.signal, onProgress, onCrash: (node) => crashes.push(node.plan.name) });
  await assert.rejects(starting, /told to stop/);
  assert.deepEqual(crashes, []);
  assert.equal(existsSync(join(root, "stopped/lock")), false);
  await (await start("stopped")).stop();
});

test("constellation: a node dies: reported as a crash; killed by us: not; restarted with an environment of its own", async () => {
  const crashes: [string, Exit][] = [];
  const running = await start("crash", { onCrash: (node, exit) => crashes.push([node.plan.name, exit]) });
  await running.kill("storage-proxy-1");
  await running.restart("storage-proxy-1", { CONCORD_NOTE: "second life" });
  assert.match(log("crash", "storage-proxy-1"), /second life/);
  const victim = running.process("txn-coordinator-1");
  const exited = victim.exited();
  process.kill(victim.pid!, "SIGKILL");
  await exited;
  await running.stop();
  assert.deepEqual(crashes, [["txn-coordinator-1", { code: null, signal: "SIGKILL" }]]);
});

test("constellation: more configuration for a service: in every node of it", async () => {
  const running = await start("config", { config: { "txn-coordinator": { note: "extra" } } });
  await running.stop();
  assert.match(log("config", "txn-coordinator-2"), /"note":"extra"/);
  assert.doesNotMatch(log("config", "storage-proxy-2"), /"note":"extra"/);
});
