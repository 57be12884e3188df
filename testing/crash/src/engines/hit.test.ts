// How a fault is made again until something shows that it reached a load, and what its failure is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newTally, type Subject } from "../subject.ts";
import type { Load } from "./engine-loads.ts";
import { FAULTS, hit, type Hit, TRIES_MAX } from "./hit.ts";
import type { Victim } from "./victims.ts";

const [PAUSE, KILL] = FAULTS;

function loadOf(name: string): Load & { failed: number } {
  const tally = newTally();
  const load = {
    name,
    failed: 0,
    // What was under way when a node stood still or died, however it ended: it shows nothing.
    subject: { tally, died: () => (tally.indeterminate += 8) } as unknown as Subject,
    acknowledged: () => 0,
    unanswered: () => load.failed,
    gapMs: 0,
    calmGapMs: 100,
    changedAtMs: 0,
    known: 0,
  };
  return load;
}

interface Made {
  readonly commands: string[];
  readonly lines: string[];
  readonly isNoticed: boolean;
}

/** `during`: what happens while the fault lasts, by try. */
async function made(options: Partial<Hit> & { victim?: Partial<Victim>; during?: (tried: number) => void }): Promise<Made> {
  const { victim, during, ...more } = options;
  const commands: string[] = [];
  const lines: string[] = [];
  let tried = 0;
  const plain: Victim = { engine: "kafka", node: "2", role: "leads 4", unread: () => undefined, moved: async () => undefined };
  const isNoticed = await hit({
    loads: [loadOf("messages")],
    engine: "kafka",
    fault: PAUSE,
    command: async (name, { node }) => void commands.push(`${name} ${node}`),
    progress: async () => undefined,
    choose: async () => ({ ...plain, ...victim }),
    hold: async () => during?.((tried += 1)),
    print: (line) => void lines.push(line),
    ...more,
  });
  return { commands, lines, isNoticed };
}

test("fault: nothing shows that it reached a load: made again, then it fails the run", async () => {
  const { commands, lines, isNoticed } = await made({});
  assert.equal(isNoticed, false);
  assert.deepEqual(commands, Array.from({ length: TRIES_MAX }, () => ["pause 2", "resume 2"]).flat());
  assert.equal(lines.filter((line) => line.includes("nothing shows that it reached a load")).length, TRIES_MAX);
});

test("fault: operations of another engine's load fail: it does not count", async () => {
  const [messages, objects] = [loadOf("messages"), loadOf("objects")];
  const { isNoticed } = await made({ loads: [messages, objects], during: () => (objects.failed += 5) });
  assert.equal(isNoticed, false);
});

test("fault: an operation ends without an answer in the second try: it counts then", async () => {
  const messages = loadOf("messages");
  const during = (tried: number): void => void (messages.failed += tried === 2 ? 1 : 0);
  const { commands, lines, isNoticed } = await made({ loads: [messages], during });
  assert.equal(isNoticed, true);
  assert.equal(commands.length, 4);
  assert.ok(lines.at(-1)!.includes("reached: 1 of messages ended without an answer"), lines.at(-1));
});

test("fault: a kill of a node whose connections are known: it stands still until requests wait in it, and dies with them", async () => {
  const { commands, lines, isNoticed } = await made({
    fault: KILL,
    victim: { unread: () => ({ connections: 2, of: 4, bytes: 900 }), moved: async () => undefined },
  });
  assert.equal(isNoticed, true);
  assert.deepEqual(commands, ["pause 2", "kill 2", "start 2"]);
  assert.ok(lines.at(-1)!.includes("900 bytes of requests unread on 2 of 4 connections"), lines.at(-1));
});

test("fault: a kill of an engine whose connections are not known: it dies where it is", async () => {
  const { commands } = await made({
    fault: KILL,
    victim: { moved: async () => ({ partitions: 1, ofPartitions: 1, coordinated: 0, ofCoordinated: 0 }) },
  });
  assert.deepEqual(commands, ["kill 2", "start 2"]);
});
