// Random operations of one gateway after another over the same stores: lost and late answers, kills at random failpoints, also inside
// recovery and collection, power cuts. In the end blobs are exactly the references, and what was acknowledged is readable (G1-G3, G5, G9).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { MemoryObjectData, type CommitFate, type Remains } from "@concord/port-contracts";
import {
  abort,
  begin,
  bytes,
  complete,
  faults,
  get,
  Killed,
  openGateway,
  part,
  put,
  remove,
  turns,
  World,
  type Gateway,
} from "../test/gateway.ts";
import type { JournalMode } from "../upload-journal.ts";

const KEYS = ["a", "b"];
const A_YEAR_MS = 365 * 24 * 3600_000;

type Action = "put" | "put-small" | "put-tiny" | "delete" | "multipart" | "abort" | "recover" | "collect" | "late" | "restart";

interface Step {
  readonly action: Action;
  readonly key: string;
  /** What becomes of the commits of this step, in order. */
  readonly fates: readonly CommitFate[];
  /** The process dies at the so-many-th failpoint from here; undefined: it lives. */
  readonly killAt: number | undefined;
  /** The machine with it: what a power cut leaves of blobs that were not sealed. */
  readonly powerCut: Remains | undefined;
}

const step: fc.Arbitrary<Step> = fc.record({
  action: fc.constantFrom<Action>(
    "put",
    "put",
    "put-small",
    "put-small",
    "put-tiny",
    "delete",
    "multipart",
    "multipart",
    "abort",
    "recover",
    "collect",
    "late",
    "restart",
  ),
  key: fc.constantFrom(...KEYS),
  fates: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.constantFrom<CommitFate>("answered", "applied", "lost", "late"), { maxLength: 4 }) },
  ),
  killAt: fc.option(fc.integer({ min: 0, max: 25 }), { freq: 2 }),
  powerCut: fc.option(fc.constantFrom<Remains>("nothing", "bare", "described"), { freq: 2 }),
});

/** What a key may hold by what was answered. */
class Model {
  readonly #possible = new Map<string, Set<string | undefined>>(KEYS.map((key) => [key, new Set([undefined])]));
  /** Of operations that were never answered and whose commit may still arrive: concurrent with all that follows. */
  readonly #late = new Map<string, Set<string | undefined>>(KEYS.map((key) => [key, new Set()]));

  sure(key: string, value: string | undefined): void {
    this.#late.get(key)!.delete(value);
    this.#possible.set(key, new Set([value, ...this.#late.get(key)!]));
  }

  maybe(key: string, value: string | undefined, late: boolean): void {
    this.#possible.get(key)!.add(value);
    if (late) this.#late.get(key)!.add(value);
  }

  check(key: string, value: string | undefined): void {
    const possible = this.#possible.get(key)!;
    assert.ok(possible.has(value), `${key} holds ${value}, possible are ${[...possible].join(", ")}`);
  }
}

class Run {
  readonly world = new World();
  readonly model = new Model();
  readonly mode: JournalMode;
  gateway!: Gateway;
  #countdown: number | undefined;
  #round = 0;

  constructor(mode: JournalMode) {
    this.mode = mode;
  }

