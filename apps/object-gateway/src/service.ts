import { startAlone, type HostOptions, type Part, type Service, type ServiceHost } from "@concord/rpc";
import { assert, ConcordError, type HttpHandler, type HttpListener, type Log, type StopProgress } from "@concord/runtime";
import { bucketFolder, type BucketFolder } from "./direct-bucket.ts";
import type { Context } from "./http/context.ts";
import type { ObjectAdmin } from "./rpc/object-admin.ts";

/** A gateway that holds an epoch: the contexts of its two servers and its background tasks. */
export interface OpenedGateway {
  readonly context: Context;
  readonly admin: ObjectAdmin;
  /** Recovery of earlier epochs, unresolved commits, garbage, checkpoints (OG18, OGD13). */
  startBackground(): void;
  /** Stops the background tasks, records what is resolved and closes the stores. Never rejects. */
  close(): Promise<void>;
}

export interface ObjectGatewayServiceOptions {
  readonly log: Log;
  readonly stopProgress: StopProgress;
  readonly drainGraceMs: number;
  /** Of buckets that parts of this process make. */
  readonly region: string;
  /** Opens the stores and acquires an epoch: recovery finds every blob created from then on (OGD6). */
  open(httpAddress: () => string, signal: AbortSignal): Promise<OpenedGateway>;
  services(admin: () => ObjectAdmin): readonly Service[];
  /** Of a host of its own. */
  readonly host: Omit<HostOptions, "services">;
  handler(context: () => Context): HttpHandler;
  serveHttp(handler: HttpHandler): Promise<HttpListener>;
}

type State =
  | { readonly kind: "new" | "opened" | "stopped" }
  | { readonly kind: "starting"; readonly host: ServiceHost; readonly gateway?: OpenedGateway; readonly http?: HttpListener }
  | { readonly kind: "serving"; readonly gateway: OpenedGateway; readonly host: ServiceHost; readonly http: HttpListener };

export interface Addresses {
  /** gRPC. */
  readonly address: string;
  /** S3. */
  readonly httpAddress: string;
}

/** One object gateway: acquire an epoch, serve at once, recover in the background (OGD13); drain, resolve, close. */
export class ObjectGatewayService implements Part<Addresses> {
  readonly #options: ObjectGatewayServiceOptions;
  readonly #stopping = new AbortController();
  #state: State = { kind: "new" };
  #started: Promise<Addresses> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: ObjectGatewayServiceOptions) {
    this.#options = options;
  }

  /** The admin page /scrub: how far the scrub of rows and blobs is, and what it found (OGD9). */
  scrub(): Promise<object> {
    return this.#state.kind === "serving" ? this.#state.gateway.admin.scrub() : Promise.resolve({});
  }

  /** For another part of the same process; rejects while this gateway does not serve. */
  folder(bucket: string, prefix: string): BucketFolder {
    return bucketFolder(() => this.#serving().context.store, this.#options.region, bucket, prefix);
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready;
  }

  /** On a host of its own. Resolves when both servers accept requests. Rejects when the gateway must not start. */
  start(): Promise<Addresses> {
    return startAlone(this, this.#options.host);
  }

  async open(): Promise<readonly Service[]> {
    this.#stopping.signal.throwIfAborted();
    assert(this.#state.kind === "new", "a service starts once");
    this.#state = { kind: "opened" };
    return this.#options.services(() => this.#serving().admin);
  }

  serve(host: ServiceHost): Promise<Addresses> {
    return (this.#started = this.#serve(host));
  }

  async #serve(host: ServiceHost): Promise<Addresses> {
    const { open, handler, serveHttp, log } = this.#options;
    const { signal } = this.#stopping;
    if (signal.aborted) await host.drain(0);
    signal.throwIfAborted();
    assert(this.#state.kind === "opened", "a part opens before it serves");
    this.#state = { kind: "starting", host };
    try {
      const gateway = await open(() => (this.#state.kind === "serving" ? this.#state.http.address : ""), signal);
      this.#state = { kind: "starting", host, gateway };
      signal.throwIfAborted();
      const http = await serveHttp(handler(() => this.#serving().context));
      this.#state = { kind: "starting", host, gateway, http };
      signal.throwIfAborted();
      this.#state = { kind: "serving", host, gateway, http };
      host.setServing();
      gateway.startBackground();
      log.info("serving", { address: host.address, httpAddress: http.address });
      return { address: host.address, httpAddress: http.address };
    } catch (thrown) {
      await this.#close(this.#state);
      throw thrown;
    }
  }

  /** Requests in flight finish within the grace, then what they left is resolved. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the gateway is stopped", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    // A start under way sees the signal and closes what it opened.
    await this.#started?.catch(() => undefined);
    await this.#close(this.#state);
  }

  async #close(state: State): Promise<void> {
    if (!("host" in state)) {
      this.#state = { kind: "stopped" };
      return;
    }
    const { drainGraceMs, stopProgress } = this.#options;
    const { http, host, gateway } = state;
    const drained = stopProgress.during("S3 requests in flight", async () => http?.drain(drainGraceMs));
    await Promise.all([drained, host.drain(drainGraceMs)]);
    this.#state = { kind: "stopped" };
    await stopProgress.during("uploads to be resolved, the journal and stores of objects", async () => gateway?.close());
  }

  #serving(): OpenedGateway {
    if (this.#state.kind === "serving") return this.#state.gateway;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "this gateway does not serve now");
  }
}
