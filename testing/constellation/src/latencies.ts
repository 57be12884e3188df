/** Latencies of one kind of work, and what they come to. */
export class Latencies {
  readonly #ms: number[] = [];

  get count(): number {
    return this.#ms.length;
  }

  add(ms: number): void {
    this.#ms.push(ms);
  }

  /** The latency below which `share` of them lie, 0..1; 0 when there are none. */
  percentileMs(share: number): number {
    const sorted = this.#ms.toSorted((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  }

  /** "p50 3.1 ms, p99 12.0 ms" */
  text(): string {
    return `p50 ${this.percentileMs(0.5).toFixed(1)} ms, p99 ${this.percentileMs(0.99).toFixed(1)} ms`;
  }
}
