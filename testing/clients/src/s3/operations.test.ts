// Every operation of the S3 API reference by two generations of the SDK and by hand, and docs/s3-operations.md compared with what they saw.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, test } from "node:test";
import { apiFields } from "./api-fields.ts";
import { operationsOfReference, RAW } from "./callers.ts";
import { API_FIELDS, API_SUBRESOURCES } from "@concord/s3";
import { DOCUMENT, documentOf, recorded } from "./document.ts";
import { observeOperations, type Observation } from "./observe.ts";
import { OPERATIONS } from "./operations.ts";

const names = new Set(OPERATIONS.map(({ name }) => name));
let seen: readonly Observation[];
before(async () => {
  seen = await observeOperations();
});

test("operations: the table: every command of the newest SDK and nothing that is no operation", () => {
  const rawOnly = OPERATIONS.filter((one) => one.rawOnly).map(({ name }) => name);
  assert.deepEqual([...names].sort(), [...operationsOfReference(), ...rawOnly].sort());
});

test("operations: libs/s3/src/api-fields.ts: the model of the newest SDK; node testing/clients/src/s3/write-document.ts writes it", () => {
  assert.deepEqual({ subresources: API_SUBRESOURCES, fields: API_FIELDS }, apiFields());
});

test("operations: each by every caller: works with the right answer, or is refused as not implemented", () => {
  const wrong = seen
    .filter((one) => one.wrong !== undefined)
    .map(({ caller, operation, wrong }) => `${caller}: ${operation.name} ${wrong}`);
  assert.deepEqual(wrong, []);
});

test("operations: each by hand: no caller is missing", () => {
  assert.deepEqual(new Set(seen.filter(({ caller }) => caller === RAW).map(({ operation }) => operation.name)), names);
});

test("operations: what clients were recorded to use: operations of the table", () => {
  for (const [client, used] of Object.entries(recorded())) for (const name of used) assert.ok(names.has(name), `${client}: ${name}`);
});

test("operations: docs/s3-operations.md: what the tests saw; node testing/clients/src/s3/write-document.ts writes it", () => {
  const linesOf = (text: string): Set<string> => new Set(text.split("\n"));
  const beyond = (all: Set<string>, others: Set<string>): readonly string[] => [...all].filter((line) => !others.has(line));
  const [committed, now] = [readFileSync(DOCUMENT, "utf8"), documentOf(seen, recorded())];
  const [before, after] = [linesOf(committed), linesOf(now)];
  assert.deepEqual({ stale: beyond(before, after), missing: beyond(after, before) }, { stale: [], missing: [] });
  assert.ok(committed === now, "the order of the lines differs");
});
