import type { Incarnation } from "./beat.ts";
import { STATEMENT_REPEATS } from "./limits.ts";
import { observedBy, type Topology } from "./topology.ts";
import type { Verdict } from "./verdict.ts";

/** Newest statement received from another member about those that it observes. */
export interface Speaker {
  /** Life whose statements count; 0 = none yet. */
  incarnation: Incarnation;
  sequence: number;
  verdicts: readonly Verdict[];
  /** Times on the own clock, by verdict: its grounds are surely not older. */
  groundsAtMs: readonly number[];
  /** The greatest `madeMs` of this life; undefined: it says no grounds, or was not heard. */
  madeMs: number | undefined;
  /** Time of the last question about the age of its grounds. */
  askedAtMs: number;
  readonly retired: Incarnation[];
}

/** State about members outside the direct links: plain data, as all of a detector's state. */
export interface FarState {
  /** By place. */
  readonly speakers: readonly Speaker[];
  /** Members whose verdict this one makes known, in the order of a statement. */
  readonly observed: readonly number[];
  sequence: number;
  /** Receiver of the next statement that is due without a change. */
  next: number;
  /** Statements to all that are still due: the first after a change, then as many again, since datagrams get lost. */
  repeats: number;
  toldAtMs: number;
  /** Members that a majority of statements calls gone or stuck, on grounds that may be too old: their observers are asked. */
  readonly unresolved: Set<number>;
}

/** Makes the state of a ring; undefined in a full mesh, where each member receives the beats of all others. */
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
