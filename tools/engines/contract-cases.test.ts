import assert from "node:assert/strict";
import { test } from "node:test";
import { contractTable } from "./contract-cases.ts";
import { endedTests } from "./ended-tests.ts";

const line = (name: string, file: string, isPassed = true): string => JSON.stringify({ name, file, isPassed });

test("cases: counted by port and adapter, variants apart, failures in a column of their own; other tests are none", () => {
  const tests = endedTests(
    [
      line("transactional: MessageLog contract: open: new", "/w/libs/adapter-kafka/src/test/contract.kafka.ts"),
      line("transactional: MessageLog contract: read: empty", "/w/libs/adapter-kafka/src/test/contract.kafka.ts"),
      line("single-owner: MessageLog contract: open: new", "/w/libs/adapter-kafka/src/test/contract.kafka.ts", false),
      line("ObjectData contract: write: empty", "/w/libs/adapter-rados/src/test/contract.ceph.ts"),
      line("[DD16] brokers: each says its settings", "/w/libs/adapter-kafka/src/test/guards.kafka.ts"),
    ]
      .map((text) => `${text}\n`)
      .join(""),
  );
  assert.deepEqual(contractTable(tests, "/w").split("\n"), [
    "port        adapter                       cases  failed",
    "MessageLog  adapter-kafka, single-owner       0       1",
    "MessageLog  adapter-kafka, transactional      2       0",
    "ObjectData  adapter-rados                     1       0",
  ]);
});

test("cases: no contract ran: nothing", () => {
  assert.equal(contractTable(endedTests(`${line("[DD16] x", "/w/libs/a/src/test/a.kafka.ts")}\n`), "/w"), "");
});
