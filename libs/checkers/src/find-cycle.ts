import { maskOf, type DependencyGraph } from "./dependency-graph.ts";
import type { CycleKind } from "./list-append-history.ts";

export interface Cycle {
  readonly kind: CycleKind;
  /** True when the cycle does not close without real time. */
  readonly usesRealTime: boolean;
  /** Edges in order; the last leads back to the first. */
  readonly edges: readonly number[];
}

/** How many starting edges a search for a shortest cycle tries: only histories already known to be invalid pay for it. */
const MAX_STARTS = 2_000;

const WW = maskOf(["ww"]);
const WW_WR = maskOf(["ww", "wr"]);
const ALL_DATA = maskOf(["ww", "wr", "rw"]);
const RT = maskOf(["rt"]);

/** The worst kind of cycle there is, shortest first; undefined when the graph has none. */
export function findCycle(graph: DependencyGraph): Cycle | undefined {
  if (graph.components(ALL_DATA | RT).count === 0) return undefined;
  for (const realTime of [0, RT]) {
    const found = findAt(graph, realTime);
    if (found !== undefined) return { ...found, usesRealTime: realTime !== 0 };
  }
  return undefined;
}

function findAt(graph: DependencyGraph, realTime: number): { kind: CycleKind; edges: readonly number[] } | undefined {
  const g0 = shortest(graph, WW | realTime, "ww", WW | realTime, "any");
  if (g0 !== undefined) return { kind: "G0", edges: g0 };
  const g1c = shortest(graph, WW_WR | realTime, "wr", WW_WR | realTime, "any");
  if (g1c !== undefined) return { kind: "G1c", edges: g1c };
  const single = shortest(graph, ALL_DATA | realTime, "rw", WW_WR | realTime, "any");
  if (single !== undefined) return { kind: "G-single", edges: single };
  const nonadjacent = shortest(graph, ALL_DATA | realTime, "rw", ALL_DATA | realTime, "nonadjacent");
  if (nonadjacent !== undefined) return { kind: "G-nonadjacent", edges: nonadjacent };
  const g2 = shortest(graph, ALL_DATA | realTime, "rw", ALL_DATA | realTime, "any");
  return g2 === undefined ? undefined : { kind: "G2", edges: g2 };
}

/**
 * The shortest cycle that begins with an edge of type `first` and goes on over edges in `rest`. `nonadjacent`: no two rw edges
 * follow each other.
 */
function shortest(
  graph: DependencyGraph,
  componentMask: number,
  first: "ww" | "wr" | "rw",
  rest: number,
  rule: "any" | "nonadjacent",
): readonly number[] | undefined {
  const { component, count } = graph.components(componentMask);
  if (count === 0) return undefined;
  let best: readonly number[] | undefined;
  let starts = 0;
  for (let node = 0; node < graph.nodeCount && starts < MAX_STARTS; node += 1) {
    if (component[node] === -1) continue;
    for (let at = graph.firstPosition(node); at < graph.endPosition(node); at += 1) {
      const edge = graph.edgeAt(at);
      if (!graph.is(edge, first) || component[graph.target(edge)] !== component[node]) continue;
      starts += 1;
      const path = pathBack(graph, edge, rest, component, rule, best === undefined ? Number.POSITIVE_INFINITY : best.length);
      if (path !== undefined) best = path;
    }
  }
  return best;
}

/**
 * Breadth-first search from the edge's target back to its source. State = node, and whether the last edge was rw: under the
 * nonadjacent rule an rw edge may not follow one, nor close onto the rw edge the cycle began with.
 */
function pathBack(
  graph: DependencyGraph,
  start: number,
  rest: number,
  component: Int32Array,
  rule: "any" | "nonadjacent",
  below: number,
): readonly number[] | undefined {
  const goal = graph.source(start);
  const home = component[goal];
  const isStrict = rule === "nonadjacent";
  const stateOf = (node: number, afterRw: boolean): number => 2 * node + (isStrict && afterRw ? 1 : 0);
  const first = stateOf(graph.target(start), graph.is(start, "rw"));
  const cameBy = new Map<number, { readonly edge: number; readonly state: number; readonly length: number }>();
  const queue: number[] = [first];
  for (let head = 0; head < queue.length; head += 1) {
    const state = queue[head]!;
    const node = state >> 1;
    const length = cameBy.get(state)?.length ?? 1;
    if (length + 1 >= below) return undefined;
    for (let at = graph.firstPosition(node); at < graph.endPosition(node); at += 1) {
      const edge = graph.edgeAt(at);
      const to = graph.target(edge);
      if (!graph.isIn(edge, rest) || component[to] !== home) continue;
      const isRw = graph.is(edge, "rw");
      const wasRw = (state & 1) === 1;
      if (isStrict && isRw && wasRw) continue;
      const next = stateOf(to, isRw || (graph.is(edge, "via") && wasRw));
      if (next === first || cameBy.has(next)) continue;
      if (to === goal && !(isStrict && (next & 1) === 1)) return [start, ...unwind(cameBy, state), edge];
      cameBy.set(next, { edge, state, length: length + 1 });
      queue.push(next);
    }
  }
  return undefined;
}

function unwind(cameBy: ReadonlyMap<number, { readonly edge: number; readonly state: number }>, end: number): number[] {
  const edges: number[] = [];
  for (let step = cameBy.get(end); step !== undefined; step = cameBy.get(step.state)) edges.push(step.edge);
  return edges.reverse();
}
