// Three nodes as `npm start -- --nodes 3` runs them, with objects and messages in load: one is killed, another is paused for 3 s and wakes as a
// zombie. Nothing acknowledged is lost, nothing comes twice, leaks or dangles; the times until the others have taken over are printed.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type ConcordClient } from "@concord/client";
import { startConstellation, type Constellation } from "./constellation.ts";
import { isRecovered, objectAdmin } from "./object-admin.ts";
import { ObjectMessageLoad } from "./object-message-load.ts";
import { until } from "./until.ts";

const [FIRST, SECOND, THIRD] = ["concord-1", "concord-2", "concord-3"] as const;
const PAUSE_MS = 3_000;
/** Without it the load takes all CPU of a slow machine, and the takeover that is waited for has none. */
const PAUSE_BETWEEN_MS = 50;

let folder: string;
let constellation: Constellation;
let db: ConcordClient;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-nodes-"));
  constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { concord: 3 },
    config: { concord: { collectIntervalMs: 1_000 } },
  });
  db = await connect({ dedupWorker: constellation.dedupWorkers, timeoutMs: 30_000 });
});

after(async () => {
  db?.close();
  await constellation?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The sum of a metric's samples at a node; undefined while it does not answer. */
async function metric(node: string, name: string): Promise<number | undefined> {
  try {
    const response = await fetch(`http://${constellation.process(node).plan.adminAddress}/metrics`, { signal: AbortSignal.timeout(2_000) });
    const lines = (await response.text()).split("\n").filter((line) => line.startsWith(name));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  } catch {
    return undefined;
  }
}

/** Every partition runs at one of these. */
const areOpen =
  (nodes: readonly string[]): (() => Promise<boolean>) =>
  async () => {
    const counts = await Promise.all(nodes.map((node) => metric(node, "dedup_partition_running{")));
    return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0) === 4;
  };

test("[OGD3, OGD16, DDD4] three nodes: SIGKILL of one and SIGSTOP of another in mid-load: all acknowledged is there, each message once, nothing leaks", async (context: TestContext) => {
  await until("all partitions open", areOpen([FIRST, SECOND, THIRD]));
  const load = await ObjectMessageLoad.start({ constellation, db, pauseMs: PAUSE_BETWEEN_MS });
  context.after(() => load.close());
  await sleep(2_000);
  const admin = objectAdmin(constellation);
  context.after(() => admin.close());
  assert.equal(await isRecovered(admin, FIRST), false);
  const [recovered, open] = await Promise.all([
    constellation.kill(FIRST).then(() => until("the epoch of the dead node", () => isRecovered(admin, FIRST))),
    until("all partitions", areOpen([SECOND, THIRD])),
  ]);
  context.diagnostic(`SIGKILL: epoch recovered after ${Math.round(recovered)} ms, all partitions open after ${Math.round(open)} ms`);
  await constellation.restart(FIRST);
  await until("all partitions open again", areOpen([FIRST, SECOND, THIRD]));
  const paused = constellation.process(SECOND).pid!;
  const begun = performance.now();
  process.kill(paused, "SIGSTOP");
  const elsewhere = await until("all partitions elsewhere", areOpen([FIRST, THIRD]));
  await sleep(Math.max(0, PAUSE_MS - (performance.now() - begun)));
  process.kill(paused, "SIGCONT");
  context.diagnostic(
    `SIGSTOP: all partitions open elsewhere after ${Math.round(elsewhere)} ms, woken after ${Math.round(performance.now() - begun)} ms`,
  );
  await until("all partitions open at last", areOpen([FIRST, SECOND, THIRD]));
  await sleep(1_000);
  await load.stop();
  context.diagnostic(`${load.objects} objects and ${load.messages} messages acknowledged`);
  assert.ok(load.objects > 0 && load.messages > 0);
  assert.equal(await load.check(), undefined);
});
