// Txn-coordinators in processes of their own, in load: a fourth is added to three, and one of the first three is removed, by the operator's command.
// Groups move by planned hand-over: no transaction fails, lists have each acknowledged append once. The longest pauses are printed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { connect, type ConcordClient } from "@concord/client";
import { startConstellation, type Constellation } from "./constellation.ts";
import { ListLoad } from "./list-load.ts";
import { NodeProcess } from "./node-process.ts";
import { reservePorts, type ReservedPorts } from "./ports.ts";
import { until } from "./until.ts";

const PROGRAM = fileURLToPath(import.meta.resolve("@concord/txn-coordinator/main"));
const NAME = "txn-coordinator-4";
const READY_MS = 480_000;
/** Generous: the machine of the tests may be busy with others. */
const DEADLINE_MS = 60_000;

let folder: string;
let constellation: Constellation;
let reserved: ReservedPorts;
let fourth: NodeProcess;
let clients: readonly ConcordClient[];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-coordinators-"));
  constellation = await startConstellation({ dataFolder: join(folder, "three"), portBase: "free", onCrash: () => undefined });
  reserved = await reservePorts(2);
  const [address, adminAddress] = reserved.ports.map((port) => `127.0.0.1:${port}`);
  const plan = { name: NAME, service: "txn-coordinator", datacenter: "dc1", address: address!, adminAddress: adminAddress! } as const;
  // As the others are configured, but for what is its own: it is not among the coordinators there.
  const config = { ...configOf("txn-coordinator-1"), nodeName: NAME, listenAddress: address, adminAddress, datacenter: "dc1" };
  fourth = new NodeProcess({ plan, program: PROGRAM, folder: mkdtempSync(join(folder, "fourth-")), config, onCrash: () => undefined });
  const { coordinators } = constellation;
  clients = await Promise.all([0, 1].map(() => connect({ coordinators, timeoutMs: DEADLINE_MS })));
});

after(async () => {
  for (const client of clients ?? []) client.close();
  await fourth?.stop();
  await constellation?.stop();
  await reserved?.release();
  rmSync(folder, { recursive: true, force: true });
});

function configOf(name: string): Readonly<Record<string, unknown>> {
  return JSON.parse(readFileSync(join(folder, "three", name, "config.json"), "utf8")) as Record<string, unknown>;
}

/** The command with the configuration of a coordinator, as an operator runs it. */
async function command(...words: readonly string[]): Promise<{ readonly code: number | null; readonly out: string }> {
  const config = join(folder, "three", "txn-coordinator-2", "config.json");
  const child = spawn(process.execPath, [PROGRAM, "coordinators", ...words, "--config", config], { stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => void (out += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out };
}

/** Groups of this master, as a new client hears of them from the second coordinator, which stays. */
async function groupsOf(name: string): Promise<{ readonly all: readonly string[]; readonly own: readonly string[] }> {
  const client = await connect({ coordinators: [constellation.coordinators[1]!], timeoutMs: DEADLINE_MS });
  const { groups } = client.topology;
  client.close();
  return { all: groups.map(({ id }) => id), own: groups.filter(({ master }) => master === name).map(({ id }) => id) };
}

test("[TX3, TX17, TX32] [OPS20] coordinators: a fourth is added in load and takes groups, the first is removed and ends: no transaction fails", async (t) => {
  const load = await ListLoad.start({ clients, writers: 2, pauseMs: 5, deadlineMs: DEADLINE_MS });
  try {
    await addFourth(t, load);
    await removeFirst(t, load);
  } finally {
    await load.stop();
  }
  assert.deepEqual(load.failures, []);
  assert.equal(await load.check(), undefined);
});

async function addFourth(t: TestContext, load: ListLoad): Promise<void> {
  fourth.spawn();
  const since = performance.now();
  const { code, out } = await command("add", NAME, fourth.plan.address, "dc1");
  assert.equal(code, 0, out);
  assert.match(out, /txn-coordinator-4 127\.0\.0\.1:\d+ dc1 member/);
  await fourth.ready({ timeoutMs: READY_MS });
  await until("the fourth is a master", async () => (await groupsOf(NAME)).own.length > 0);
  await load.commitsSince((await groupsOf(NAME)).all, performance.now());
  t.diagnostic(`added: longest pause of a group ${load.longestGapMs(since).toFixed(0)} ms`);
}

async function removeFirst(t: TestContext, load: ListLoad): Promise<void> {
  const first = constellation.process("txn-coordinator-1");
  const since = performance.now();
  const { code, out } = await command("remove", "txn-coordinator-1");
  assert.equal(code, 0, out);
  assert.doesNotMatch(out.slice(out.lastIndexOf("version")), /txn-coordinator-1 /);
  await first.exited();
  assert.match(first.logTail(), /txn-coordinator-1 was removed from the list of coordinators/);
  const { all, own } = await groupsOf("txn-coordinator-1");
  await load.commitsSince(all, performance.now());
  assert.deepEqual(own, []);
  t.diagnostic(`removed: longest pause of a group ${load.longestGapMs(since).toFixed(0)} ms`);
}
