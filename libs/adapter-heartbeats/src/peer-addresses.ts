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
  readonly #addresses: readonly SocketAddress[];
  readonly #family: 4 | 6;
  readonly #resolved = new Map<number, string>();
  readonly #clock: Pick<Clock, "setTimer">;
  #timer: Timer | undefined;

  constructor(addresses: readonly string[], family: 4 | 6, clock: Pick<Clock, "setTimer">) {
    this.#addresses = addresses.map(socketAddressOf);
    this.#family = family;
    this.#clock = clock;
    this.#lookUpAll();
  }

  /** undefined: not known yet. */
  of(member: number): SocketAddress | undefined {
    const host = this.#resolved.get(member);
    return host === undefined ? undefined : { host, port: this.#addresses[member]!.port };
  }

  close(): void {
    this.#timer?.cancel();
  }

  #lookUpAll(): void {
    for (const member of this.#addresses.keys()) void this.#lookUp(member);
    this.#timer = this.#clock.setTimer(LOOKUP_AGAIN_MS, () => this.#lookUpAll());
  }

  async #lookUp(member: number): Promise<void> {
    const options = this.#family === 6 ? { family: 6, hints: 0 } : { family: 4 };
    const found = await lookup(this.#addresses[member]!.host, options).catch(() => undefined);
    if (found !== undefined) this.#resolved.set(member, found.address);
  }
}
