import { assert } from "@concord/runtime";
import type { Member, Placement } from "./placement.ts";

/** The members and what they serve, as one version; spreads as a whole (TX3). */
export interface View {
  readonly version: bigint;
  readonly members: readonly Member[];
  readonly placement: Placement;
}

/**
 * TX17, without an election: of the ranks the first that works serves. `failed`: what the majority says of a member, itself included. The last
 * rank serves when all before it failed, whatever it thinks of itself: whether it may is its own lease's matter.
 */
export function servingMember(view: View, unit: string, failed: (name: string) => boolean): string {
  const ranks = view.placement.get(unit);
  assert(ranks !== undefined && ranks.length > 0, `unit ${unit} is not placed`);
  return ranks.find((name) => !failed(name)) ?? ranks.at(-1)!;
}
