import type { GetTopologyResponse } from "@concord/protos-txn";
import { assert } from "@concord/runtime";

/** A coordinator as the master of a group, as this client knows it. Another one that is heard to serve the group takes its place as a new object. */
export interface Serving {
  /** Undefined where the map names a coordinator that is not configured. */
  readonly address: string | undefined;
  /** Under which it serves; 0 = it is only expected to. */
  epoch: bigint;
  /** Another coordinator serves the group under a newer epoch: what is in flight here will not be committed. */
  hasMoved: boolean;
}

/** A transaction group (TX2) with its master and the coordinators that may become it (TX16). */
export interface Route {
  readonly id: string;
  readonly fromToken: bigint;
  serving: Serving;
  ranks: readonly string[];
  /** The master did not answer as one: what others expect counts, though they do not serve the group themselves. */
  isSuspect: boolean;
}

/**
 * Which coordinator serves which tokens (TX2). Only a coordinator's word about itself counts against what is known, and of two the newer epoch (TXD1): so
 * answers and messages may come in any order, from nodes that are behind.
 */
export class Routes {
  readonly #onMoved: (old: Serving) => void;
  #byGroup = new Map<string, Route>();
  /** In the order of tokens. */
  #ranges: readonly Route[] = [];
  #changed = nextChange();

  constructor(onMoved: (old: Serving) => void) {
    this.#onMoved = onMoved;
  }

  /** Resolves when any group has another master, or its master another epoch. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** The only group there is, when there is one. */
  get only(): Route | undefined {
    return this.#ranges.length === 1 ? this.#ranges[0] : undefined;
  }

  /** The group of the token; undefined without a map. */
  of(token: bigint): Route | undefined {
    return this.#ranges.findLast((route) => route.fromToken <= token);
  }

  byId(group: string): Route | undefined {
    return this.#byGroup.get(group);
  }

  /** What a coordinator says of all groups. */
  heard({ coordinators, groups }: GetTopologyResponse): void {
    const addresses = new Map(coordinators.map(({ name, address }) => [name, address]));
    const byGroup = new Map<string, Route>();
    for (const { id, fromToken, master, epoch, standbys } of groups) {
      const address = addresses.get(master);
      const ranks = [master, ...standbys].flatMap((name) => addresses.get(name) ?? []);
      const known = this.#byGroup.get(id);
      const token = BigInt.asUintN(64, fromToken);
      const serving = known?.serving ?? { address, epoch, hasMoved: false };
      const isSuspect = known?.isSuspect ?? false;
      const route = known?.fromToken === token ? known : { id, fromToken: token, serving, ranks, isSuspect };
      route.ranks = ranks;
      byGroup.set(id, route);
      if (address === undefined) continue;
      if (epoch > 0n) this.#serves(route, address, epoch);
      else this.#expected(route, address);
    }
    this.#byGroup = byGroup;
    this.#ranges = [...byGroup.values()].sort((a, b) => (a.fromToken < b.fromToken ? -1 : a.fromToken > b.fromToken ? 1 : 0));
  }

  /** The coordinator at the address answered as the group's master. */
  serves(group: string, address: string, epoch: bigint): void {
    const route = this.#byGroup.get(group);
    if (route !== undefined) this.#serves(route, address, epoch);
  }

  /** A coordinator that does not serve the group itself names another. */
  expected(group: string, address: string): void {
    const route = this.#byGroup.get(group);
    if (route !== undefined) this.#expected(route, address);
  }

  /** The master did not answer as one. */
  suspect(serving: Serving): void {
    for (const route of this.#ranges) if (route.serving === serving) route.isSuspect = true;
  }

  #serves(route: Route, address: string, epoch: bigint): void {
    const { serving } = route;
    if (epoch < serving.epoch) return;
    route.isSuspect = false;
    if (address !== serving.address) return this.#replace(route, { address, epoch, hasMoved: false });
    if (epoch === serving.epoch) return;
    serving.epoch = epoch;
    this.#announce();
  }

  #expected(route: Route, address: string): void {
    const { serving, isSuspect } = route;
    if (address === serving.address || (serving.epoch > 0n && !isSuspect)) return;
    this.#replace(route, { address, epoch: serving.epoch, hasMoved: false });
  }

  #replace(route: Route, next: Serving): void {
    const old = route.serving;
    assert(next.epoch >= old.epoch, "a route never goes back to an older epoch");
    route.serving = next;
    this.#announce();
    if (next.epoch === old.epoch) return;
    old.hasMoved = true;
    this.#onMoved(old);
  }

  #announce(): void {
    const { resolve } = this.#changed;
    this.#changed = nextChange();
    resolve();
  }
}

/** By hand: Node 20, on which clients run, has no Promise.withResolvers. */
function nextChange(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}
