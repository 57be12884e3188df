import type { Channel, Transport } from "@concord/runtime";

/** Channels to other processes: one for each address, connected at its first use. */
export class Channels {
  readonly #transport: Transport;
  readonly #open = new Map<string, Channel>();

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  readonly to = (address: string): Channel => {
    const channel = this.#open.get(address) ?? this.#transport.connect(address);
    this.#open.set(address, channel);
    return channel;
  };

  close(): void {
    for (const channel of this.#open.values()) channel.close();
    this.#open.clear();
  }
}
