/**
 * Why one node comes before another. `ww`, `wr`, `rw` as in Adya; `rt`: the first was acknowledged before the second began;
 * `via`: a step through a helper node, counted as part of the edge before it.
 */
export const EDGE_TYPES = ["ww", "wr", "rw", "rt", "via"] as const;
export type EdgeType = (typeof EDGE_TYPES)[number];

const BIT: Readonly<Record<EdgeType, number>> = { ww: 1, wr: 2, rw: 4, rt: 8, via: 16 };

export function maskOf(types: readonly EdgeType[]): number {
  return types.reduce((mask, type) => mask | BIT[type], BIT.via);
}

export interface Edge {
  readonly from: number;
  readonly to: number;
  readonly type: EdgeType;
  /** The key it stems from; undefined for real time. */
  readonly key: string | undefined;
}

/** A graph of transactions and helper nodes, kept as flat arrays: linear in its edges. */
export class DependencyGraph {
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  readonly #bits: number[] = [];
  readonly #keys: (string | undefined)[] = [];
  #nodeCount: number;
  #starts: Int32Array = new Int32Array(0);
  #order: Int32Array = new Int32Array(0);

  constructor(transactions: number) {
    this.#nodeCount = transactions;
  }

  get nodeCount(): number {
    return this.#nodeCount;
  }

  get edgeCount(): number {
    return this.#from.length;
  }

  addNode(): number {
    this.#nodeCount += 1;
    return this.#nodeCount - 1;
  }

  addEdge(from: number, to: number, type: EdgeType, key?: string): void {
    if (from === to) return;
    this.#from.push(from);
    this.#to.push(to);
    this.#bits.push(BIT[type]);
    this.#keys.push(key);
  }

  /** Call once after the last edge. */
  seal(): void {
    const starts = new Int32Array(this.#nodeCount + 1);
    for (const from of this.#from) starts[from + 1]! += 1;
    for (let node = 0; node < this.#nodeCount; node += 1) starts[node + 1]! += starts[node]!;
    const next = starts.slice();
    const order = new Int32Array(this.#from.length);
    for (let edge = 0; edge < this.#from.length; edge += 1) {
      const from = this.#from[edge]!;
      order[next[from]!] = edge;
      next[from]! += 1;
    }
    this.#starts = starts;
    this.#order = order;
  }

  edge(edge: number): Edge {
    const type = EDGE_TYPES.find((name) => BIT[name] === this.#bits[edge])!;
    return { from: this.#from[edge]!, to: this.#to[edge]!, type, key: this.#keys[edge] };
  }

  target(edge: number): number {
    return this.#to[edge]!;
  }

  source(edge: number): number {
    return this.#from[edge]!;
  }

  is(edge: number, type: EdgeType): boolean {
    return this.#bits[edge] === BIT[type];
  }

  /** Position range of the node's edges; `edgeAt` turns a position into an edge. */
  firstPosition(node: number): number {
    return this.#starts[node]!;
  }

  endPosition(node: number): number {
    return this.#starts[node + 1]!;
  }

  edgeAt(position: number): number {
    return this.#order[position]!;
  }

  isIn(edge: number, mask: number): boolean {
    return (this.#bits[edge]! & mask) !== 0;
  }

  /** Strongly connected components over the edges in `mask` (Tarjan, iterative); -1 for nodes that are alone. */
  components(mask: number): { readonly component: Int32Array; readonly count: number } {
    const component = new Int32Array(this.#nodeCount).fill(-1);
    const index = new Int32Array(this.#nodeCount).fill(-1);
    const low = new Int32Array(this.#nodeCount);
    const onStack = new Uint8Array(this.#nodeCount);
    const position = new Int32Array(this.#nodeCount);
    const stack: number[] = [];
    const path: number[] = [];
    let time = 0;
    let count = 0;
    const enter = (node: number): void => {
      index[node] = low[node] = time;
      time += 1;
      position[node] = this.#starts[node]!;
      stack.push(node);
      onStack[node] = 1;
      path.push(node);
    };
    const close = (node: number): void => {
      const members: number[] = [];
      let member: number;
      do {
        member = stack.pop()!;
        onStack[member] = 0;
        members.push(member);
      } while (member !== node);
      if (members.length === 1) return;
      for (const each of members) component[each] = count;
      count += 1;
    };
    for (let root = 0; root < this.#nodeCount; root += 1) {
      if (index[root] !== -1) continue;
      enter(root);
      while (path.length > 0) {
        const node = path[path.length - 1]!;
        const at = position[node]!;
        if (at < this.#starts[node + 1]!) {
          position[node] = at + 1;
          const edge = this.#order[at]!;
          if ((this.#bits[edge]! & mask) === 0) continue;
          const to = this.#to[edge]!;
          if (index[to] === -1) enter(to);
          else if (onStack[to] === 1) low[node] = Math.min(low[node]!, index[to]!);
          continue;
        }
        path.pop();
        const parent = path[path.length - 1];
        if (parent !== undefined) low[parent] = Math.min(low[parent]!, low[node]!);
        if (low[node] === index[node]) close(node);
      }
    }
    return { component, count };
  }
}
