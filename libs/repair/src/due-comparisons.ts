import { ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { KeyValue, KeyValueOperation, StepRunner } from "@concord/ports";
import { assert, toConcordError, type Checksum, type Log, type Metrics } from "@concord/runtime";
import { DUE_PEERS_MAX } from "./limits.ts";

export interface DueComparisonsOptions {
  readonly runner: StepRunner;
  readonly checksum: Checksum;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Node-local. */
const KEY_PREFIX = new TextEncoder().encode("m:compare:");
const NOTE_VERSION = 1;

/**
 * Peers that may lack what this node has and keeps no hint for: each needs a comparison of all rows (I14). On disk with the step that drops the
 * hint; gone once a comparison that began after the last drop has ended.
 */
export class DueComparisons {
  readonly #options: DueComparisonsOptions;
  readonly #due = new Set<string>();
  /** By peer, in this life: a comparison that began before the newest one clears nothing. */
  readonly #drops = new Map<string, number>();

  private constructor(options: DueComparisonsOptions) {
    this.#options = options;
  }

  /** Loads what an earlier life noted. A note that fails its check counts: its key names the peer. */
  static async open(store: Pick<KeyValue, "range">, options: DueComparisonsOptions): Promise<DueComparisons> {
    const due = new DueComparisons(options);
    const to = KEY_PREFIX.map((byte, at) => (at === KEY_PREFIX.length - 1 ? byte + 1 : byte));
    for (const { key, value } of await store.range({ from: KEY_PREFIX, to, limit: DUE_PEERS_MAX })) {
      const peer = new TextDecoder().decode(key.subarray(KEY_PREFIX.length));
      try {
        openRecord(value, NOTE_VERSION, options.checksum);
      } catch (thrown) {
        options.log.warn("the note of a comparison is damaged; it is due all the same", { peer, reason: toConcordError(thrown).message });
      }
      due.#due.add(peer);
      options.metrics.gauge("repair_comparison_due", 1, { peer });
    }
    return due;
  }

  peers(): readonly string[] {
    return [...this.#due];
  }

  isDue(peer: string): boolean {
    return this.#due.has(peer);
  }

  /** The write that goes with the one by which a hint is dropped. To be called inside that step. */
  dropped(peer: string): KeyValueOperation {
    const { checksum, log, metrics } = this.#options;
    this.#drops.set(peer, this.dropsOf(peer) + 1);
    if (!this.#due.has(peer)) {
      log.warn("hints for a peer are dropped: a comparison of all rows brings it what it lacks once it is reachable", { peer });
      metrics.gauge("repair_comparison_due", 1, { peer });
    }
    this.#due.add(peer);
    return { kind: "put", key: keyOf(peer), value: sealRecord(NOTE_VERSION, new ByteWriter(), checksum) };
  }

  /** To be known before a comparison reads its first row. */
  dropsOf(peer: string): number {
    return this.#drops.get(peer) ?? 0;
  }

  /** A comparison of all rows has ended that began at so many drops. Durable when it resolves. */
  async compared(peer: string, dropsBefore: number): Promise<void> {
    const { runner, log, metrics } = this.#options;
    if (!this.#due.has(peer)) return;
    assert(dropsBefore <= this.dropsOf(peer), "I14: drops are counted up");
    const isCleared = await runner.submit({
      load: [],
      run: () => {
        if (this.dropsOf(peer) !== dropsBefore) return { persist: [], reply: false };
        this.#due.delete(peer);
        return { persist: [{ kind: "delete", key: keyOf(peer) }], reply: true };
      },
    });
    if (!isCleared) return;
    log.info("a peer has every row for which a hint was dropped", { peer });
    metrics.gauge("repair_comparison_due", 0, { peer });
  }
}

function keyOf(peer: string): Uint8Array {
  return Uint8Array.of(...KEY_PREFIX, ...new TextEncoder().encode(peer));
}
