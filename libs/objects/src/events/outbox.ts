import type { MetadataCommit, ObjectMetadata } from "@concord/ports";
import { assert, ConcordError, type Clock, type Metrics } from "@concord/runtime";
import type { ObjectLimits } from "../limits.ts";
import { isEventKey, usageKey } from "../row-keys.ts";
import { OUTBOX_SHARDS_REMEMBERED } from "./limits.ts";

/** The store's context as the outbox uses it. */
export interface OutboxContext {
  readonly metadata: ObjectMetadata;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly limits: ObjectLimits;
}

/** What a gateway knows of events that wait: where its own are, and how many bytes there are. The rows are the truth. */
export class Outbox {
  readonly #mayHave = new Set<string>();
  /** By partition, as counted at that time and with what this gateway added since. */
  readonly #bytes = new Map<string, { bytes: number; readonly countedMs: number }>();
  /** Of all partitions, as the last scan found them. */
  #scannedBytes = 0;
  #wake: () => void = () => undefined;

  /** Called when there may be something to deliver. */
  onEvents(wake: () => void): void {
    this.#wake = wake;
  }

  /** After a commit that may have written events. */
  note({ partition, writes }: MetadataCommit): void {
    if (!writes.some((write) => write.kind === "put" && isEventKey(write.row.key))) return;
    this.mayHave(partition);
    this.#wake();
  }

  mayHave(partition: string): void {
    this.#mayHave.add(partition);
  }

  /** Partitions to look at. Each is forgotten: who finds events that stay says so again. */
  take(): readonly string[] {
    const taken = [...this.#mayHave];
    this.#mayHave.clear();
    return taken;
  }

  scanned(bytes: number): void {
    this.#scannedBytes = bytes;
  }

  /** OVERLOADED: so many bytes of events wait that a change which makes another one has to wait, too. */
  async admit(context: OutboxContext, partition: string, shards: number): Promise<void> {
    const { eventBytesMax, eventBytesTotalMax } = context.limits;
    const { bytes } = await this.#waiting(context, partition);
    if (bytes < Math.ceil(eventBytesMax / shards) && this.#scannedBytes < eventBytesTotalMax) return;
    context.metrics.count("objects_events_refused_total");
    throw new ConcordError("OVERLOADED", "too many events of this bucket wait for their delivery; try again later");
  }

  added(partition: string, bytes: number): void {
    const known = this.#bytes.get(partition);
    if (known !== undefined) known.bytes += bytes;
  }

  async #waiting(context: OutboxContext, partition: string): Promise<{ readonly bytes: number }> {
    const { clock, metadata, limits } = context;
    const known = this.#bytes.get(partition);
    if (known !== undefined && clock.monotonicMs() - known.countedMs < limits.eventCountMs) return known;
    const { bytes } = waitingOf(await metadata.readCounters(partition, usageKey()));
    const counted = { bytes, countedMs: clock.monotonicMs() };
    if (this.#bytes.size >= OUTBOX_SHARDS_REMEMBERED) this.#bytes.clear();
    this.#bytes.set(partition, counted);
    return counted;
  }
}

/** Of a shard's usage: behind objects and their bytes come events that wait and their bytes. */
export function waitingOf(counters: readonly bigint[]): { readonly events: number; readonly bytes: number } {
  const [events, bytes] = [Number(counters[2] ?? 0n), Number(counters[3] ?? 0n)];
  assert(events >= 0 && bytes >= 0, "OGD19: events are counted by the commits that write and remove them");
  return { events, bytes };
}
