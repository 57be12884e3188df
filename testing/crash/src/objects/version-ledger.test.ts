// What the judge of announced buckets calls lost, dirty, duplicated, and open.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fate, type Judgement, type ListedVersion, VersionLedger, type VersionEvent } from "./version-ledger.ts";

const KEPT = (): Fate => "kept";
const A: ListedVersion = { key: "k", id: "1", etag: "a" };
const B: ListedVersion = { key: "k", id: "2", etag: "b" };
const created = ({ key, id, etag }: ListedVersion, requestId = `r${id}`): VersionEvent => ({
  name: "ObjectCreated:Put",
  key,
  id,
  etag,
  requestId,
});
const removed = ({ key, id }: ListedVersion, name = "ObjectRemoved:Delete"): VersionEvent => ({
  name,
  key,
  id,
  etag: undefined,
  requestId: `d${id}`,
});

/** Two versions, of which the second is newer, both answered. */
function ledgerOf(...events: readonly VersionEvent[]): VersionLedger {
  const ledger = new VersionLedger("bucket");
  for (const version of [A, B]) {
    ledger.sent(version.key, version.etag!);
    ledger.acknowledged(version, "kept");
  }
  for (const event of events) ledger.came(event);
  return ledger;
}

const kindsOf = ({ findings, open }: Judgement): readonly string[] => [...findings.map(({ kind }) => kind), ...open.map(() => "open")];
const judged = (ledger: VersionLedger, listed: readonly ListedVersion[], fateOf = KEPT): readonly string[] =>
  kindsOf(ledger.judge(listed, fateOf));

test("ledger: all there, each announced once: nothing found", () => {
  assert.deepEqual(judged(ledgerOf(created(A), created(B)), [B, A]), []);
});

test("ledger: an acknowledged version is gone: lost; its bytes are others: dirty; the order of versions is another: dirty", () => {
  const ledger = ledgerOf(created(A), created(B));
  assert.deepEqual(judged(ledger, [B]), ["lost", "open"]);
  assert.deepEqual(judged(ledger, [B, { ...A, etag: "b" }]), ["dirty"]);
  assert.deepEqual(judged(ledger, [A, B]), ["dirty"]);
});

test("ledger: events: one missing is open; twice: duplicated; of what was never sent, or was refused: dirty", () => {
  assert.deepEqual(judged(ledgerOf(created(A)), [B, A]), ["open"]);
  assert.deepEqual(judged(ledgerOf(created(A), created(B), created(B, "another")), [B, A]), ["duplicated"]);
  assert.deepEqual(judged(ledgerOf(created(A), created(B), created({ key: "k", id: "3", etag: "c" })), [B, A]), ["dirty", "open"]);
  const refused = ledgerOf(created(A), created(B));
  refused.refused("r2", "a put");
  assert.deepEqual(judged(refused, [B, A]), ["dirty"]);
});

test("ledger: removals: answered and there: dirty; gone without event: open; announced and there: dirty; indeterminate: either", () => {
  const there = ledgerOf(created(A), created(B));
  there.removing(A);
  assert.deepEqual(judged(there, [B, A]), []);
  assert.deepEqual(judged(there, [B]), ["open"]);
  there.came(removed(A));
  assert.deepEqual(judged(there, [B]), []);
  assert.deepEqual(judged(there, [B, A]), ["dirty"]);
  const done = ledgerOf(created(A), created(B));
  done.removing(A);
  done.removed(A);
  assert.deepEqual(judged(done, [B, A]), ["dirty"]);
});

test("ledger: an indeterminate put: there with its event, or neither; there without one, or announced and not there: open", () => {
  const C: ListedVersion = { key: "k", id: "3", etag: "c" };
  const ledger = ledgerOf(created(A), created(B));
  ledger.sent("k", "c");
  assert.deepEqual(judged(ledger, [B, A]), []);
  assert.deepEqual(judged(ledger, [C, B, A]), ["open"]);
  ledger.came(created(C));
  assert.deepEqual(judged(ledger, [B, A]), ["open"]);
  assert.deepEqual(judged(ledger, [C, B, A]), []);
  ledger.decide([C, B, A], KEPT);
  assert.deepEqual(judged(ledger, [B, A]), ["lost", "open"]);
});

test("ledger: expired: must be gone, with one event; what a rule may remove is there or announced", () => {
  const fateOf = (): Fate => "expiring";
  const ledger = new VersionLedger("bucket");
  ledger.sent("k", "a");
  ledger.acknowledged(A, "expiring");
  ledger.came(created(A));
  assert.deepEqual(judged(ledger, [A], fateOf), ["open"]);
  assert.deepEqual(judged(ledger, [], fateOf), ["open"]);
  ledger.came(removed(A, "LifecycleExpiration:Delete"));
  assert.deepEqual(judged(ledger, [], fateOf), []);
});
