import { policies, types, type Client, type ExecutionOptions, type Host, type HostMap } from "cassandra-driver";
import type { Clock } from "@concord/runtime";
import { SILENT_LAST_MS } from "./limits.ts";

type Plan = (error: Error, hosts: Iterator<Host>) => void;

/**
 * Coordinators in the own datacenter first, replicas before others; then those of the other datacenters, where the driver's own policy
 * would give up: with one node per datacenter a paused coordinator has no other neighbour. A node that has just left a request without an
 * answer comes last for a while: a paused one is not down for the driver, and what may not be sent twice would wait for it again and again.
 */
export class ZonesPolicy extends policies.loadBalancing.LoadBalancingPolicy {
  readonly #datacenter: string;
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** Until when each comes last. */
  readonly #silent = new Map<string, number>();
  readonly #own: policies.loadBalancing.LoadBalancingPolicy;
  #hosts: HostMap | undefined;
  #turn = 0;
  /** Addresses of nodes that coordinate nothing. */
  avoided: ReadonlySet<string> = new Set();

  constructor(datacenter: string, clock: Pick<Clock, "monotonicMs">) {
    super();
    this.#clock = clock;
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

  /** These left a request without an answer. */
  silent(addresses: readonly string[]): void {
    for (const address of addresses) this.#silent.set(address, this.#clock.monotonicMs() + SILENT_LAST_MS);
  }

  override newQueryPlan(keyspace: string, options: ExecutionOptions, callback: Plan): void {
    this.#own.newQueryPlan(keyspace, options, (error, own) => callback(error, error ? own : this.#withOthers(own)));
  }

  override getOptions(): Map<string, object> {
    return this.#own.getOptions();
  }

  *#withOthers(own: Iterator<Host>): Iterator<Host> {
    const last: Host[] = [];
    for (const host of this.#inOrder(own)) {
      if (this.#isSilent(host)) last.push(host);
      else yield host;
    }
    yield* last;
  }

  #isSilent({ address }: Host): boolean {
    const untilMs = this.#silent.get(address);
    if (untilMs === undefined) return false;
    if (untilMs > this.#clock.monotonicMs()) return true;
    this.#silent.delete(address);
    return false;
  }

  *#inOrder(own: Iterator<Host>): Iterable<Host> {
    const isAvoided = (host: Host): boolean => this.avoided.has(host.address);
    for (let next = own.next(); next.done !== true; next = own.next()) if (!isAvoided(next.value)) yield next.value;
    const others = (this.#hosts?.values() ?? []).filter((host) => host.datacenter !== this.#datacenter && !isAvoided(host));
    this.#turn += 1;
    for (let at = 0; at < others.length; at += 1) yield others[(at + this.#turn) % others.length]!;
  }
}
