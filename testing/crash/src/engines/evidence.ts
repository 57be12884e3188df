// Whether a fault of an engine reached the loads that stand on it: by what they and their services met, in numbers.
import type { Unread } from "./unread-requests.ts";

/** A load that stands still for less has not noticed a fault. */
export const NOTICED_S = 2;
/** A load stood still for so many times as long as before all faults. */
export const NOTICED_TIMES = 2;

export interface LoadEvidence {
  readonly name: string;
  /** The longest time without an acknowledgement, during the fault and before all faults. */
  readonly gapMs: number;
  readonly calmGapMs: number;
  /** Operations of which the fault took the answer away: they failed, and may have been applied. */
  readonly unanswered: number;
}

/** Of what the victim led or coordinated for the loads before the fault, how much it lost by it. */
export interface Moved {
  readonly partitions: number;
  readonly ofPartitions: number;
  readonly coordinated: number;
  readonly ofCoordinated: number;
}

export interface Evidence {
  /** Of those loads alone that stand on the engine. */
  readonly loads: readonly LoadEvidence[];
  /** undefined: the engine's connections are not known here. */
  readonly unread: Unread | undefined;
  /** undefined: the engine has no leaders, or one node. */
  readonly moved: Moved | undefined;
}

/** What shows that the fault reached them, each with its figures; none: the fault does not count. */
export function signsOf({ loads, unread, moved }: Evidence): readonly string[] {
  const signs: string[] = [];
  for (const { name, gapMs, calmGapMs, unanswered } of loads) {
    if (gapMs >= Math.max(NOTICED_TIMES * calmGapMs, NOTICED_S * 1_000))
      signs.push(`${name} stood still for ${seconds(gapMs)} (before all faults ${seconds(calmGapMs)})`);
    if (unanswered > 0) signs.push(`${unanswered} of ${name} ended without an answer`);
  }
  if (unread !== undefined && unread.connections > 0)
    signs.push(`${unread.bytes} bytes of requests unread on ${unread.connections} of ${unread.of} connections of the services`);
  if (moved !== undefined && moved.partitions + moved.coordinated > 0)
    signs.push(
      `${moved.partitions} of ${moved.ofPartitions} loaded partitions and ${moved.coordinated} of ${moved.ofCoordinated} transactional ids moved to other brokers`,
    );
  return signs;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
