// Ids of one gateway, also while its clock stands behind the ids it made: another worker id has made none of that time yet.
import { ConcordError, type Clock, type Log, type Random } from "@concord/runtime";
import type { ObjectMetadata } from "@concord/ports";
import { openGuidSource, type GuidSource } from "@concord/snowflake";
import { CLOCK_RETRY_MS, WORKER_IDS_MAX } from "./limits.ts";
import { leaseWorker } from "./worker-lease.ts";

export interface GatewayGuidsOptions {
  readonly metadata: ObjectMetadata;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The gateway's name. */
  readonly instance: string;
}

/** Leases the name's worker id. */
export async function openGatewayGuids(options: GatewayGuidsOptions): Promise<GatewayGuids> {
  return new GatewayGuids(options, await openSource(options, 0));
}

/** Ids are unique over all worker ids; their order decides nothing (OGD5). */
export class GatewayGuids implements GuidSource {
  readonly #options: GatewayGuidsOptions;
  #source: GuidSource;
  #worker = 0;
  #changing: Promise<void> | undefined;
  #triedMs = Number.NEGATIVE_INFINITY;

  constructor(options: GatewayGuidsOptions, first: GuidSource) {
    this.#options = options;
    this.#source = first;
  }

  /** CLOCK_UNUSABLE when the clock stands behind the ids of all worker ids that one gateway may have. */
  async next(): Promise<bigint> {
    const source = this.#source;
    try {
      return await source.next();
    } catch (thrown) {
      if (!isClock(thrown)) throw thrown;
      await this.#change(source);
      if (this.#source === source) throw thrown;
    }
    return await this.#source.next();
  }

  async #change(from: GuidSource): Promise<void> {
    if (this.#source === from) await (this.#changing ??= this.#tryOthers().finally(() => (this.#changing = undefined)));
  }

  async #tryOthers(): Promise<void> {
    const { clock, log } = this.#options;
    if (clock.monotonicMs() - this.#triedMs < CLOCK_RETRY_MS) return;
    this.#triedMs = clock.monotonicMs();
    for (let step = 1; step < WORKER_IDS_MAX; step += 1) {
      const worker = (this.#worker + step) % WORKER_IDS_MAX;
      const source = await openSource(this.#options, worker);
      try {
        await source.next();
      } catch (thrown) {
        if (isClock(thrown)) continue;
        throw thrown;
      }
      log.warn("the clock was set back behind the ids of this gateway: it goes on with another worker id", { workerId: source.workerId });
      [this.#source, this.#worker] = [source, worker];
      return;
    }
  }
}

/** No gateway's name has a tilde. */
async function openSource({ instance, ...options }: GatewayGuidsOptions, worker: number): Promise<ReturnType<typeof openGuidSource>> {
  const name = worker === 0 ? instance : `${instance}~${worker}`;
  const { workerId, mark } = await leaseWorker({ ...options, instance: name });
  return openGuidSource({ workerId, clock: options.clock, mark });
}

function isClock(thrown: unknown): boolean {
  return thrown instanceof ConcordError && thrown.code === "CLOCK_UNUSABLE";
}
