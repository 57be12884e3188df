// A ring of real services in one process: real handlers and encodings, memory instead of network and disks, time by hand. Or one
// service on a backend in memory: what no test of handlers can tell from a ring.
import { crc32 } from "node:zlib";
import { RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { VerdictRelay } from "@concord/failure-detection";
import {
  MemoryDisk,
  MemoryKeyValue,
  memoryStorage,
  MemoryStorageBackend,
  type KeyValueImage,
  type MemoryStorage,
} from "@concord/port-contracts";
import type { KeyValueEntry } from "@concord/ports";
import { contract } from "@concord/protos-storage";
import { bearer, MemoryTransport } from "@concord/rpc";
import { type ConcordError, type Environment, type Log, silentLog, silentMetrics, StartWaits } from "@concord/runtime";
import { composeStorageProxy, storageProxySchema, type StorageProxyConfig, type StorageProxyService } from "../index.ts";
import type { OpenedBackend } from "../backend-definition.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const COORDINATOR = "coordinator-secret";
export const PEER = "peer-secret";

export interface MemoryNode {
  readonly name: string;
  service: StorageProxyService;
  store: MemoryKeyValue;
  /** Whose space is measured; the store is not on it. */
  disk: MemoryDisk;
  /** Of a node on a backend in memory. */
  readonly storage: MemoryStorage;
  /** Verdicts as the test dictates them. */
  readonly failures: VerdictRelay;
}

export interface RingOptions {
  readonly size: 1 | 3;
  /** "memory": one node that is no ring. */
  readonly backend?: "ring" | "memory";
  readonly config?: Partial<StorageProxyConfig>;
  readonly log?: Log;
  readonly onFailed?: (cause: ConcordError) => void;
  /** Those of another ring that runs at the same time. */
  readonly network?: MemoryTransport;
  readonly clock?: VirtualClock;
}

export class MemoryRing {
  readonly clock: VirtualClock;
  readonly network: MemoryTransport;
  readonly nodes: MemoryNode[];
  readonly #options: RingOptions;
  /** Text of /readyz of the nodes that start. */
  readonly startWaits: StartWaits;

  constructor(options: RingOptions) {
    this.#options = options;
    this.clock = options.clock ?? new VirtualClock();
    this.startWaits = new StartWaits({ clock: this.clock, log: options.log ?? silentLog });
    this.network = options.network ?? new MemoryTransport({ clock: this.clock });
    this.nodes = Array.from({ length: options.size }, (_, at) => this.#compose(`node-${at + 1}`));
  }

  async start(): Promise<void> {
    await this.clock.run(Promise.all(this.nodes.map((node) => node.service.start())));
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) await this.halt(node);
  }

  /** Ends the node; its store stays. */
  async halt(node: MemoryNode): Promise<void> {
    await this.clock.run(node.service.stop());
  }

  /** Starts the node again from `disk`: what it left by default, an empty one for a lost store. Resolves when it serves. */
  async restart(node: MemoryNode, disk: KeyValueImage = node.store.crash()): Promise<void> {
    await this.clock.run(this.beginRestart(node, disk));
  }

  beginRestart(node: MemoryNode, disk: KeyValueImage): Promise<unknown> {
    Object.assign(node, this.#compose(node.name, disk));
    return node.service.start();
  }

  /** A unary call. */
  call<Response = Record<string, unknown>>(node: MemoryNode, method: string, request: object, token?: string): Promise<Response> {
    return this.clock.run(this.begin<Response>(node, method, request, token));
  }

  begin<Response = Record<string, unknown>>(node: MemoryNode, path: string, request: object, token?: string): Promise<Response> {
    const [service, method] = path.split("/") as [string, string];
    const descriptor = contract.service(service).methods[method]!;
    const channel = this.network.connect(addressOf(node.name));
    const metadata = { ...bearer(token), ...(token === PEER ? { [RING_PROTOCOL_KEY]: String(RING_PROTOCOL) } : {}) };
    return channel.unary(descriptor, request, { timeoutMs: 5000, metadata }) as Promise<Response>;
  }

  channel(node: MemoryNode): ReturnType<MemoryTransport["connect"]> {
    return this.network.connect(addressOf(node.name));
  }

  /** Everything every node has stored. */
  contents(): readonly (readonly KeyValueEntry[])[] {
    return this.nodes.map((node) => node.store.contents());
  }

  /** The same before and after a call that changes nothing. */
  snapshot(): unknown {
    return this.#options.backend === "memory" ? this.nodes.map((node) => node.storage.rows.contents()) : this.contents();
  }

  ringOf(names: readonly string[]): StorageProxyConfig["ring"] {
    return names.map((name) => ({ name, address: addressOf(name), datacenter: `dc-${name.at(-1)}` }));
  }

  #compose(name: string, image?: KeyValueImage): MemoryNode {
    const storage = memoryStorage();
    const failures = new VerdictRelay();
    const store = new MemoryKeyValue(image);
    const disk = new MemoryDisk();
    const names = Array.from({ length: this.#options.size }, (_, at) => `node-${at + 1}`);
    const config = storageProxySchema.parse({
      nodeName: name,
      datacenter: `dc-${name.at(-1)}`,
      listenAddress: addressOf(name),
      ring: this.ringOf(names),
      coordinatorToken: COORDINATOR,
      peerToken: PEER,
      ...this.#options.config,
    });
    const { onFailed, backend } = this.#options;
    const openBackend = (): Promise<OpenedBackend> => Promise.resolve({ backend: new MemoryStorageBackend(storage), services: [] });
    const service = composeStorageProxy(config, {
      environment: this.#environment(),
      disk,
      openKeyValue: () => Promise.resolve(store),
      failures,
      ...(onFailed === undefined ? {} : { onFailed }),
      ...(backend === "memory" ? { openBackend } : {}),
    });
    return { name, service, store, disk, storage, failures };
  }

  #environment(): Environment {
    let drawn = 0;
    const random = {
      bytes: (length: number) => Uint8Array.from({ length }, () => (drawn += 7) % 256),
      below: (limit: number) => (drawn += 7) % limit,
      float: () => ((drawn += 7) % 100) / 100,
    };
    const checksum = (bytes: Uint8Array): number => crc32(bytes);
    const log = this.#options.log ?? silentLog;
    const { clock, network: transport, startWaits } = this;
    return { clock, random, transport, checksum, log, metrics: silentMetrics, failpoint: () => undefined, startWaits };
  }
}

function addressOf(name: string): string {
  return `${name}:7000`;
}
