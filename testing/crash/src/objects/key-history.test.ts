// What the judge of switched buckets finds in a key's versions, and what it lets pass.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyHistory, NULL_ID, type KeyVersion } from "./key-history.ts";

const A: KeyVersion = { id: "1", etag: "a" };
const NULL_B: KeyVersion = { id: NULL_ID, etag: "b" };

/** A version with an id, and a null version that is newer. */
function madeBoth(): KeyHistory {
  const history = new KeyHistory();
  history.sent({ kind: "written", etag: "a", withVersions: true });
  history.answered("1");
  history.sent({ kind: "written", etag: "b", withVersions: false });
  history.answered(NULL_ID);
  return history;
}

const settled = (found: readonly KeyVersion[], history = madeBoth()): "fine" | "wrong" =>
  history.settle(found) === undefined ? "fine" : "wrong";

test("history: what was answered is there: fine; and known from then on", () => {
  const history = madeBoth();
  assert.equal(settled([NULL_B, A], history), "fine");
  assert.deepEqual(history.known, [NULL_B, A]);
  assert.equal(history.isSettled, true);
});

test("history: the null version, or one with an id, is gone, has other bytes, or another place: wrong", () => {
  for (const found of [[A], [NULL_B], [], [{ ...NULL_B, etag: "x" }, A], [A, NULL_B], [NULL_B, { ...A, id: "2" }], [NULL_B, NULL_B, A]])
    assert.equal(settled(found), "wrong", JSON.stringify(found));
});

test("history: a put while suspended without an answer: the null version of before or its own, never both, and the others stay", () => {
  const put = (): KeyHistory => {
    const history = madeBoth();
    history.sent({ kind: "written", etag: "c", withVersions: false });
    assert.equal(history.isSettled, false);
    return history;
  };
  const nullC = { id: NULL_ID, etag: "c" };
  for (const found of [
    [NULL_B, A],
    [nullC, A],
  ])
    assert.equal(settled(found, put()), "fine", JSON.stringify(found));
  for (const found of [[A], [nullC], [nullC, NULL_B, A], [{ id: "9", etag: "c" }, NULL_B, A]])
    assert.equal(settled(found, put()), "wrong", JSON.stringify(found));
});

test("history: a put that was answered, and the null version of before is there: wrong", () => {
  const history = madeBoth();
  history.sent({ kind: "written", etag: "c", withVersions: false });
  history.answered(NULL_ID);
  assert.equal(settled([NULL_B, A], history), "wrong");
});

test("history: a put with versions without an answer: none or one more, whatever its id, which is known then", () => {
  const put = (): KeyHistory => {
    const history = madeBoth();
    history.sent({ kind: "written", etag: "c", withVersions: true });
    return history;
  };
  const made = { id: "7", etag: "c" };
  assert.equal(settled([NULL_B, A], put()), "fine");
  const history = put();
  assert.equal(settled([made, NULL_B, A], history), "fine");
  assert.deepEqual(history.known, [made, NULL_B, A]);
  for (const found of [
    [made, A],
    [{ id: NULL_ID, etag: "c" }, A],
    [made, { id: "8", etag: "c" }, NULL_B, A],
    [NULL_B, made, A],
  ])
    assert.equal(settled(found, put()), "wrong", JSON.stringify(found));
});

test("history: a delete while suspended: a null delete marker takes the place of the null version alone; markers are listed apart", () => {
  const hidden = (): KeyHistory => {
    const history = madeBoth();
    history.sent({ kind: "written", etag: undefined, withVersions: false });
    history.answered(NULL_ID);
    return history;
  };
  const marker = { id: NULL_ID, etag: undefined };
  const history = hidden();
  assert.equal(settled([A, marker], history), "fine");
  assert.deepEqual(history.known, [marker, A]);
  for (const found of [[A], [marker], [NULL_B, A], [NULL_B, A, marker], [A, { id: "5", etag: undefined }]])
    assert.equal(settled(found, hidden()), "wrong", JSON.stringify(found));
});

test("history: a removal by id without an answer: there or gone, of that version alone; answered: gone", () => {
  const removal = (): KeyHistory => {
    const history = madeBoth();
    history.sent({ kind: "removed", id: NULL_ID });
    return history;
  };
  assert.equal(settled([NULL_B, A], removal()), "fine");
  assert.equal(settled([A], removal()), "fine");
  assert.equal(settled([NULL_B], removal()), "wrong");
  const history = removal();
  history.answered("");
  assert.equal(settled([NULL_B, A], history), "wrong");
});
