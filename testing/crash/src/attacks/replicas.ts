// Replicas of the rows one by one, read as their peers read them: no quorum, no repair.
import { setTimeout as sleep } from "node:timers/promises";
import { readLarge, RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { nodeClock } from "@concord/adapter-node-runtime";
import type { ConcordClient } from "@concord/client";
import { metricSamples, metricsPage, type NodePlan } from "@concord/constellation";
import type { Row, RowKey } from "@concord/ports";
import { ReplicaService, type ReadPartResponse } from "@concord/protos-storage";
import { imageOfStored, storedRowKey } from "@concord/quorum";
import { decodeImage, encodeRowKey, liveRow } from "@concord/rows";
import { bearer, callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, type CallOptions, type Channel } from "@concord/runtime";
import type { Target } from "./attack.ts";

const CALL_MS = 30_000;
const KEYS_PER_READ = 500;
const RETRY_MS = 100;
const TRIES_MAX = 100;
const LOOK_MS = 100;
/** Nothing moves on for so long: it stands, on a busy machine too. */
const STAND_MS = 60_000;
/** Comparisons that end while something is left for the victim: hints that are dropped meanwhile make another one due. */
const ROUNDS_MAX = 20;
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

  /** The row as it is stored, of any size; undefined: this replica has none. */
  stored(key: RowKey): Promise<Uint8Array | undefined> {
    const readPart = (part: Uint8Array, offset: number, timeoutMs: number): Promise<ReadPartResponse> => {
      const request = { key: part, offset: BigInt(offset) };
      return callUnary(this.#channel, ReplicaService.methods.ReadPart, request, { ...this.#options, timeoutMs });
    };
    return readLarge({ name: this.name, clock: nodeClock, readPart }, storedRowKey(encodeRowKey(key)), CALL_MS);
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

/** Batches and hints that a node keeps for one of its peers, from its page /replicas. */
export interface Waiting {
  /** Batches in its batchlog. */
  readonly batches: number;
  readonly hints: number;
  readonly isComparisonDue: boolean;
  /** Text where the peer alone compares. */
  readonly comparison: Comparison | string;
}

interface Comparison {
  readonly rowsCompared: number;
  readonly completedAtMs?: number;
}

interface ReplicasPage {
  readonly own: { readonly pendingBatches: number };
  readonly replicas: readonly {
    readonly name: string;
    readonly waiting: { readonly hints: number; readonly isComparisonDue: boolean };
    readonly comparison: Comparison | string;
  }[];
}

export async function waitingFor(peer: string, { adminAddress }: NodePlan): Promise<Waiting> {
  const response = await fetch(`http://${adminAddress}/replicas`, { headers: { connection: "close" } });
  const { own, replicas } = (await response.json()) as ReplicasPage;
  const { waiting, comparison } = replicas.find(({ name }) => name === peer)!;
  return { batches: own.pendingBatches, ...waiting, comparison };
}

export interface Ring {
  readonly victim: NodePlan;
  readonly survivors: readonly NodePlan[];
}

/** The last replica is the victim: the first one is measured, and is the gateway of honest users where it is the one program. */
export function ringOf({ constellation: { nodes } }: Target): Ring {
  const replicas = nodes.filter(({ service }) => service === "concord" || service === "storage-proxy");
  return { victim: replicas.at(-1)!, survivors: replicas.slice(0, -1) };
}

/** A client for each of the nodes, which asks that one alone for rows. */
export function connectEach(
  { constellation, client, clientToken: token }: Target,
  nodes: readonly NodePlan[],
  timeoutMs = 10_000,
): Promise<ConcordClient[]> {
  const { coordinators } = constellation;
  return Promise.all(nodes.map(({ address }) => client.connect({ coordinators, storageProxies: [address], token, timeoutMs })));
}

/** Hints for the peer that the node has delivered, or mutations whose hint it dropped since they were full. */
export async function hints(what: "delivered" | "dropped", { adminAddress }: NodePlan, peer: string): Promise<number> {
  const samples = metricSamples(await metricsPage(adminAddress), `hints_${what}_total`);
  const counted = samples.filter(({ labels }) => labels["peer"] === peer && (what === "delivered" || labels["reason"] === "full"));
  return counted.reduce((sum, { value }) => sum + value, 0);
}

/**
 * Each survivor has neither batches nor hints nor a comparison left for the victim, in two looks one after the other. Fails the attack when no fewer
 * become of them and no comparison reads on, or when comparisons end and are due again and again.
 */
export async function healed(target: Target, { victim, survivors }: Ring): Promise<void> {
  const rounds = new Set<string>();
  let [fewest, looks] = [Infinity, 0];
  const left = async (): Promise<string | undefined> => {
    const waiting = await Promise.all(survivors.map((survivor) => waitingFor(victim.name, survivor)));
    const due = waiting.filter(({ isComparisonDue }) => isComparisonDue).length;
    const kept = waiting.reduce((sum, { batches, hints }) => sum + batches + hints, 0);
    fewest = Math.min(fewest, kept);
    const comparisons = waiting.map(({ comparison }) => (typeof comparison === "string" ? undefined : comparison));
    comparisons.forEach((comparison, at) => rounds.add(`${at} ${comparison?.completedAtMs}`));
    looks = kept + due === 0 ? looks + 1 : 0;
    if (looks === 2 || rounds.size > ROUNDS_MAX) return undefined;
    const rowsCompared = comparisons.map((comparison) => comparison?.rowsCompared ?? 0);
    return `${due} comparisons due, ${fewest} batches and hints at the fewest, ${rowsCompared.join(" and ")} rows compared, ${rounds.size} rounds`;
  };
  await settle(target, `what ${victim.name} lacks`, left);
  if (looks < 2 && rounds.size > ROUNDS_MAX)
    target.fail(`${rounds.size} comparisons with ${victim.name} have ended, and something is left for it`);
}

/** Waits until `look` reports that nothing is left. False: what is left did not change for STAND_MS, which fails the attack. */
export async function settle(target: Target, what: string, look: () => Promise<string | undefined>): Promise<boolean> {
  let [left, sinceMs] = ["", performance.now()];
  for (;;) {
    const now = await look();
    if (now === undefined) return true;
    if (now !== left) [left, sinceMs] = [now, performance.now()];
    if (performance.now() - sinceMs > STAND_MS) {
      target.fail(`${what} stands for ${STAND_MS / 1000} s: ${left}`);
      return false;
    }
    await sleep(LOOK_MS);
  }
}
