import type { AnyContract, Method, ServiceContract } from "@concord/protos";
import { assert, type Admission, type CallContext, type ConcordError, type MessageStream, type ServedMethod } from "@concord/runtime";
import { SessionFrames } from "./frames.ts";
import type { Authenticator } from "./auth.ts";
import { MESSAGE_BYTES_MAX } from "./limits.ts";
import { publicError } from "./status.ts";
import type { Service } from "./service.ts";
import type { ServiceState } from "./service-core.ts";

interface Implementation {
  readonly service: Service;
  readonly methods: ReadonlyMap<string, ServedMethod>;
  readonly unfollow: () => void;
}

export interface MountedServiceOptions {
  readonly contract: ServiceContract<object>;
  readonly authenticator: Authenticator;
  /** What callers with a token get while there is no implementation, or one that starts and `isOut`. */
  readonly absence: () => ConcordError;
  /** Whether a start is held up: its calls get the absence. False when not given. */
  readonly isOut?: () => boolean;
}

/**
 * A service whose methods stay on a server while its implementation comes and goes. Without one it is `starting` to health, and calls are
 * refused, applied no. A call that was admitted by the implementation before is served by the one that is there when it begins.
 */
export class MountedService implements Service {
  readonly name: string;
  readonly contract: AnyContract;
  readonly methods: readonly ServedMethod[];
  readonly #options: MountedServiceOptions;
  readonly #listeners = new Set<(state: ServiceState) => void>();
  #implementation: Implementation | undefined;

  constructor(options: MountedServiceOptions) {
    const service = options.contract as ServiceContract;
    this.name = service.name;
    this.contract = service.contract;
    this.#options = options;
    // Sessions are served as raw frames.
    this.methods = Object.entries(service.methods).map(([method, described]) =>
      this.#relay(method === "Session" ? new SessionFrames(service).serverMethod(MESSAGE_BYTES_MAX) : described),
    );
  }

  get state(): ServiceState {
    return this.#implementation?.service.state ?? "starting";
  }

  get inFlight(): number {
    return this.#implementation?.service.inFlight ?? 0;
  }

  /** Takes the place of the one before, which has drained; undefined: there is none now. */
  mount(service: Service | undefined): void {
    const before = this.state;
    this.#implementation?.unfollow();
    this.#implementation = service === undefined ? undefined : this.#follow(service);
    if (this.state !== before) this.#announce(this.state);
  }

  setState(state: ServiceState): void {
    this.#implementation?.service.setState(state);
  }

  onState(listener: (state: ServiceState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async whenDrained(): Promise<void> {
    await this.#implementation?.service.whenDrained();
  }

  #follow(service: Service): Implementation {
    const methods = new Map(service.methods.map((served) => [served.method.path, served]));
    return { service, methods, unfollow: service.onState((state) => this.#announce(state)) };
  }

  #announce(state: ServiceState): void {
    for (const listener of this.#listeners) listener(state);
  }

  #relay(method: Method): ServedMethod {
    const served = (context: CallContext): ServedMethod => {
      const isHeldUp = this.state === "starting" && this.#options.isOut?.() === true;
      return (isHeldUp ? undefined : this.#implementation?.methods.get(method.path)) ?? this.#refuse(context);
    };
    const admit = (context: CallContext): Admission => {
      const now = served(context);
      assert(now.admit !== undefined, "a service admits the calls of all its methods");
      return now.admit(context);
    };
    if (method.requestStream || method.responseStream) {
      const handle = (stream: MessageStream, context: CallContext): void => {
        try {
          const now = served(context);
          assert(now.kind === "stream", `${method.path} is a stream`);
          now.handle(stream, context);
        } catch (thrown) {
          stream.end(publicError(thrown));
        }
      };
      return { kind: "stream", method, admit, handle };
    }
    const handle = async (request: object, context: CallContext): Promise<object> => {
      const now = served(context);
      assert(now.kind === "unary", `${method.path} is no stream`);
      return now.handle(request, context);
    };
    return { kind: "unary", method, admit, handle };
  }

  /** UNAUTHENTICATED, or the absence. */
  #refuse({ metadata }: CallContext): never {
    const { authenticator, absence } = this.#options;
    authenticator.authenticate(metadata);
    throw absence();
  }
}
