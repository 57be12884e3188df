import { TopologyService, type GetTopologyResponse, type WatchTopologyResponse } from "@concord/protos-txn";
import { backoffMs, ConcordError, type Clock, type MessageStream, type Timer } from "@concord/runtime";
import type { Connections } from "./connections.ts";
import { WATCH_BACKOFF, WATCHED_COORDINATORS_MAX } from "./limits.ts";

export interface TopologyWatchOptions {
  readonly connections: Connections;
  readonly clock: Clock;
  readonly onTopology: (topology: GetTopologyResponse) => void;
}

interface Watched {
  readonly address: string;
  stream: MessageStream | undefined;
  retry: Timer | undefined;
  /** Streams that ended since one brought a message. */
  losses: number;
}

/**
 * Follows the topology at several coordinators at once: one that is frozen says nothing of its own loss, the others do (TX18). Goes on by itself after broken streams; ends for good at a coordinator that knows no watch.
 */
export class TopologyWatch {
  readonly #options: TopologyWatchOptions;
  readonly #watched = new Map<string, Watched>();
  #isClosed = false;

  constructor(options: TopologyWatchOptions) {
    this.#options = options;
  }

  /** Watches the first of these that it does not watch yet, up to the limit. */
  follow(addresses: readonly string[]): void {
    for (const address of addresses) {
      if (this.#watched.size >= WATCHED_COORDINATORS_MAX) return;
      if (this.#isClosed || this.#watched.has(address)) continue;
      const watched: Watched = { address, stream: undefined, retry: undefined, losses: 0 };
      this.#watched.set(address, watched);
      this.#open(watched);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const { stream, retry } of this.#watched.values()) {
      retry?.cancel();
      stream?.end();
    }
    this.#watched.clear();
  }

  #open(watched: Watched): void {
    const { connections, onTopology } = this.#options;
    const stream = connections.stream(watched.address, TopologyService.methods.WatchTopology);
    watched.stream = stream;
    stream.onMessage((message) => {
      watched.losses = 0;
      const { topology } = message as WatchTopologyResponse;
      if (topology !== null && !this.#isClosed) onTopology(topology);
    });
    stream.onEnd((error) => this.#ended(watched, error));
    stream.send({});
  }

  #ended(watched: Watched, error: Error | undefined): void {
    watched.stream = undefined;
    if (this.#isClosed || (error instanceof ConcordError && FOR_GOOD.has(error.code))) return;
    const delayMs = backoffMs(WATCH_BACKOFF, watched.losses);
    watched.losses += 1;
    watched.retry = this.#options.clock.setTimer(delayMs, () => this.#open(watched));
  }
}

/** No further try would end otherwise. */
const FOR_GOOD: ReadonlySet<string> = new Set(["UNIMPLEMENTED", "UNAUTHENTICATED", "PERMISSION_DENIED"]);
