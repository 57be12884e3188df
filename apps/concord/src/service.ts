import { startSharedHost, type HostOptions, type Part, type Service, type SharedHost } from "@concord/rpc";
import { assert, ConcordError, StopProgress, type Log } from "@concord/runtime";
import { PART_NAMES, type PartName } from "./part-configs.ts";
import type { StandingHttp } from "./standing-http.ts";
import type { Address, PartState, SupervisedPart } from "./supervised-part.ts";

export interface Addresses extends Address {
  /** S3. */
  readonly httpAddress: string;
}

export interface ConcordServiceOptions {
  readonly log: Log;
  readonly parts: {
    readonly storage: SupervisedPart<Address, Part<Address> & { readonly warnings: readonly string[]; replicas(): Promise<object> }>;
    readonly transactions: SupervisedPart<Address, Part<Address> & { transactions(): object }>;
    readonly objects: SupervisedPart<Addresses, Part<Addresses> & { scrub(): Promise<object> }>;
    readonly messages: SupervisedPart<Address, Part<Address> & { readonly problems: readonly string[] }>;
  };
  /** What heartbeats need on the server; it serves as long as the server does. */
  readonly heartbeats: readonly Service[];
  readonly host: Omit<HostOptions, "services">;
  /** The port of S3. */
  readonly s3: StandingHttp;
  /** How long connections may take to close once all parts have drained. */
  readonly closeGraceMs: number;
}

/**
 * All parts of one node. Each starts once what it needs serves (store open, ring formed, groups taken over), and one that fails ends alone. They
 * drain in the reverse order.
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

  /** Reasons of the parts that are out, each with what to do; one line a part. */
  get problems(): readonly string[] {
    return PART_NAMES.flatMap((name) => this.#options.parts[name].problem ?? []);
  }

  /** Why the node does not want traffic, a line each: parts that are out, and partitions that do not work. */
  get unready(): readonly string[] {
    return [...this.problems, ...(this.#options.parts.messages.part?.problems ?? [])];
  }

  /** The admin page /parts: the state of each part. */
  parts(): Readonly<Record<PartName, PartState & { readonly problem?: string }>> {
    const { parts } = this.#options;
    const entries = PART_NAMES.map((name) => {
      const { state, problem } = parts[name];
      return [name, problem === undefined ? state : { ...state, problem }] as const;
    });
    return Object.fromEntries(entries) as ReturnType<ConcordService["parts"]>;
  }

  /** Lines of /readyz that need an operator although the program works. */
  get warnings(): readonly string[] {
    return this.#options.parts.storage.part?.warnings ?? [];
  }

  /** The admin page /replicas: how far each replica of the rows is behind. */
  async replicas(): Promise<object> {
    const { part, problem } = this.#options.parts.storage;
    return (await part?.replicas()) ?? { problem };
  }

  /** The admin page /transactions: what is open at this node, and which locks wait for which. */
  transactions(): object {
    const { part, problem } = this.#options.parts.transactions;
    return part?.transactions() ?? { problem };
  }

  /** The admin page /scrub: how far the scrub of objects is, and what it found. */
  async scrub(): Promise<object> {
    const { part, problem } = this.#options.parts.objects;
    return (await part?.scrub()) ?? { problem };
  }

  /**
   * Resolves when every part serves, or is out and tried again; until then calls get STARTING. Rejects when the process must not start; then all
   * is closed.
   */
  start(): Promise<Addresses> {
    assert(this.#started === undefined, "a program starts once");
    this.#started = this.#start().catch(async (thrown: unknown) => {
      await this.stop();
      throw thrown;
    });
    return this.#started;
  }

  async #start(): Promise<Addresses> {
    const { heartbeats, parts, log } = this.#options;
    const { storage, transactions, objects, messages } = parts;
    // Stores and their locks first: no address is taken by a process that may not have the data.
    const opened = [storage, messages, transactions, objects];
    for (const part of opened) await part.open();
    this.#stopping.signal.throwIfAborted();
    this.#host = startSharedHost({ ...this.#options.host, services: [...opened.flatMap(({ services }) => services), ...heartbeats] });
    const host = await this.#host;
    const { address } = host;
    const { address: httpAddress } = await this.#options.s3.bind();
    this.#stopping.signal.throwIfAborted();
    await Promise.all([storage, messages, transactions, objects].map((part) => part.serve(host)));
    this.#stopping.signal.throwIfAborted();
    const { problems } = this;
    if (problems.length === 0) log.info("ready", { address, httpAddress });
    else log.error("serving without a part", { address, httpAddress, problems: problems.join("; ") });
    return { address, httpAddress };
  }

  /** Drains S3 and messages, then transactions, then storage; closes every store. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the program is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    const { storage, transactions, objects, messages } = this.#options.parts;
    const { s3, closeGraceMs, host: options } = this.#options;
    const { stopProgress = new StopProgress() } = options;
    s3.ending();
    await Promise.all([
      stopProgress.during("the part objects", () => objects.stop()),
      stopProgress.during("the part messages", () => messages.stop()),
    ]);
    await stopProgress.inOrder({
      "S3 connections": () => s3.close(closeGraceMs),
      "the part transactions": () => transactions.stop(),
      "the part storage": () => storage.stop(),
    });
    const host = await this.#host?.catch(() => undefined);
    await host?.close(closeGraceMs);
  }
}
