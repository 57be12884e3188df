// What the judge of a dedup worker's crashes calls lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Constellation, PlainGrpc } from "@concord/constellation";
import { DedupSubject } from "./dedup-cycles.ts";

const message = (offset: number): object => ({ id: `id ${offset}`, value: new Uint8Array(), nullValue: false });

/** A worker of one partition: what it says is its end, and what it has when it is read. */
function subjectOf(worker: { said: number; has: number }, made = message): DedupSubject {
  const answers: Readonly<Record<string, (request: { topic: string; fromOffset: bigint }) => object>> = {
    GetBounds: ({ topic }) => ({ startOffset: 0n, endOffset: topic === "TOPIC_OUTPUT" ? BigInt(worker.said) : 0n, partitions: 1 }),
    Read: ({ fromOffset }) => {
      const from = Number(fromOffset);
      return { messages: Array.from({ length: worker.has - from }, (_, at) => made(from + at)), nextOffset: BigInt(worker.has) };
    },
  };
  const call = async (method: string, request: never): Promise<object> => answers[method]!(request);
  const grpc = (() => ({ call, close: () => undefined })) as unknown as PlainGrpc;
  return new DedupSubject({ dedupWorkers: ["worker"] } as unknown as Constellation, grpc);
}

test("judge: input of the life before is published between the bounds and the page: nothing lost, nothing twice", async () => {
  const worker = { said: 10, has: 26 };
  const subject = subjectOf(worker);
  await subject.judge();
  worker.said = 26;
  await subject.judge();
  assert.deepEqual([subject.tally.lost, subject.tally.duplicated], [0, 0]);
});

test("judge: an end that moved back: what was read before is lost", async () => {
  const worker = { said: 10, has: 10 };
  const subject = subjectOf(worker);
  await subject.judge();
  worker.said = 7;
  await subject.judge();
  assert.equal(subject.tally.lost, 3);
});

test("judge: a tombstone that came out with an empty value, a message that came out as a tombstone: each counts as lost and is named", async () => {
  const worker = { said: 3, has: 3 };
  const forms = [
    { id: "crash-13", nullValue: false },
    { id: "crash-23", nullValue: true },
    { id: "crash-24", nullValue: true },
  ];
  const subject = subjectOf(worker, (at) => ({ ...forms[at], value: new Uint8Array() }));
  await subject.judge();
  assert.equal(subject.tally.lost, 2);
  assert.deepEqual(subject.notes, ["crash-13 has a value, it was sent with none", "crash-24 has no value, it was sent with one"]);
});
