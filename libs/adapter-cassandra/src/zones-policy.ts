import { policies, types, type Client, type ExecutionOptions, type Host, type HostMap } from "cassandra-driver";

type Plan = (error: Error, hosts: Iterator<Host>) => void;

/**
 * Coordinators in the own datacenter first, replicas before others; then those of the other datacenters, where the driver's own policy
 * would give up: with one node per datacenter a paused coordinator has no other neighbour.
 */
export class ZonesPolicy extends policies.loadBalancing.LoadBalancingPolicy {
  readonly #datacenter: string;
  readonly #own: policies.loadBalancing.LoadBalancingPolicy;
  #hosts: HostMap | undefined;
  #turn = 0;
  /** Addresses of nodes that coordinate nothing. */
  avoided: ReadonlySet<string> = new Set();

  constructor(datacenter: string) {
    super();
    this.#datacenter = datacenter;
    this.#own = new policies.loadBalancing.DefaultLoadBalancingPolicy({ localDc: datacenter });
  }

  override init(client: Client, hosts: HostMap, callback: (error: Error) => void): void {
    this.#hosts = hosts;
    this.#own.init(client, hosts, callback);
  }

  override getDistance(host: Host): types.distance {
    const { local, remote } = types.distance;
    // Asked of the inner policy too: it keeps its own view of what is near.
    this.#own.getDistance(host);
    return host.datacenter === this.#datacenter ? local : remote;
  }

  override newQueryPlan(keyspace: string, options: ExecutionOptions, callback: Plan): void {
    this.#own.newQueryPlan(keyspace, options, (error, own) => callback(error, error ? own : this.#withOthers(own)));
  }

  override getOptions(): Map<string, object> {
    return this.#own.getOptions();
  }

  *#withOthers(own: Iterator<Host>): Iterator<Host> {
    const isAvoided = (host: Host): boolean => this.avoided.has(host.address);
    for (let next = own.next(); next.done !== true; next = own.next()) if (!isAvoided(next.value)) yield next.value;
    const others = (this.#hosts?.values() ?? []).filter((host) => host.datacenter !== this.#datacenter && !isAvoided(host));
    this.#turn += 1;
    for (let at = 0; at < others.length; at += 1) yield others[(at + this.#turn) % others.length]!;
  }
}
