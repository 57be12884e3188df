import { lookup } from "node:dns/promises";
import type { Clock, Timer } from "@concord/runtime";

/** Names are looked up again after so long; meanwhile, and when that fails, the last answer counts. */
export const LOOKUP_AGAIN_MS = 10_000;

export interface SocketAddress {
  readonly host: string;
  readonly port: number;
}

/** "host:port", "[v6]:port". */
export function socketAddressOf(address: string): SocketAddress {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon).replace(/^\[(.*)\]$/, "$1"), port: Number(address.slice(colon + 1)) };
}

/** Where each member's datagrams go: resolved in the background, so that a beat never waits for a name server. */
export class PeerAddresses {
  #addresses: readonly (SocketAddress | undefined)[];
  readonly #family: 4 | 6;
  readonly #resolved = new Map<number, string>();
  readonly #clock: Pick<Clock, "setTimer">;
  #timer: Timer | undefined;

  /** By place; undefined: a place without a member. */
  constructor(addresses: readonly (string | undefined)[], family: 4 | 6, clock: Pick<Clock, "setTimer">) {
    this.#addresses = parsed(addresses);
    this.#family = family;
    this.#clock = clock;
    this.#lookUpAll();
  }

  /** undefined: not known yet. */
  of(member: number): SocketAddress | undefined {
    const host = this.#resolved.get(member);
    const address = this.#addresses[member];
    return host === undefined || address === undefined ? undefined : { host, port: address.port };
  }

  /** Other members from now on; what is known of those that stay is kept. */
  change(addresses: readonly (string | undefined)[]): void {
    const before = this.#addresses;
    this.#addresses = parsed(addresses);
    for (const member of this.#resolved.keys()) if (this.#addresses[member]?.host !== before[member]?.host) this.#resolved.delete(member);
    for (const member of this.#addresses.keys()) if (!this.#resolved.has(member)) void this.#lookUp(member);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #lookUpAll(): void {
    for (const member of this.#addresses.keys()) void this.#lookUp(member);
    this.#timer = this.#clock.setTimer(LOOKUP_AGAIN_MS, () => this.#lookUpAll());
  }

  async #lookUp(member: number): Promise<void> {
    const host = this.#addresses[member]?.host;
    if (host === undefined) return;
    const options = this.#family === 6 ? { family: 6, hints: 0 } : { family: 4 };
    const found = await lookup(host, options).catch(() => undefined);
    // Another member may have the place by now.
    if (found !== undefined && this.#addresses[member]?.host === host) this.#resolved.set(member, found.address);
  }
}

function parsed(addresses: readonly (string | undefined)[]): (SocketAddress | undefined)[] {
  return addresses.map((address) => (address === undefined ? undefined : socketAddressOf(address)));
}
