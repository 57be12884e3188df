// One fault of one engine under load: made, mended, and judged by what it took from the loads.
import type { Load } from "./engine-loads.ts";
import { type Evidence, signsOf } from "./evidence.ts";
import { type EngineName, nameOf, type Target, type Victim, whenUnread } from "./victims.ts";
import type { Unread } from "./unread-requests.ts";

export const HOLD_S = 6;
export const HOLD_MAX_S = 60;
const HOLD_MS = HOLD_S * 1_000;
/** A fault of which nothing shows that it reached a load is made again, so often. */
export const TRIES_MAX = 3;

export const FAULTS = [
  { fault: "pause", mend: "resume" },
  { fault: "kill", mend: "start" },
] as const;

/** Which loads stand on an engine. */
const LOADS_ON: Readonly<Record<EngineName, readonly string[]>> = {
  cassandra: ["transactions", "batches"],
  kafka: ["messages"],
  ceph: ["objects"],
};

export type Command = "pause" | "resume" | "kill" | "start" | "stop";

export interface Hit {
  readonly loads: readonly Load[];
  readonly engine: EngineName;
  readonly fault: (typeof FAULTS)[number];
  readonly command: (name: Command, target: Target) => Promise<void>;
  readonly progress: () => Promise<void>;
  /** The node for it, asked before each try. */
  readonly choose: () => Promise<Victim>;
  readonly hold: (ms: number) => Promise<void>;
  readonly print: (line: string) => void;
}

/** Whether the fault reached a load that stands on the engine. */
export async function hit({ loads, engine, fault: { fault, mend }, command, progress, choose, hold, print }: Hit): Promise<boolean> {
  const standing = loads.filter(({ name }) => LOADS_ON[engine].includes(name));
  const holdMs = holdOf(standing);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const victim = await choose();
    const unansweredBefore = loads.map(({ unanswered }) => unanswered());
    for (const load of loads) [load.gapMs, load.changedAtMs] = [0, performance.now()];
    const unread = await strike(victim, fault, command);
    for (const { subject } of loads) subject.died();
    await hold(holdMs);
    const moved = await victim.moved();
    await command(mend, victim);
    const from = performance.now();
    await progress();
    const afterMs = performance.now() - from;
    const evidence = loads.map(({ name, gapMs, calmGapMs, unanswered }, at) => {
      return { name, gapMs, calmGapMs, unanswered: unanswered() - unansweredBefore[at]! };
    });
    const signs = signsOf({ loads: evidence.filter((_, at) => standing.includes(loads[at]!)), unread, moved });
    print(
      `${nameOf(victim)} (${victim.role}): ${fault} ${(holdMs / 1000).toFixed(0)} s, ${mend}: all loads went on within ${(afterMs / 1000).toFixed(1)} s`,
    );
    print(`  ${gapsOf(evidence)}`);
    print(`  ${signs.length > 0 ? `reached: ${signs.join("; ")}` : "nothing shows that it reached a load"}`);
    if (signs.length > 0) return true;
  }
  return false;
}

/** Before it is killed it stands still for a moment, so that requests die with it that the services wait for. */
async function strike(victim: Victim, fault: "pause" | "kill", command: Hit["command"]): Promise<Unread | undefined> {
  if (fault === "pause" || victim.unread() !== undefined) await command("pause", victim);
  const unread = await whenUnread(victim);
  if (fault === "kill") await command("kill", victim);
  return unread;
}

function gapsOf(loads: Evidence["loads"]): string {
  const counts = loads.map(({ name, unanswered }) => `${name} ${unanswered}`).join(", ");
  const gaps = loads.map(({ name, gapMs }) => `${name} ${(gapMs / 1000).toFixed(1)}`).join(", ");
  return `without an answer: ${counts}; longest gap in s: ${gaps}`;
}

/** A load that stands still for it does so for twice as long as before all faults, also if it began late. */
function holdOf(loads: readonly Load[]): number {
  const calmGapMs = Math.max(...loads.map((load) => load.calmGapMs));
  return Math.min(HOLD_MAX_S * 1_000, Math.max(HOLD_MS, 3 * calmGapMs));
}
