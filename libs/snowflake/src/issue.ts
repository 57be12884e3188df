import { assert } from "@concord/runtime";
import type { IdRange } from "./api.ts";
import { GUID_END_MS, makeGuid, type GuidParts } from "./layout.ts";
import { BORROW_MS_MAX, GUID_EPOCH_MS, SEQUENCES_PER_MS, STEP_BACK_MS_MAX, TAKE_COUNT_MAX } from "./limits.ts";

/** The first position that was not given out. Positions only grow, whatever the clock does (I2). */
export interface GuidState {
  readonly workerId: number;
  /** Unix time. */
  readonly nextMs: number;
  readonly nextSequence: number;
}

export type Issue =
  /** The ids, and the state to go on from: it must replace the old one before the ids are used. */
  | { readonly kind: "issued"; readonly ranges: readonly IdRange[]; readonly state: GuidState }
  /** The ids would run too far ahead of the clock: ask again when it shows `untilMs`. */
  | { readonly kind: "wait"; readonly untilMs: number }
  /** The clock stands this far behind the ids already made. */
  | { readonly kind: "skew"; readonly behindMs: number }
  /** The clock shows a time that ids cannot have. */
  | { readonly kind: "out-of-range" };

/** A worker that gave out no id of `floorMs` or later: what its high-water mark says (I3). */
export function initialState(workerId: number, floorMs = GUID_EPOCH_MS): GuidState {
  return { workerId, nextMs: Math.max(floorMs, GUID_EPOCH_MS), nextSequence: 0 };
}

/** `count` ids above all earlier ones, or why not yet. A full millisecond spills into the next one (S6). */
export function issue(state: GuidState, nowMs: number, count: number): Issue {
  assert(Number.isInteger(count) && count >= 1 && count <= TAKE_COUNT_MAX, "a count is in its range");
  assert(Number.isSafeInteger(nowMs), "time is whole milliseconds");
  const behindMs = state.nextMs - nowMs;
  if (behindMs > STEP_BACK_MS_MAX) return { kind: "skew", behindMs };
  const isFresh = nowMs > state.nextMs;
  const fromMs = isFresh ? nowMs : state.nextMs;
  const fromSequence = isFresh ? 0 : state.nextSequence;
  const end = fromSequence + count;
  const lastMs = fromMs + Math.floor((end - 1) / SEQUENCES_PER_MS);
  if (lastMs >= GUID_END_MS) return { kind: "out-of-range" };
  if (lastMs > nowMs + BORROW_MS_MAX) return { kind: "wait", untilMs: lastMs - BORROW_MS_MAX };
  const next = { workerId: state.workerId, nextMs: fromMs + Math.floor(end / SEQUENCES_PER_MS), nextSequence: end % SEQUENCES_PER_MS };
  return { kind: "issued", ranges: rangesOf({ workerId: state.workerId, timeMs: fromMs, sequence: fromSequence }, count), state: next };
}

/** The first millisecond that none of the ids given out so far has. */
export function endMs(state: GuidState): number {
  return state.nextSequence === 0 ? state.nextMs : state.nextMs + 1;
}

/** Ids of one worker are consecutive only within a millisecond. */
function rangesOf({ workerId, ...from }: GuidParts, count: number): IdRange[] {
  const ranges: IdRange[] = [];
  let left = count;
  for (let { timeMs, sequence } = from; left > 0; timeMs += 1, sequence = 0) {
    const taken = Math.min(left, SEQUENCES_PER_MS - sequence);
    ranges.push({ first: makeGuid({ timeMs, workerId, sequence }), count: taken });
    left -= taken;
  }
  return ranges;
}
