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

/** How long a member waits before it ends what it should not serve; each in milliseconds. */
export interface TenureWaits {
  /** Wait for the next owner to ask for the unit; infinite: until it asks. */
  readonly releaseMs: number;
  /** Time for a verdict of this member's own loss to pass: while it opens the unit, and while it serves. */
  readonly lostOpeningMs: number;
  readonly lostServingMs: number;
}

export interface TenureFacts {
  readonly stage: "closed" | "opening" | "serving";
  /** A majority hears this member, and its lease holds. */
  readonly works: boolean;
  /** The view and the opinions give the unit to this member. */
  readonly isOwner: boolean;
  /** Time for which the unit has been served here without being this member's. */
  readonly unownedMs: number;
  /** Time since a majority lost this member; undefined: it has not. */
  readonly lostMs: number | undefined;
}

export type TenureDecision =
  /** Asks the others to release the unit, then raises its epoch. */
  | "take"
  | "keep"
  /** Serves on: the member that is to have the unit asks for it. */
  | "await-release"
  /** No request came: what is in flight ends, then the unit is left. */
  | "hand-over"
  /** Ends it at once: another member may have raised the epoch already, or is about to. */
  | "end"
  | "nothing";

/** What a member does about a unit now (I8). */
export function tenureDecision({ stage, works, isOwner, unownedMs, lostMs }: TenureFacts, waits: TenureWaits): TenureDecision {
  if (stage === "closed") return works && isOwner ? "take" : "nothing";
  if (lostMs !== undefined) return lostMs < (stage === "opening" ? waits.lostOpeningMs : waits.lostServingMs) ? "keep" : "end";
  if (isOwner) return "keep";
  // Nothing is in flight yet, and two that raise the epoch would fence each other.
  if (stage === "opening") return "end";
  return unownedMs < waits.releaseMs ? "await-release" : "hand-over";
}
