import type {
  CallOptions,
  Channel,
  Clock,
  Listener,
  MessageStream,
  MethodDescriptor,
  ServedMethod,
  StreamOptions,
  Transport,
} from "@concord/runtime";
import { MemoryTransport } from "./memory-transport.ts";

export interface LocalTransportOptions {
  readonly clock: Clock;
  /** Where others reach what is served here, and where every other address is. */
  readonly network: Transport;
  readonly messageBytesMax?: number;
}

/**
 * The network, but calls to an address that is served through this transport stay in the process: same encoding, limits, deadlines,
 * cancellation and errors, no socket. The address may be the one asked for or the one that was bound; a channel may be older than both.
 */
export function localTransport(options: LocalTransportOptions): Transport {
  const { network } = options;
  const inside = new MemoryTransport(options);
  /** Bound addresses by every name of them. */
  const served = new Map<string, string>();
  return {
    async serve(address: string, methods: readonly ServedMethod[]): Promise<Listener> {
      const listener = await network.serve(address, methods);
      const own = await inside.serve(listener.address, methods);
      const names = [address, listener.address];
      for (const name of names) served.set(name, own.address);
      return {
        address: listener.address,
        drain: async (graceMs) => {
          await listener.drain(graceMs);
          for (const name of names) served.delete(name);
          await own.drain(graceMs);
        },
      };
    },
    connect: (address) => new NearestChannel(address, () => served.get(address), inside, network),
  };
}

/** Decides at each call, so that it can be made before the address is bound. */
class NearestChannel implements Channel {
  readonly address: string;
  readonly #boundHere: () => string | undefined;
  readonly #inside: Transport;
  readonly #network: Transport;
  #near: Channel | undefined;
  #far: Channel | undefined;

  constructor(address: string, boundHere: () => string | undefined, inside: Transport, network: Transport) {
    this.address = address;
    this.#boundHere = boundHere;
    this.#inside = inside;
    this.#network = network;
  }

  unary(method: MethodDescriptor, request: object, options: CallOptions): Promise<object> {
    return this.#channel().unary(method, request, options);
  }

  stream(method: MethodDescriptor, options: StreamOptions): MessageStream {
    return this.#channel().stream(method, options);
  }

  probe(): void {
    this.#far?.probe?.();
  }

  close(): void {
    this.#near?.close();
    this.#far?.close();
  }

  #channel(): Channel {
    const bound = this.#boundHere();
    if (bound === undefined) return (this.#far ??= this.#network.connect(this.address));
    return (this.#near ??= this.#inside.connect(bound));
  }
}
