// Two gateways work at once on the same keys and keep taking each other for dead, with collection at once behind: whatever the interleaving,
// nothing dangles, nothing leaks, nothing acknowledged is lost (OGD3, G2-G4).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  abort,
  begin,
  bytes,
  codeOf,
  complete,
  faults,
  get,
  openGateway,
  openWorld,
  part,
  put,
  quiesce,
  remove,
  turns,
  type Gateway,
} from "../test/gateway.ts";

const A_YEAR_MS = 365 * 24 * 3600_000;
const REFUSALS = ["EPOCH_FENCED", "WRITE_CONFLICT", "UPLOAD_UNKNOWN", "UPLOAD_STATE", "PART_INVALID"];

const action = fc.record({
  what: fc.constantFrom("put", "put", "delete", "multipart", "abort", "recover", "recover", "collect"),
  key: fc.constantFrom("a", "b"),
  second: fc.boolean(),
  /** Begins behind so many turns. */
  after: fc.integer({ min: 0, max: 12 }),
});

/** Turns a call waits: most hardly, some long enough for a whole recovery and collection. */
const pause = fc.oneof({ weight: 9, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.integer({ min: 20, max: 80 }) });

async function multipart(by: Gateway, key: string, name: string, ends: boolean): Promise<void> {
  const uploadId = await begin(by, key);
  await Promise.all([part(by, key, uploadId, 1, bytes(name)), part(by, key, uploadId, 2, bytes("2"))]);
  if (ends) await complete(by, key, uploadId, [{ number: 1, content: bytes(name) }]);
  else await abort(by, key, uploadId);
}

test("[OGD3] property: living gateways recover each other while both write and both collect: blobs are the references", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { minLength: 3, maxLength: 12 }),
      fc.array(pause, { minLength: 50, maxLength: 50 }),
      async (actions, waits) => {
        const { world, gateway } = await openWorld();
        const other = await openGateway(world, { instance: "two" });
        let at = 0;
        const wait = async (): Promise<void> => await turns(waits[(at += 1) % waits.length]!);
        world.metadata.before = wait;
        world.data.before = wait;
        const values = new Map<string, Set<string | undefined>>([
          ["a", new Set([undefined])],
          ["b", new Set([undefined])],
        ]);
        const run = async ({ what, key, second, after }: (typeof actions)[number], index: number): Promise<void> => {
          await turns(after);
          const by = second ? other : gateway;
          const name = bytes(`${key}${index}`);
          if (what === "put") await put(by, key, name);
          else if (what === "delete") await remove(by, key);
          else if (what === "multipart" || what === "abort") await multipart(by, key, name, what === "multipart");
          else if (what === "recover") await by.recovery.recoverAll();
          else await by.collector.runAhead(A_YEAR_MS);
        };
        const codes = await Promise.all(actions.map((one, index) => codeOf(run(one, index))));
        world.metadata.before = () => undefined;
        world.data.before = () => undefined;
        for (const [index, { what, key }] of actions.entries()) {
          assert.ok(codes[index] === "done" || REFUSALS.includes(codes[index]!), codes[index]);
          const value = what === "delete" ? undefined : bytes(`${key}${index}`);
          if (codes[index] === "done" && ["put", "multipart", "delete"].includes(what)) values.get(key)!.add(value);
        }
        assert.deepEqual(await faults(gateway), []);
        await quiesce(gateway);
        const { referenced } = await gateway.collector.runAhead(A_YEAR_MS);
        assert.deepEqual([referenced, await faults(gateway)], [0, []], "nothing is live and garbage");
        for (const [key, possible] of values) {
          const value = await get(gateway, key);
          assert.ok(possible.has(value), `${key} holds ${value}`);
          const deleted = actions.some(({ what, key: of }) => what === "delete" && of === key);
          if (possible.size > 1 && !deleted) assert.notEqual(value, undefined, "an acknowledged object is there");
        }
      },
    ),
    { numRuns: 150 },
  );
});
