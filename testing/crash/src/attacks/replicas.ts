// Replicas of the rows one by one, read as their peers read them: no quorum, no repair.
import { setTimeout as sleep } from "node:timers/promises";
import { RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { nodeClock } from "@concord/adapter-node-runtime";
import type { NodePlan } from "@concord/constellation";
import type { Row, RowKey } from "@concord/ports";
import { ReplicaService } from "@concord/protos-storage";
import { imageOfStored } from "@concord/quorum";
import { decodeImage, encodeRowKey, liveRow } from "@concord/rows";
import { bearer, callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, type CallOptions, type Channel } from "@concord/runtime";

const CALL_MS = 30_000;
const KEYS_PER_READ = 500;
const RETRY_MS = 100;
const TRIES_MAX = 100;
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });

/** One replica of the rows, without the others. */
export class Replica {
  readonly name: string;
  readonly #channel: Channel;
  readonly #options: CallOptions;

  constructor({ name, address }: NodePlan, peerToken: string) {
    this.name = name;
    this.#channel = transport.connect(address);
    this.#options = { timeoutMs: CALL_MS, metadata: { ...bearer(peerToken), [RING_PROTOCOL_KEY]: String(RING_PROTOCOL) } };
  }

  /** Live rows in the order of the keys; undefined: this replica has none. */
  async read(keys: readonly RowKey[]): Promise<readonly (Row | undefined)[]> {
    const rows: (Row | undefined)[] = [];
    for (let at = 0; at < keys.length; at += KEYS_PER_READ) {
      const images = await this.#images(keys.slice(at, at + KEYS_PER_READ).map(encodeRowKey));
      rows.push(...images.map((image) => (image.length === 0 ? undefined : liveRow(decodeImage(imageOfStored(image))))));
    }
    return rows;
  }

  close(): void {
    this.#channel.close();
  }

  /** Repeated while a batch of these rows is replayed. */
  async #images(keys: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        return (await callUnary(this.#channel, ReplicaService.methods.ReadRows, { keys }, this.#options)).images;
      } catch (thrown) {
        if ((thrown as { readonly code?: string }).code !== "REPLICAS_UNAVAILABLE" || tries === TRIES_MAX) throw thrown;
        await sleep(RETRY_MS);
      }
    }
  }
}

/** What a node keeps for one of its peers, from its page /replicas. */
export interface Waiting {
  /** Batches in its batchlog. */
  readonly batches: number;
  readonly hints: number;
  readonly isComparisonDue: boolean;
  /** Rows that the comparison under way has read, and repaired; text of the page where another node compares. */
  readonly comparison: unknown;
}

interface ReplicasPage {
  readonly own: { readonly pendingBatches: number };
  readonly replicas: readonly {
    readonly name: string;
    readonly waiting: { readonly hints: number; readonly isComparisonDue: boolean };
    readonly comparison: unknown;
  }[];
}

export async function waitingFor(peer: string, { adminAddress }: NodePlan): Promise<Waiting> {
  const response = await fetch(`http://${adminAddress}/replicas`, { headers: { connection: "close" } });
  const { own, replicas } = (await response.json()) as ReplicasPage;
  const { waiting, comparison } = replicas.find(({ name }) => name === peer)!;
  return { batches: own.pendingBatches, ...waiting, comparison };
}
