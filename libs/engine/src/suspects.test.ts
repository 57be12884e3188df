// Suspect keys of the store: no step that loads one runs, no read answers one, and nothing else is refused for it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { StoreStep } from "@concord/ports";
import { ConcordError, type Clock } from "@concord/runtime";
import { Engine } from "./index.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (value: Uint8Array | undefined): string | undefined => value && new TextDecoder().decode(value);
const clock: Clock = {
  nowMs: () => 0,
  nowUs: () => 0n,
  monotonicMs: () => 0,
  setTimer: () => ({ cancel: () => undefined }),
  defer: (action) => action(),
};
const REFUSED = { code: "CORRUPT_DATA", applied: "no" };
const SUSPECT = "s";

/** Refuses keys that begin with SUSPECT, as the store of a node does. */
class SuspectStore extends MemoryKeyValue {
  override suspects = {
    ranges: [{ from: bytes("s"), to: bytes("t") }],
    refusal: (keys: readonly Uint8Array[]): ConcordError | undefined =>
      keys.some((key) => textOf(key)?.startsWith(SUSPECT))
        ? new ConcordError("CORRUPT_DATA", "may be older than it was", { applied: "no" })
        : undefined,
    clear: () => Promise.resolve(),
    drop: () => Promise.resolve(),
  };

  override getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    const refusal = this.suspects.refusal(keys);
    return refusal === undefined ? super.getMany(keys) : Promise.reject(refusal);
  }

  override peek(key: Uint8Array): Uint8Array | undefined | "ask" {
    return this.suspects.refusal([key]) === undefined ? super.peek(key) : "ask";
  }
}

function setUp(): Engine {
  return new Engine({ store: new SuspectStore(), clock, onFailed: assert.fail });
}

const append = (key: string, suffix: string): StoreStep<string> => ({
  load: [bytes(key)],
  run: ([value]) => {
    const next = (textOf(value) ?? "") + suffix;
    return { persist: [{ kind: "put", key: bytes(key), value: bytes(next) }], reply: next };
  },
});

/** A step like those of rows that follow from a log: a whole value, without a load. */
const derive = (key: string): StoreStep<string> => ({
  load: [],
  run: () => ({ persist: [], derived: [{ kind: "put", key: bytes(key), value: bytes("new") }], reply: key }),
});

test("suspect keys: a step that loads one is refused by itself: steps of the same load run, and the engine goes on (I12)", async () => {
  const engine = setUp();
  const together = await Promise.allSettled([append("a", "1"), append("s1", "1"), append("b", "1")].map((step) => engine.submit(step)));
  assert.deepEqual(
    together.map((one) => (one.status === "fulfilled" ? one.value : (one.reason as ConcordError).code)),
    ["1", "CORRUPT_DATA", "1"],
  );
  await assert.rejects(engine.submit(append("s1", "2")), REFUSED);
  assert.equal(await engine.submit(append("a", "2")), "12");
});

test("suspect keys: one is put without a load: taken, and refused to each reader, also while its value is in the view (I12)", async () => {
  const engine = setUp();
  const put = engine.submit(derive("s1"));
  await assert.rejects(engine.getMany([bytes("s1")]), REFUSED);
  assert.equal(engine.peek(bytes("s1")), "ask");
  assert.equal(await put, "s1");
  const persisted = await engine.submit({
    load: [],
    run: () => ({ persist: [{ kind: "put", key: bytes("s2"), value: bytes("new") }], reply: "put" }),
  });
  assert.equal(persisted, "put");
  for (const key of ["s1", "s2"]) {
    assert.equal(engine.peek(bytes(key)), "ask");
    await assert.rejects(engine.getSynced([bytes("a"), bytes(key)]), REFUSED);
    await assert.rejects(engine.getMany([bytes(key)]), REFUSED);
  }
  assert.deepEqual(await engine.getMany([bytes("a")]), [undefined]);
});
