import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "./clock.ts";
import { DESCRIPTOR_RESERVE, DESCRIPTOR_WAIT_MS, DescriptorReserve, isOutOfDescriptors } from "./descriptor-reserve.ts";

const emfile = (): Error => Object.assign(new Error("EMFILE: too many open files, open 'x'"), { code: "EMFILE" });

/** A process that may have so many files open, and a clock that moves when it is waited for. */
class ProcessFixture {
  nowMs = 0;
  othersOpen = 0;
  opens = 0;
  /** Open by the reserve. */
  #held = 0;
  readonly #limit: number;
  readonly reserve: DescriptorReserve;

  constructor(limit: number) {
    this.#limit = limit;
    const setTimer = (delayMs: number, action: () => void): { cancel(): void } => {
      this.nowMs += delayMs;
      queueMicrotask(action);
      return { cancel: () => undefined };
    };
    const clock = { monotonicMs: () => this.nowMs, setTimer } as unknown as Clock;
    const open = (): number => {
      this.open();
      return (this.#held += 1);
    };
    this.reserve = new DescriptorReserve({ clock, open, close: () => void (this.#held -= 1) });
  }

  open(): void {
    this.opens += 1;
    if (this.othersOpen + this.#held >= this.#limit) throw emfile();
  }

  /** Opens a file that stays open. */
  async openFile(): Promise<string> {
    this.open();
    this.othersOpen += 1;
    return "opened";
  }
}

test("descriptors: others have all but the reserve: released inside the call, filled again once they are free, not before", async () => {
  const fixture = new ProcessFixture(DESCRIPTOR_RESERVE + 10);
  fixture.reserve.fill();
  fixture.othersOpen = 10;
  assert.equal(fixture.reserve.size, DESCRIPTOR_RESERVE);
  assert.equal(await fixture.reserve.within(() => fixture.openFile()), "opened");
  assert.deepEqual([fixture.reserve.size, fixture.nowMs], [0, 0], "at once");
  assert.equal(await fixture.reserve.within(() => fixture.openFile()), "opened");
  assert.equal(fixture.reserve.size, 0, "what opens several files has them");
  fixture.nowMs += 1_000;
  fixture.reserve.fill();
  assert.equal(fixture.reserve.size, DESCRIPTOR_RESERVE - 2, "as many as are free");
  fixture.othersOpen = 0;
  fixture.reserve.fill();
  assert.equal(fixture.reserve.size, DESCRIPTOR_RESERVE);
});

test("descriptors: none for a while: waits for one; none for long: the error of the last try, after a named time", async () => {
  const fixture = new ProcessFixture(5);
  fixture.othersOpen = 5;
  const until = 3_000;
  const answer = await fixture.reserve.within(async () => {
    if (fixture.nowMs >= until) fixture.othersOpen = 0;
    return await fixture.openFile();
  });
  assert.deepEqual([answer, fixture.nowMs], ["opened", until]);
  fixture.othersOpen = 5;
  await assert.rejects(
    fixture.reserve.within(() => fixture.openFile()),
    { code: "EMFILE" },
  );
  assert.equal(fixture.nowMs, until + DESCRIPTOR_WAIT_MS);
  fixture.opens = 0;
  await assert.rejects(
    fixture.reserve.within(() => fixture.openFile(), 0),
    { code: "EMFILE" },
  );
  assert.ok(fixture.opens <= 2, "a caller that does not wait is answered soon");
});

test("descriptors: demanded: as many as are free, and one more, which throws; all are free again afterwards", () => {
  const fixture = new ProcessFixture(DESCRIPTOR_RESERVE + 8);
  fixture.reserve.fill();
  fixture.reserve.demand(8);
  assert.throws(() => fixture.reserve.demand(9), { code: "EMFILE" });
  fixture.reserve.demand(8);
  assert.equal(fixture.reserve.size, DESCRIPTOR_RESERVE);
});

test("descriptors: any other failure: reported at once, the reserve stays", async () => {
  const fixture = new ProcessFixture(100);
  fixture.reserve.fill();
  await assert.rejects(
    fixture.reserve.within(() => Promise.reject(new Error("EIO"))),
    { message: "EIO" },
  );
  assert.equal(fixture.reserve.size, DESCRIPTOR_RESERVE);
});

test("descriptors: recognized by code, in a cause, and by the text of LevelDB", () => {
  assert.equal(isOutOfDescriptors(emfile()), true);
  assert.equal(isOutOfDescriptors(Object.assign(new Error("x"), { code: "ENFILE" })), true);
  assert.equal(isOutOfDescriptors(new Error("the read failed", { cause: emfile() })), true);
  assert.equal(isOutOfDescriptors(new Error("IO error: /d/000005.ldb: Too many open files")), true);
  assert.equal(isOutOfDescriptors(Object.assign(new Error("x"), { code: "ENOSPC" })), false);
  assert.equal(isOutOfDescriptors("EMFILE"), false);
});
