import { assert } from "@concord/runtime";
import { place, type Member, type Placement } from "./placement.ts";

/** The members and what they serve, as one version; spreads as a whole (TX3). */
export interface View {
  readonly version: bigint;
  readonly members: readonly Member[];
  readonly placement: Placement;
}

/** The next version, with these members and units (TX32). */
export function nextView(view: View, members: readonly Member[], units: readonly string[], ranks: number): View {
  return { version: view.version + 1n, members, placement: place(units, members, { ranks, before: view.placement }) };
}

/** Which of two views counts: the newer one; of one version there is one view. */
export function newerView(own: View, received: View): View {
  return received.version > own.version ? received : own;
}

/** What a member should do about a unit now. */
export type Duty =
  /** No member before it in the ranks can: it serves, and takes over when it does not yet. */
  | { readonly kind: "serve" }
  /** `master` should serve. */
  | { readonly kind: "standby"; readonly master: string };

/**
 * TX17, without an election: of the ranks the first that works serves. `failed`: what the majority says of a member, itself included. The last
 * rank serves when all before it failed, whatever it thinks of itself: whether it may is its own lease's matter.
 */
export function servingMember(view: View, unit: string, failed: (name: string) => boolean): string {
  const ranks = view.placement.get(unit);
  assert(ranks !== undefined && ranks.length > 0, `unit ${unit} is not placed`);
  return ranks.find((name) => !failed(name)) ?? ranks.at(-1)!;
}

export function dutyOf(view: View, unit: string, self: string, failed: (name: string) => boolean): Duty {
  const master = servingMember(view, unit, failed);
  return master === self ? { kind: "serve" } : { kind: "standby", master };
}
