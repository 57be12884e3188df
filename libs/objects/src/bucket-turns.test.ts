// Changes of one bucket, one after the other, while clients come and go.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BucketTurns } from "./bucket-turns.ts";

interface Work {
  readonly end: () => void;
  readonly run: () => Promise<string>;
}

function workOf(name: string, begun: string[]): Work {
  let end: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const run = (): Promise<string> => {
    begun.push(name);
    return ended.then(() => name);
  };
  return { end, run };
}

test("turns: one after the other for a bucket, at once for two; one that fails ends its turn", async () => {
  const turns = new BucketTurns();
  const begun: string[] = [];
  const [first, second, other] = ["first", "second", "other"].map((name) => workOf(name, begun)) as [Work, Work, Work];
  const failing = turns.run("b", () => first.run().then(() => Promise.reject(new Error("it failed"))));
  const waiting = turns.run("b", second.run);
  const beside = turns.run("c", other.run);
  assert.deepEqual(begun, ["first", "other"]);
  for (const { end } of [first, second, other]) end();
  await assert.rejects(failing, { message: "it failed" });
  assert.deepEqual([await waiting, await beside], ["second", "other"]);
});

test("turns: clients that abandon a change before it ends, and repeat it: none of theirs runs, the one that waits does", async () => {
  const turns = new BucketTurns();
  const begun: string[] = [];
  const slow = workOf("slow", begun);
  const running = turns.run("b", slow.run);
  for (let at = 0; at < 100; at += 1) {
    const client = new AbortController();
    const repeated = turns.run("b", workOf(`abandoned ${at}`, begun).run, client.signal);
    client.abort();
    await assert.rejects(repeated, { code: "CANCELLED", applied: "no" });
  }
  const last = workOf("last", begun);
  const waiting = turns.run("b", last.run, new AbortController().signal);
  slow.end();
  last.end();
  assert.deepEqual([await running, await waiting, begun], ["slow", "last", ["slow", "last"]]);
});

test("turns: a client that was gone before its request came: it does not wait; one that goes amid its turn: the change ends", async () => {
  const turns = new BucketTurns();
  const begun: string[] = [];
  const [slow, next] = [workOf("slow", begun), workOf("next", begun)];
  const client = new AbortController();
  const running = turns.run("b", slow.run, client.signal);
  client.abort();
  await assert.rejects(turns.run("b", next.run, client.signal), { code: "CANCELLED" });
  slow.end();
  assert.equal(await running, "slow");
  assert.deepEqual(begun, ["slow"]);
});
