// What comes while a page is published: one page with what was looked up ahead, where the log knows by itself that there is more.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { MessageLog } from "@concord/ports";
import { fixture, message, outputValues, turn, until, withMethods, type Fixture } from "./test/fixture.ts";

interface Held extends Fixture {
  /** Messages of the input that each publication acknowledges. */
  readonly published: readonly number[];
  readonly release: () => void;
}

/** A worker whose first page, of one message, is being published until it is released. */
async function held({ knowsEnd = true, messages = 100, bytes = 1 << 20 }): Promise<Held> {
  const published: number[] = [];
  const mayPublish = Promise.withResolvers<void>();
  const seenLog = (inner: MessageLog): MessageLog =>
    withMethods(inner, {
      append: async (partition, appended) => {
        const { from } = await inner.append(partition, appended);
        end = from + BigInt(appended.length);
        return { from };
      },
      ...(knowsEnd ? { inputEnd: () => end } : {}),
      open: async (partition, owner) => {
        const session = await inner.open(partition, owner);
        let acknowledged = session.acknowledgedInput;
        return {
          ...session,
          publish: async (publication) => {
            published.push(Number(publication.acknowledgedInput - acknowledged));
            acknowledged = publication.acknowledgedInput;
            await mayPublish.promise;
            return await session.publish(publication);
          },
        };
      },
    });
  let end = 0n;
  const made = fixture({ worker: { page: { messages, bytes } }, seenLog });
  const log = seenLog(made.log);
  await made.worker.start();
  await log.append(0, [message("first")]);
  await until(() => published.length === 1, "the first page is being published");
  return { ...made, log: log as Fixture["log"], published, release: mayPublish.resolve };
}

async function appendEach({ log }: Held, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await log.append(0, [message(id)]);
    await turn();
  }
}

const TEN = Array.from({ length: 10 }, (_, at) => `during ${at}`);

for (const { limits, pages, when } of [
  { limits: {}, pages: [1, 10], when: "one page" },
  {
    limits: { knowsEnd: false },
    pages: [1, 1, 9],
    when: "the log does not know of them: the one that was looked up ahead, then the others",
  },
  { limits: { messages: 4 }, pages: [1, 4, 4, 2], when: "pages of as many messages as one has" },
  { limits: { bytes: 100 }, pages: [1, 1, 3, 3, 3], when: "nothing is added to one that has its bytes" },
]) {
  test(`[DD6] processing: messages that come while a page is published: ${when}`, async () => {
    const run = await held(limits);
    await appendEach(run, TEN);
    run.release();
    await run.worker.whenProcessed(10n);
    assert.deepEqual(run.published, pages);
    assert.equal((await outputValues(run.log)).length, 11);
    await run.worker.stop();
  });
}

test("[DDD7] processing: copies of the page before, of what was looked up ahead and among what came last: each id once, each result right", async () => {
  const run = await held({});
  await appendEach(run, ["first", "a", "first", "a", "b", "b"]);
  run.release();
  const results = await Promise.all([0n, 1n, 2n, 3n, 4n, 5n, 6n].map((offset) => run.worker.whenProcessed(offset)));
  const [accepted, duplicate] = ["accepted", "duplicate"];
  assert.deepEqual(
    results.map(({ kind }) => kind),
    [accepted, duplicate, accepted, duplicate, duplicate, accepted, duplicate],
  );
  assert.deepEqual(run.published, [1, 6]);
  assert.deepEqual(
    await outputValues(run.log),
    ["first", "a", "b"].map((id) => `value of ${id}`),
  );
  await run.worker.stop();
});

test("processing: the worker stops while a page is published: it ends, nothing else is published", async () => {
  const run = await held({});
  const stopped = run.worker.stop();
  await appendEach(run, ["second"]);
  run.release();
  await stopped;
  assert.deepEqual(run.published, [1]);
});
