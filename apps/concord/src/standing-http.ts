import { sleep, type Clock, type HttpHandler, type HttpListener, type HttpServer } from "@concord/runtime";

export interface StandingHttpOptions {
  readonly http: HttpServer;
  readonly address: string;
  readonly clock: Clock;
  /** Answers while no gateway is there. */
  readonly absent: HttpHandler;
}

/** One gateway's handler, from its start to its stop. */
class Mount {
  readonly #handler: HttpHandler;
  readonly #idle = new AbortController();
  #inFlight = 0;
  #isEnding = false;

  constructor(handler: HttpHandler) {
    this.#handler = handler;
  }

  readonly handle: HttpHandler = async (request) => {
    this.#inFlight += 1;
    try {
      return await this.#handler(request);
    } finally {
      this.#inFlight -= 1;
      this.#lookIdle();
    }
  };

  async drain(clock: Clock, graceMs: number): Promise<void> {
    this.#isEnding = true;
    this.#lookIdle();
    await sleep(clock, graceMs, this.#idle.signal);
  }

  #lookIdle(): void {
    if (this.#isEnding && this.#inFlight === 0) this.#idle.abort();
  }
}

/**
 * The S3 port, bound for as long as the program runs, while gateways come and go. The drain of a gateway waits for its requests only, and those
 * that come later get `absent`; once `ending` was called it is the drain of the port.
 */
export class StandingHttp implements HttpServer {
  readonly #options: StandingHttpOptions;
  #mount: Mount | undefined;
  #listener: Promise<HttpListener> | undefined;
  #isEnding = false;

  constructor(options: StandingHttpOptions) {
    this.#options = options;
  }

  /** Binds the port: rejects when another process has it. */
  bind(): Promise<HttpListener> {
    const { http, address, absent } = this.#options;
    return (this.#listener ??= http.serve(address, (request) => (this.#mount?.handle ?? absent)(request)));
  }

  /** A gateway begins; the address is the port's. */
  async serve(_address: string, handler: HttpHandler): Promise<HttpListener> {
    const listener = await this.bind();
    const mount = new Mount(handler);
    this.#mount = mount;
    return {
      address: listener.address,
      drain: (graceMs) => (this.#isEnding ? listener.drain(graceMs) : this.#unmount(mount, graceMs)),
    };
  }

  /** The program stops: the next drain is the port's. */
  ending(): void {
    this.#isEnding = true;
  }

  /** Never rejects; a drain of the port before is waited for. */
  async close(graceMs: number): Promise<void> {
    const listener = await this.#listener?.catch(() => undefined);
    await listener?.drain(graceMs);
  }

  async #unmount(mount: Mount, graceMs: number): Promise<void> {
    if (this.#mount === mount) this.#mount = undefined;
    await mount.drain(this.#options.clock, graceMs);
  }
}
