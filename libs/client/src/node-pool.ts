import type { Clock } from "@concord/runtime";
import { NODE_PENALTY_MS } from "./limits.ts";

/** Picks which of several equal nodes to ask: near ones in turn, then the others, at last those that failed a moment ago. */
export class NodePool {
  readonly #clock: Clock;
  readonly #penaltyUntilMs = new Map<string, number>();
  #turn = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** All of the nodes, each once, in the order to ask them. */
  order(nodes: readonly { readonly address: string; readonly datacenter: string }[], datacenter: string | undefined): string[] {
    this.#turn += 1;
    const nowMs = this.#clock.monotonicMs();
    const ranked = nodes.map((node, at) => {
      const failed = (this.#penaltyUntilMs.get(node.address) ?? 0) > nowMs;
      const far = datacenter !== undefined && node.datacenter !== datacenter;
      return { address: node.address, rank: (failed ? 2 : 0) + (far ? 1 : 0), turn: (at + this.#turn) % nodes.length };
    });
    return ranked.toSorted((a, b) => a.rank - b.rank || a.turn - b.turn).map((node) => node.address);
  }

  failed(address: string): void {
    this.#penaltyUntilMs.set(address, this.#clock.monotonicMs() + NODE_PENALTY_MS);
  }

  answered(address: string): void {
    this.#penaltyUntilMs.delete(address);
  }
}
