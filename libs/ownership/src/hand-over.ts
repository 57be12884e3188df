// Planned hand-over of a unit from the member that serves it to the one that should (TX17): who is asked, and what each one does. None of it is
// needed for safety: the epoch in the log is (TXD1, DDD4).
import { assert } from "@concord/runtime";
import type { View } from "./view.ts";

/** What a member knows of the others besides the view. */
export interface Opinions {
  /** A majority has lost the member, or calls it stuck. */
  readonly failed: (name: string) => boolean;
  /** The member has said that it is about to stop. It serves each unit until that is asked for. */
  readonly leaving: (name: string) => boolean;
}

/**
 * The members that may serve the unit while `self` is to take it, and can be asked to release it (I7): those before it in the ranks that leave, and
 * every other that has not failed, since by an earlier list it may have been any. `follows`: by this view a member before `self` was at work until
 * now, so no other serves.
 */
export function askedToRelease(view: View, unit: string, self: string, { failed, leaving }: Opinions, follows: boolean): readonly string[] {
  const ranks = view.placement.get(unit);
  assert(ranks !== undefined, `unit ${unit} is not placed`);
  const before = ranks.slice(0, Math.max(ranks.indexOf(self), 0));
  const others = follows ? [] : view.members.map(({ name }) => name).filter((name) => name !== self && !before.includes(name));
  return [...before.filter((name) => leaving(name)), ...others.filter((name) => !failed(name))];
}

export interface Tenure {
  /** The unit is served here, or on its way here. */
  readonly isServed: boolean;
  /** A majority hears this member, and its lease holds. */
  readonly works: boolean;
  /** The view and the opinions give the unit to this member. */
  readonly isOwner: boolean;
  /** For how long the unit has been served here without being this member's. */
  readonly unownedMs: number;
  /** For so long a member waits until it is asked for a unit. */
  readonly releaseWaitMs: number;
}

export type TenureDecision =
  /** Asks the others to release the unit, then raises its epoch. */
  | "take"
  | "keep"
  /** Serves on: the member that is to have the unit asks for it. */
  | "await-release"
  /** No asking came: what is in flight ends, then the unit is left. */
  | "hand-over"
  /** At once: another member may have raised the epoch already. */
  | "end"
  | "nothing";

/** What a member does about a unit now (I8). */
export function tenureDecision({ isServed, works, isOwner, unownedMs, releaseWaitMs }: Tenure): TenureDecision {
  if (!isServed) return works && isOwner ? "take" : "nothing";
  if (!works) return "end";
  if (isOwner) return "keep";
  return unownedMs < releaseWaitMs ? "await-release" : "hand-over";
}
