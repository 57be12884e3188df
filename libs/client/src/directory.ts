import { foldName } from "@concord/codec";
import { SchemaService as StorageSchemaService } from "@concord/protos-storage";
import { SchemaService, TopologyService, type GetSchemaResponse, type GetTopologyResponse } from "@concord/protos-txn";
import type { Clock } from "@concord/runtime";
import type { Topology } from "./api.ts";
import { clientError } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import type { ConcordClientError } from "./errors.ts";
import { hedged, HedgeBudget } from "./hedged-call.ts";
import { SPECULATION_DELAY_MS } from "./limits.ts";
import { tableFromJson, type Table } from "./tables.ts";
import { Routes, type Route, type Serving } from "./routes.ts";
import { topologyFromMessage, topologyOfProxies } from "./topology.ts";

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
  readonly #hedges: HedgeBudget;
  #topology: Topology;
  readonly #routes: Routes;
  #tables: ReadonlyMap<string, Table> = new Map();
  #schemaVersion = 0n;
  /** One fetch at a time, shared by all that ask for it meanwhile. */
  #topologyFetch: Promise<void> | undefined;
  #schemaFetch: Promise<void> | undefined;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#hedges = new HedgeBudget(options.clock);
    this.#topology = topologyOfProxies(options.storageProxies);
    this.#routes = new Routes((old) => {
      if (old.address !== undefined) options.connections.abandon(old.address, old);
    });
  }

  get topology(): Topology {
    return this.#topology;
  }

  get schemaVersion(): bigint {
    return this.#schemaVersion;
  }

  /** Tables the client knows. */
  get tables(): readonly Table[] {
    return [...this.#tables.values()];
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
    if (this.find(name) === undefined) await this.learn(name);
    return this.known(name);
  }

  /** Fetches schemas until one has the table or none is newer: a server may know an older one than another that has answered its creation. */
  async learn(name: string): Promise<void> {
    await this.refreshSchema(0n);
    for (let asked = -1n; this.find(name) === undefined && asked !== this.#schemaVersion;) {
      asked = this.#schemaVersion;
      // A server that refuses has read at a quorum: no other one knows a newer schema.
      await this.#fetchSchema(asked + 1n, (error) => error.code !== "SCHEMA_BEHIND").catch((thrown: unknown) => {
        if ((thrown as ConcordClientError).code !== "SCHEMA_BEHIND") throw thrown;
      });
    }
  }

  /** Addresses of coordinators to try, those that are known to be configured and those that were given. */
  coordinators(): string[] {
    return [...new Set([...this.#topology.coordinators.map((node) => node.address), ...this.#options.coordinators])];
  }

  /** Resolves when the master of any group, or its epoch, becomes another. */
  get routesChanged(): Promise<void> {
    return this.#routes.changed;
  }

  /** The group of the token; undefined without a group map. */
  routeOf(tokenOf: () => bigint): Route | undefined {
    return this.#routes.only ?? this.#routes.of(tokenOf());
  }

  /** Who serves the token's group; without a group map any coordinator, which will name the right one. */
  masterOf(tokenOf: () => bigint): Serving {
    return this.servingOf(this.routeOf(tokenOf));
  }

  servingOf(route: Route | undefined): Serving {
    const serving = route?.serving;
    if (serving?.address !== undefined) return serving;
    const [address] = this.coordinators();
    if (address === undefined)
      throw clientError("UNIMPLEMENTED", "this client was connected without coordinators: there are no transactions");
    return { address, epoch: 0n, hasMoved: false };
  }

  /** The coordinator at the address answered as the group's master. */
  serves(group: string, address: string, epoch: bigint): void {
    this.#routes.serves(group, address, epoch);
  }

  /** A master did not answer as one: whom it or others name instead counts from now on. Answers who was named. */
  refused(serving: Serving, error: ConcordClientError): Serving | undefined {
    if (error.code !== "NOT_MASTER" && error.code !== "CONNECTION_LOST") return undefined;
    this.#routes.suspect(serving);
    const { group, address } = error.metadata;
    if (address === undefined) return undefined;
    if (group !== undefined) this.#routes.expected(group, address);
    const route = group === undefined ? undefined : this.#routes.byId(group);
    return route?.serving.address === address ? route.serving : { address, epoch: 0n, hasMoved: false };
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
    this.heard(await this.#firstAnswer(this.coordinators(), (address) => this.#topologyFrom(address)));
  }

  /** A coordinator's topology, asked for or not. */
  heard(message: GetTopologyResponse): void {
    this.#routes.heard(message);
    const topology = topologyFromMessage(message);
    const given = this.#options.storageProxies;
    const storageProxies = given.length === 0 ? topology.storageProxies : topologyOfProxies(given).storageProxies;
    this.#topology = { ...topology, storageProxies };
  }

  #topologyFrom(address: string): Promise<GetTopologyResponse> {
    const { connections, timeoutMs } = this.#options;
    return connections.unary(address, TopologyService.methods.GetTopology, { groupMapVersion: this.#topology.groupMapVersion }, timeoutMs);
  }

  async #fetchSchema(version: bigint, again?: (error: ConcordClientError) => boolean): Promise<void> {
    const { connections, timeoutMs } = this.#options;
    const { service, addresses } = this.schemaServers();
    const ask = (address: string): Promise<GetSchemaResponse> =>
      connections.unary(address, service.methods.GetSchema, { schemaVersion: version }, timeoutMs);
    const answer = await this.#firstAnswer(addresses, ask, again);
    if (answer.schemaVersion < this.#schemaVersion) return;
    this.#tables = new Map(answer.tables.map(tableFromJson).map((table) => [table.name, table]));
    this.#schemaVersion = answer.schemaVersion;
  }

  /** Of the first that answers; one that is frozen costs a moment, not its time-out. */
  #firstAnswer<T>(
    addresses: readonly string[],
    ask: (address: string) => Promise<T>,
    mayRepeat: (error: ConcordClientError) => boolean = () => true,
  ): Promise<T> {
    if (addresses.length === 0) throw clientError("MALFORMED_REQUEST", "no address of a server was given");
    const { clock } = this.#options;
    const again = (error: ConcordClientError): boolean => error.retryable && mayRepeat(error);
    return hedged({ clock, budget: this.#hedges, addresses, delayMs: SPECULATION_DELAY_MS, ask, again, slow: () => undefined });
  }
}
