import { startSharedHost, type HostOptions, type Part, type Service, type SharedHost } from "@concord/rpc";
import { assert, ConcordError, type Log } from "@concord/runtime";

interface Address {
  readonly address: string;
}

export interface Addresses extends Address {
  /** S3. */
  readonly httpAddress: string;
}

export interface ConcordServiceOptions {
  readonly log: Log;
  readonly parts: {
    readonly storage: Part<Address> & { replicas(): Promise<object> };
    readonly transactions: Part<Address>;
    readonly objects: Part<Addresses> & { scrub(): Promise<object> };
    readonly messages: Part<Address>;
  };
  /** What heartbeats need on the server; it serves as long as the server does. */
  readonly heartbeats: readonly Service[];
  readonly host: Omit<HostOptions, "services">;
  /** How long connections may take to close once all parts have drained. */
  readonly closeGraceMs: number;
}

/**
 * All parts of one node. They start in the order in which they need each other (store open, ring formed, groups taken over, then S3 and
 * messages) and drain in the reverse order.
 */
export class ConcordService {
  readonly #options: ConcordServiceOptions;
  readonly #stopping = new AbortController();
  #host: Promise<SharedHost> | undefined;
  #started: Promise<Addresses> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: ConcordServiceOptions) {
    this.#options = options;
  }

  get ready(): boolean {
    return Object.values(this.#options.parts).every((part) => part.ready);
  }

  /** The admin page /replicas: how far each replica of the rows is behind. */
  replicas(): Promise<object> {
    return this.#options.parts.storage.replicas();
  }

  /** The admin page /scrub: how far the scrub of objects is, and what it found. */
  scrub(): Promise<object> {
    return this.#options.parts.objects.scrub();
  }

  /** Resolves when every part serves; until then calls get STARTING. Rejects when the process must not start; then all is closed. */
  start(): Promise<Addresses> {
    assert(this.#started === undefined, "a program starts once");
    this.#started = this.#start().catch(async (thrown: unknown) => {
      await this.stop();
      throw thrown;
    });
    return this.#started;
  }

  async #start(): Promise<Addresses> {
    const { heartbeats, parts } = this.#options;
    const { storage, transactions, objects, messages } = parts;
    // Stores and their locks first: no address is taken by a process that may not have the data.
    const services = new Map<Part<Address>, readonly Service[]>();
    for (const part of [storage, messages, transactions, objects]) services.set(part, await part.open());
    this.#stopping.signal.throwIfAborted();
    this.#host = startSharedHost({ ...this.#options.host, services: [...services.values(), heartbeats].flat() });
    const host = await this.#host;
    const serve = <A extends Address>(part: Part<A>): Promise<A> => part.serve(host.hostOf(services.get(part)!));
    await serve(storage);
    await serve(transactions);
    const [{ httpAddress }] = await Promise.all([serve(objects), serve(messages)]);
    this.#stopping.signal.throwIfAborted();
    this.#options.log.info("ready", { address: host.address, httpAddress });
    return { address: host.address, httpAddress };
  }

  /** Drains S3 and messages, then transactions, then storage; closes every store. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the program is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const { storage, transactions, objects, messages } = this.#options.parts;
    await Promise.all([objects.stop(), messages.stop()]);
    await transactions.stop();
    await storage.stop();
    const host = await this.#host?.catch(() => undefined);
    await host?.close(this.#options.closeGraceMs);
  }
}
