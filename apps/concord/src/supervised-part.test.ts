// When a part that is out is tried again, and which failures end the node instead.
import assert from "node:assert/strict";
import { test } from "node:test";
import { RowsService } from "@concord/protos-storage";
import { tokenAuthenticator, type Part, type SharedHost } from "@concord/rpc";
import { ConcordError, silentLog, silentMetrics, type CallContext, type Clock } from "@concord/runtime";
import { endsNode } from "./fatal.ts";
import { SupervisedPart, type Address, type Phase } from "./supervised-part.ts";
import { memoryConfig } from "./test/memory-node.ts";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Time moves to the next timer, whose delay is noted. */
class PauseClock implements Clock {
  readonly pausesMs: number[] = [];
  #ms = 1_700_000_000_000;
  #next: (() => void) | undefined;

  nowMs(): number {
    return this.#ms;
  }

  nowUs(): bigint {
    return BigInt(this.#ms) * 1000n;
  }

  monotonicMs(): number {
    return this.#ms;
  }

  setTimer(delayMs: number, action: () => void): { cancel(): void } {
    this.pausesMs.push(delayMs);
    this.#next = () => {
      this.#ms += delayMs;
      action();
    };
    return { cancel: () => (this.#next = undefined) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }

  async pass(): Promise<void> {
    this.#next?.();
    await settled();
  }
}

function partOf(open: () => Promise<[]>, clock: Clock, hasPeers: boolean): SupervisedPart<Address, Part<Address>> {
  const make = (): Part<Address> => ({
    ready: true,
    open,
    serve: () => Promise.resolve({ address: "a:1" }),
    stop: () => Promise.resolve(),
  });
  return new SupervisedPart({
    name: "storage",
    make,
    contracts: [RowsService],
    advice: { damaged: "run repair", otherwise: "run fsck" },
    hasPeers,
    clock,
    log: silentLog,
    metrics: silentMetrics,
    authenticator: tokenAuthenticator([]),
    isFatal: () => false,
    onFatal: (cause) => assert.fail(cause.message),
  });
}

const DAMAGE = new ConcordError("CORRUPT_DATA", "a table is damaged");
const LEVEL_DAMAGE = new ConcordError("STORE_FAILED", "cannot open", {
  cause: new Error("Corruption", { cause: Object.assign(new Error("CURRENT points to no file"), { code: "LEVEL_CORRUPTION" }) }),
});
for (const [what, cause, hasPeers, code, text] of [
  ["a table is damaged", DAMAGE, false, "CORRUPT_DATA", /run repair/],
  ["LevelDB finds damage", LEVEL_DAMAGE, false, "CORRUPT_DATA", /run repair/],
  ["a table is damaged, other nodes serve the same", DAMAGE, true, "STARTING", /run repair/],
  ["its disk is gone", new ConcordError("STORE_FAILED", "no such folder"), false, "STARTING", /run fsck/],
] as const) {
  test(`[OPS6] part: it does not open: ${what}: its calls get ${code}`, async () => {
    const part = partOf(() => Promise.reject(cause), new PauseClock(), hasPeers);
    await part.open();
    const read = part.services[0]!.methods.find(({ method }) => method.path.endsWith("/Read"))!;
    assert.ok(read.kind === "unary");
    const context = { metadata: {} } as unknown as CallContext;
    await assert.rejects(read.handle({}, context), { code, applied: "no", message: text });
    await part.stop();
  });
}

test("[OPS6] part: it does not open: tried again after 1 s, then after longer pauses of up to 60 s, until it opens", async () => {
  const clock = new PauseClock();
  let opens = 0;
  const opening = (): Promise<[]> => {
    opens += 1;
    return opens < 12 ? Promise.reject(new ConcordError("CORRUPT_DATA", "a table is damaged")) : Promise.resolve([]);
  };
  const part = partOf(opening, clock, false);
  await part.open();
  await part.serve({ hostOf: () => ({}) } as unknown as SharedHost);
  for (let passes = 0; passes < 20 && part.state.kind !== "serving"; passes += 1) {
    assert.equal(part.problem, "storage is out: a table is damaged; run repair");
    await settled();
    await clock.pass();
  }
  assert.equal(part.state.kind, "serving");
  assert.deepEqual(
    clock.pausesMs,
    [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60].map((seconds) => seconds * 1_000),
  );
  await part.stop();
});

test("[OPS6] a node of three ends when its transactions fail, or storage that served; alone, and for objects and messages, it goes on", () => {
  const nodes = [1, 2, 3].map((at) => ({ name: `n${at}`, address: `n${at}:1`, datacenter: "local" }));
  const three = memoryConfig({ nodes, nodeName: "n1", peerToken: "p", coordinatorToken: "c" });
  const ending = (config: typeof three): string[] =>
    (["storage", "transactions", "objects", "messages"] as const).flatMap((part) =>
      (["first", "again", "served"] as const).flatMap((phase: Phase) => (endsNode(config, part, phase) ? [`${part} ${phase}`] : [])),
    );
  assert.deepEqual(ending(memoryConfig()), []);
  assert.deepEqual(ending(three), ["storage served", "transactions first", "transactions again", "transactions served"]);
});
