import { ConcordError, type CallContext, type Listener, type MethodDescriptor, type ServedMethod } from "@concord/runtime";
import type { Incarnation } from "./incarnation.ts";
import type { SimStream } from "./stream.ts";

/** What one incarnation serves at one address. */
export class SimListener implements Listener {
  readonly address: string;
  readonly owner: Incarnation;
  readonly #methods: ReadonlyMap<string, ServedMethod>;
  readonly #streams = new Set<SimStream>();
  readonly #close: (listener: SimListener) => void;
  readonly #wait: (delayMs: number, action: () => void) => void;
  #callsInFlight = 0;
  #idle: () => void = () => undefined;
  #isAccepting = true;

  constructor(
    address: string,
    owner: Incarnation,
    methods: readonly ServedMethod[],
    close: (listener: SimListener) => void,
    wait: (delayMs: number, action: () => void) => void,
  ) {
    this.address = address;
    this.owner = owner;
    this.#methods = new Map(methods.map((served) => [served.method.path, served]));
    this.#close = close;
    this.#wait = wait;
  }

  get isAccepting(): boolean {
    return this.#isAccepting;
  }

  drain(graceMs: number): Promise<void> {
    this.#isAccepting = false;
    for (const stream of this.#streams) stream.end(new ConcordError("DRAINING", `${this.address} is going away`));
    return new Promise((resolve) => {
      const finish = (): void => {
        this.#close(this);
        resolve();
      };
      if (this.#callsInFlight === 0) {
        finish();
        return;
      }
      this.#idle = finish;
      this.#wait(graceMs, finish);
    });
  }

  /** Answers the encoded response; rejects with what the handler threw. */
  async call(method: MethodDescriptor, bytes: Uint8Array, context: CallContext): Promise<Uint8Array> {
    this.#requireAccepting();
    const served = this.#methods.get(method.path);
    if (served?.kind !== "unary") throw new ConcordError("UNIMPLEMENTED", `${method.path} is not served at ${this.address}`);
    this.#callsInFlight += 1;
    try {
      return served.method.encodeResponse(await served.handle(served.method.decodeRequest(bytes), context));
    } finally {
      this.#callsInFlight -= 1;
      if (this.#callsInFlight === 0) this.#idle();
    }
  }

  /** The method as it is served here; undefined when it is not. */
  method(path: string): MethodDescriptor | undefined {
    return this.#methods.get(path)?.method;
  }

  /** Hands a new stream to its handler; throws when there is none. */
  accept(path: string, stream: SimStream, context: CallContext): void {
    this.#requireAccepting();
    const served = this.#methods.get(path);
    if (served?.kind !== "stream") throw new ConcordError("UNIMPLEMENTED", `${path} is not served at ${this.address}`);
    this.#streams.add(stream);
    served.handle(stream, context);
  }

  left(stream: SimStream): void {
    this.#streams.delete(stream);
  }

  #requireAccepting(): void {
    if (!this.#isAccepting) throw new ConcordError("DRAINING", `${this.address} is going away`);
  }
}
