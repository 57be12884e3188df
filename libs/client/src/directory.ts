import { foldName } from "@concord/codec";
import { SchemaService as StorageSchemaService } from "@concord/protos-storage";
import { SchemaService, TopologyService, type GetTopologyResponse } from "@concord/protos-txn";
import type { Clock } from "@concord/runtime";
import type { Topology } from "./api.ts";
import { clientError, toClientError } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import { tableFromJson, type Table } from "./tables.ts";
import { mastersOf, topologyFromMessage, topologyOfProxies, type Masters } from "./topology.ts";

export interface DirectoryOptions {
  readonly connections: Connections;
  readonly clock: Clock;
  readonly coordinators: readonly string[];
  readonly storageProxies: readonly string[];
  readonly timeoutMs: number;
}

/**
 * What a fat client must know to route (TX1, TXD13): topology, group map, schema. Old knowledge is harmless: servers refuse what does
 * not fit, and the refusal brings the client here again.
 */
export class Directory {
  readonly #options: DirectoryOptions;
  #topology: Topology;
  #masters: Masters;
  #tables: ReadonlyMap<string, Table> = new Map();
  #schemaVersion = 0n;
  /** One fetch at a time, shared by all that ask for it meanwhile. */
  #topologyFetch: Promise<void> | undefined;
  #schemaFetch: Promise<void> | undefined;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#topology = topologyOfProxies(options.storageProxies);
    this.#masters = mastersOf(this.#topology);
  }

  get topology(): Topology {
    return this.#topology;
  }

  get schemaVersion(): bigint {
    return this.#schemaVersion;
  }

  /** A table the client knows; its name folds as in CQL. */
  find(name: string): Table | undefined {
    return this.#tables.get(foldName(name));
  }

  /** TABLE_UNKNOWN at once; `table` asks the servers first. */
  known(name: string): Table {
    const table = this.find(name);
    if (table !== undefined) return table;
    const folded = foldName(name);
    throw clientError("TABLE_UNKNOWN", `there is no table ${folded}; create it first`, { metadata: { table: folded } });
  }

  async table(name: string): Promise<Table> {
    if (this.find(name) === undefined) await this.refreshSchema(0n);
    return this.known(name);
  }

  /** Addresses of coordinators to try, those that are known to be configured and those that were given. */
  coordinators(): string[] {
    return [...new Set([...this.#topology.coordinators.map((node) => node.address), ...this.#options.coordinators])];
  }

  /** Where transactions on this token's entity run; without a group map any coordinator, which will name the right one. */
  masterOf(tokenOf: () => bigint): string {
    const { only } = this.#masters;
    if (only !== undefined) return only;
    const token = tokenOf();
    const address = this.#masters.ranges.findLast((range) => range.fromToken <= token)?.address ?? this.coordinators()[0];
    if (address === undefined)
      throw clientError("UNIMPLEMENTED", "this client was connected without coordinators: there are no transactions");
    return address;
  }

  /** Where tables are created and read: at the coordinators; at the storage-proxies in a cluster without any. */
  schemaServers(): { readonly service: SchemaService | StorageSchemaService; readonly addresses: readonly string[] } {
    const coordinators = this.coordinators();
    if (coordinators.length > 0) return { service: SchemaService, addresses: coordinators };
    return { service: StorageSchemaService, addresses: this.#topology.storageProxies.map((node) => node.address) };
  }

  /** Asks the coordinators in turn until one answers. */
  refreshTopology(): Promise<void> {
    this.#topologyFetch ??= this.#fetchTopology().finally(() => {
      this.#topologyFetch = undefined;
    });
    return this.#topologyFetch;
  }

  /** Fetches the schema, at least this version. */
  refreshSchema(version: bigint): Promise<void> {
    this.#schemaFetch ??= this.#fetchSchema(version).finally(() => {
      this.#schemaFetch = undefined;
    });
    return this.#schemaFetch;
  }

  async #fetchTopology(): Promise<void> {
    if (this.#options.coordinators.length === 0) return;
    const message = await this.#firstAnswer(this.coordinators(), (address) => this.#topologyFrom(address));
    const topology = topologyFromMessage(message);
    const given = this.#options.storageProxies;
    const storageProxies = given.length === 0 ? topology.storageProxies : topologyOfProxies(given).storageProxies;
    this.#topology = { ...topology, storageProxies };
    this.#masters = mastersOf(this.#topology);
  }

  #topologyFrom(address: string): Promise<GetTopologyResponse> {
    const { connections, timeoutMs } = this.#options;
    return connections.unary(address, TopologyService.methods.GetTopology, { groupMapVersion: this.#topology.groupMapVersion }, timeoutMs);
  }

  async #fetchSchema(version: bigint): Promise<void> {
    const { connections, timeoutMs } = this.#options;
    const { service, addresses } = this.schemaServers();
    const answer = await this.#firstAnswer(addresses, (address) =>
      connections.unary(address, service.methods.GetSchema, { schemaVersion: version }, timeoutMs),
    );
    if (answer.schemaVersion < this.#schemaVersion) return;
    this.#tables = new Map(answer.tables.map(tableFromJson).map((table) => [table.name, table]));
    this.#schemaVersion = answer.schemaVersion;
  }

  async #firstAnswer<T>(addresses: readonly string[], ask: (address: string) => Promise<T>): Promise<T> {
    let last: unknown = clientError("MALFORMED_REQUEST", "no address of a server was given");
    for (const address of addresses) {
      try {
        return await ask(address);
      } catch (thrown) {
        const error = toClientError(thrown);
        last = error;
        if (!error.retryable) throw error;
      }
    }
    throw toClientError(last);
  }
}