  async open(): Promise<void> {
    for (;;) {
      const opening = openGateway(this.world, {
        mode: this.mode,
        failpoint: (_, { die }) => {
          if (this.#countdown === undefined) return;
          this.#countdown -= 1;
          if (this.#countdown >= 0) return;
          this.#countdown = undefined;
          die();
        },
      });
      try {
        this.gateway = await opening;
        return;
      } catch (error) {
        assert.ok(error instanceof Killed || (error instanceof Error && "code" in error), String(error));
      }
    }
  }

  async run(next: Step): Promise<void> {
    this.#round += 1;
    this.world.metadata.nextFates(...next.fates);
    this.#countdown = next.killAt;
    const done = await this.#race(this.#act(next, `${next.key}${this.#round}`));
    this.#countdown = undefined;
    this.world.metadata.nextFates();
    if (!done) await this.#restart(next.powerCut);
  }

  /** False: the process was killed. */
  async #race(act: Promise<void>): Promise<boolean> {
    const { gateway } = this;
    const finished = act.then(
      () => true,
      (error: unknown) => {
        if (error instanceof Error && "code" in error && error.code !== "INTERNAL") return true;
        if (gateway.isDead()) return false;
        throw error;
      },
    );
    const killed = gateway.killed.then(() => false);
    const ended = await Promise.race([finished, killed]);
    return ended && !gateway.isDead();
  }

  async #act({ action, key, fates }: Step, name: string): Promise<void> {
    const { gateway, model } = this;
    const late = fates.includes("late");
    switch (action) {
      case "put":
      case "put-small":
      case "put-tiny": {
        // In a blob, in a row beside the head, in the head.
        const content = action === "put" ? bytes(name) : action === "put-small" ? name.padEnd(6, "-") : name;
        model.maybe(key, content, late);
        await put(gateway, key, content);
        if (!gateway.isDead()) model.sure(key, content);
        return;
      }
      case "delete":
        model.maybe(key, undefined, late);
        await remove(gateway, key);
        if (!gateway.isDead()) model.sure(key, undefined);
        return;
      case "multipart":
        await this.#multipart(key, name, late);
        return;
      case "abort": {
        const uploadId = await begin(gateway, key);
        await part(gateway, key, uploadId, 1, bytes(name));
        await abort(gateway, key, uploadId);
        return;
      }
      case "recover":
        await gateway.recovery.recoverAll();
        return;
      case "collect":
        await gateway.collector.runAhead(A_YEAR_MS);
        return;
      case "late":
        this.world.metadata.applyLate();
        return;
      case "restart":
        await this.#restart(undefined);
        return;
    }
  }

  async #multipart(key: string, name: string, late: boolean): Promise<void> {
    const { gateway, model } = this;
    const parts = ["1", "2", "3"].map((at) => ({ number: Number(at), content: bytes(name + at) }));
    const uploadId = await begin(gateway, key);
    for (const { number, content } of parts) await part(gateway, key, uploadId, number, content);
    await part(gateway, key, uploadId, 2, parts[1]!.content);
    const named = parts.slice(0, 2);
    const whole = named.map(({ content }) => content).join("");
    model.maybe(key, whole, late);
    await complete(gateway, key, uploadId, named);
    if (!gateway.isDead()) model.sure(key, whole);
  }

  async #restart(powerCut: Remains | undefined): Promise<void> {
    this.gateway.kill();
    await turns(3);
    if (powerCut !== undefined) {
      this.world.data = this.world.data.crash(() => powerCut);
      this.world.diskOf("one").crash();
    }
    await this.open();
  }

  /** Everything that can still happen has happened; then all of the past is recovered and collected. */
  async end(): Promise<void> {
    this.world.metadata.applyLate();
    await this.#restart(undefined);
    await this.gateway.resolver.resolveNow();
    this.world.metadata.applyLate();
    const report = await this.gateway.recovery.recoverAll();
    for (const epoch of report.epochs) assert.deepEqual([epoch.undecided, epoch.finished], [0, true]);
    await this.gateway.collector.runAhead(A_YEAR_MS);
    for (const key of KEYS) this.model.check(key, await get(this.gateway, key));
  }
}

async function play(mode: JournalMode, steps: readonly Step[], describedAt: "create" | "seal" = "create"): Promise<Run> {
  const run = new Run(mode);
  run.world.data = new MemoryObjectData({ describedAt });
  await run.open();
  await run.gateway.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  for (const next of steps) await run.run(next);
  await run.end();
  return run;
}

for (const mode of ["reservation", "per-transaction", "per-transaction-basic"] as const) {
  test(`[OG4] property: ${mode}: random operations, lost answers, kills, power cuts: no leak, nothing dangling, nothing acknowledged lost`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), fc.constantFrom("create", "seal"), async (steps, describedAt) => {
        const run = await play(mode, steps, describedAt);
        assert.deepEqual(await faults(run.gateway), []);
        await run.gateway.recovery.recoverAll();
        const twice = await run.gateway.collector.runAhead(A_YEAR_MS);
        assert.deepEqual([twice.blobs, twice.referenced, twice.kept], [0, 0, 0], "recovery and collection again change nothing");
      }),
      { numRuns: 150 },
    );
  });
}

test("[OG21] property: journal off: a crash may leak, but never dangles or loses what was acknowledged", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
      const run = await play("off", steps);
      const found = await faults(run.gateway);
      assert.deepEqual(
        found.filter((fault) => !fault.startsWith("leaked")),
        [],
      );
    }),
    { numRuns: 60 },
  );
});
