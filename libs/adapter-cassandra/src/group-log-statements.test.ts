import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppendRequest } from "@concord/ports";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { GroupLogStatements } from "./group-log-statements.ts";

const statements = new GroupLogStatements("k");
const owner = { group: "g", epoch: epochOf(2n), owner: "a" };
const request = (appliedSeq: bigint): AppendRequest => ({
  ...owner,
  seq: seqOf(5n),
  previousEpoch: epochOf(1n),
  timestampCeilingUs: timestampUsOf(9n),
  bytes: Uint8Array.of(1),
  rows: new Uint8Array(),
  decided: { seq: seqOf(appliedSeq), epoch: epochOf(appliedSeq === 0n ? 0n : 1n) },
});
const marks = (appliedSeq: bigint) => ({ ceilingUs: timestampUsOf(9n), appliedSeq: seqOf(appliedSeq), appliedEpoch: epochOf(1n) });

const WRITES = {
  createHeader: statements.createHeader(owner),
  raise: statements.raise(owner),
  append: statements.append(request(3n), Uint8Array.of(7), marks(3n)),
  adopt: statements.adopt(owner, seqOf(4n), seqOf(5n)),
  advance: statements.advance(owner, seqOf(4n), epochOf(2n)),
};

for (const [name, written] of Object.entries(WRITES)) {
  test(`[TXC1] ${name}: one condition, on the header row by its whole key; no timestamp, no TTL, one partition`, () => {
    assert.equal(written.filter(({ query }) => /\bIF\b/.test(query)).length, 1);
    assert.match(written[0]!.query, /\bIF\b/);
    for (const { query, parameters } of written) {
      assert.doesNotMatch(query, /TIMESTAMP|TTL|static|\bIN\b/i);
      assert.equal((query.match(/\?/g) ?? []).length, parameters.length);
      assert.ok(parameters.includes("g"), query);
    }
  });
}

test("[TXC1] append: header and one entry; the delete of what is applied rides along only with a mark that is the header's new one", () => {
  const kinds = (appliedSeq: bigint, marked: bigint): readonly string[] =>
    statements.append(request(appliedSeq), Uint8Array.of(7), marks(marked)).map(({ query }) => query.split(" ")[0]!);
  assert.deepEqual(kinds(3n, 3n), ["UPDATE", "INSERT", "DELETE"]);
  assert.deepEqual(kinds(0n, 0n), ["UPDATE", "INSERT"]);
  assert.deepEqual(kinds(2n, 3n), ["UPDATE", "INSERT"]);
});
