import type { Incarnation } from "./beat.ts";
import { STATEMENT_REPEATS } from "./limits.ts";
import { observedBy, type Topology } from "./topology.ts";
import type { Verdict } from "./verdict.ts";

/** What this member last heard another one say of those it observes. */
export interface Speaker {
  /** 0 = nothing yet. */
  incarnation: Incarnation;
  sequence: number;
  verdicts: readonly Verdict[];
  /** By verdict: a time on the own clock that its grounds are surely not older than. */
  groundsAtMs: readonly number[];
  /** The greatest `madeMs` of this life; undefined: it says no grounds, or was not heard. */
  madeMs: number | undefined;
  /** When it was last asked how old its grounds are. */
  askedAtMs: number;
  readonly retired: Incarnation[];
}

/** Of members that are not heard: plain data, as all of a detector's state. */
export interface FarState {
  /** By place. */
  readonly speakers: readonly Speaker[];
  /** Members whose verdict this one makes known, in the order of a statement. */
  readonly observed: readonly number[];
  sequence: number;
  /** Who gets the next statement that is due without a change. */
  next: number;
  /** Statements to all that are still due: the first after a change, then as many again, since datagrams get lost. */
  repeats: number;
  toldAtMs: number;
  /** Members that a majority of statements calls gone or stuck, on grounds that may be too old: their observers are asked. */
  readonly unresolved: Set<number>;
}

/** Undefined in a full mesh: each member hears all others. */
export function newFarState(topology: Topology, self: number): FarState | undefined {
  if (topology.kind === "mesh") return undefined;
  return {
    speakers: Array.from({ length: topology.members }, newSpeaker),
    observed: observedBy(topology, self),
    sequence: 0,
    next: (self + 1) % topology.members,
    repeats: STATEMENT_REPEATS,
    toldAtMs: Number.NEGATIVE_INFINITY,
    unresolved: new Set(),
  };
}

export function newSpeaker(): Speaker {
  return {
    incarnation: 0n,
    sequence: 0,
    verdicts: [],
    groundsAtMs: [],
    madeMs: undefined,
    askedAtMs: Number.NEGATIVE_INFINITY,
    retired: [],
  };
}
