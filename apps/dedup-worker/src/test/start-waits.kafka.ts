// The real program whose brokers come after it: gone, or there and silent. It waits, reports what for, and serves once they answer.
import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";
import { broker, brokers, newTopics, type Topics } from "@concord/adapter-kafka/testing";
import { StartingProgram } from "@concord/adapter-node-runtime/testing";
import { argumentsOf } from "./foreign.ts";
import { idsOf, ingest, outputOf, statusesOf, WorkerProcesses } from "./worker-process.ts";

const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

const KAFKA = `Kafka at ${brokers.join(", ")}`;

function starting(topics: Topics): StartingProgram {
  const args = argumentsOf(topics, ["--id-source", "header:concord-id", "--admin-address", "127.0.0.1:0"]);
  return new StartingProgram(workers.run({ folder: topics.input, args }));
}

/** How the broker is away, and how it comes. */
const AWAY = [
  { how: "is gone", leave: "kill", come: "start" },
  { how: "is there and silent", leave: "pause", come: "resume" },
] as const;

/** The suite's broker leaves, and is there again after the test, however it ends. */
async function away(t: TestContext, { leave, come }: (typeof AWAY)[number]): Promise<() => Promise<void>> {
  await broker(leave);
  let isAway = true;
  const back = async (): Promise<void> => {
    if (!isAway) return;
    isAway = false;
    await broker(come);
  };
  t.after(back);
  return back;
}

for (const kind of AWAY) {
  test(`[OPS4] on Kafka: the only broker ${kind.how} when a worker starts, new or with a window: it waits, log and /readyz name Kafka, then it serves`, async (t) => {
    const topics = await newTopics();
    const ids = idsOf(40, "sent");
    for (const result of ["VERDICT_ACCEPTED", "VERDICT_DUPLICATE"]) {
      const back = await away(t, kind);
      const worker = starting(topics);
      await worker.reportsWaitFor(KAFKA);
      await back();
      const { address } = await worker.named("serving");
      assert.deepEqual(statusesOf(await ingest(address!, ids)), new Set([result]));
      assert.deepEqual(await outputOf(address!), ids);
      assert.equal((await worker.get("readyz")).status, 200);
      worker.child.kill("SIGTERM");
      assert.deepEqual(await worker.exited, [0, null]);
    }
  });

  test(`[OPS1] on Kafka: SIGTERM while the start waits for a broker that ${kind.how}: it ends in order, exit 0`, async (t) => {
    const topics = await newTopics();
    await away(t, kind);
    const worker = starting(topics);
    await worker.reportsWaitFor(KAFKA);
    worker.child.kill("SIGTERM");
    assert.deepEqual(await worker.exited, [0, null]);
  });
}
