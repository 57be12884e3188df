// One node whose disk is memory, on real sockets: stopped or cut off from its power, and started again on what was synced.
import { nodeHttpServer } from "@concord/adapter-http";
import { nodeClock, nodeEnvironment } from "@concord/adapter-node-runtime";
import { MemoryDisk, MemoryKeyValue, type KeyValueImage } from "@concord/port-contracts";
import type { Store } from "@concord/ports";
import { grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, type ConcordError, type Disk, type Environment, type Transport } from "@concord/runtime";
import { composeConcord } from "../composition.ts";
import { concordSchema, type ConcordConfig } from "../config.ts";
import type { Addresses, ConcordService } from "../service.ts";

export const ACCESS_KEY = { accessKeyId: "CONCORD", secretAccessKey: "only-for-tests", tenant: "main" };

export const network = (): Transport => grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });

export function environmentOver(transport: Transport): Environment {
  return nodeEnvironment({ transport, log: silentLog, metrics: silentMetrics, env: {} });
}

export function memoryConfig(config: object = {}): ConcordConfig {
  return concordSchema.parse({ accessKeys: [ACCESS_KEY], groupCount: 3, reflection: false, drainGraceMs: 500, ...config });
}

export class MemoryNode {
  readonly failures: ConcordError[] = [];
  readonly environment: Environment;
  readonly #config: ConcordConfig;
  readonly #disks = new Map<string, MemoryDisk>();
  readonly #stores = new Map<string, MemoryKeyValue>();
  readonly #refusals = new Map<string, ConcordError>();
  service: ConcordService;

  constructor(config: ConcordConfig, transport: Transport) {
    this.#config = config;
    this.environment = environmentOver(transport);
    this.service = this.#compose();
  }

  start(): Promise<Addresses> {
    return this.service.start();
  }

  stop(): Promise<void> {
    return this.service.stop();
  }

  /** The store of a part. */
  store(name: string): MemoryKeyValue {
    return this.#stores.get(name)!;
  }

  /** Opening the store and writing to it fail with `reason`, until it is called again without one. */
  refuse(name: string, reason: ConcordError | undefined): void {
    if (reason === undefined) {
      this.#refusals.delete(name);
      return;
    }
    this.#refusals.set(name, reason);
    const store = this.#stores.get(name);
    if (store !== undefined) store.batch = () => Promise.reject(reason);
  }

  /** The power fails and comes back. */
  async restart(): Promise<Addresses> {
    const images = [...this.#stores].map(([name, store]): [string, KeyValueImage] => [name, store.crash()]);
    await this.stop();
    for (const [name, image] of images) this.#stores.set(name, new MemoryKeyValue(image));
    this.service = this.#compose();
    return this.start();
  }

  #compose(): ConcordService {
    return composeConcord(this.#config, {
      environment: this.environment,
      disk: (folder) => this.#disk(folder),
      http: nodeHttpServer({ clock: nodeClock, log: silentLog, metrics: silentMetrics }),
      openKeyValue: async (name) => this.#open(name),
      onFailed: (cause) => void this.failures.push(cause),
    });
  }

  #disk(folder: string): Disk {
    const disk = this.#disks.get(folder) ?? new MemoryDisk();
    this.#disks.set(folder, disk);
    return disk;
  }

  /** What was left open is opened again as it was synced. */
  #open(name: string): Store {
    const refusal = this.#refusals.get(name);
    if (refusal !== undefined) throw refusal;
    const store = new MemoryKeyValue(this.#stores.get(name)?.crash());
    this.#stores.set(name, store);
    return store;
  }
}
