import type { UnaryMethod } from "@concord/protos";
import type { IngestService, OutputService, WindowService } from "@concord/protos-dedup";
import type { BatchService, RowsService } from "@concord/protos-storage";
import { TransactionService } from "@concord/protos-txn";
import {
  bearer,
  callUnary,
  SessionClient,
  type CallRequest,
  type CallResponse,
  type OperationName,
  type SessionCallOptions,
} from "@concord/rpc";
import {
  ConcordError,
  spanOver,
  TRACEPARENT_KEY,
  UNTRACED,
  type Channel,
  type Clock,
  type MessageStream,
  type Metadata,
  type MethodDescriptor,
  type Transport,
} from "@concord/runtime";
import type { ClientTracer } from "./api.ts";

/** Services that have a session stream; calls of the others are unary. */
export type SessionService = TransactionService | RowsService | BatchService | IngestService | OutputService | WindowService;

interface Peer {
  readonly channel: Channel;
  /** The session's service is the key. */
  readonly sessions: Map<SessionService, Pick<SessionClient<SessionService>, "close" | "abandon">>;
}

/** One channel per address and one session per service and address, opened at their first call. */
export class Connections {
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #metadata: Metadata;
  readonly #tracer: ClientTracer | undefined;
  readonly #peers = new Map<string, Peer>();

  constructor(transport: Transport, clock: Clock, { token, tracer }: { readonly token?: string; readonly tracer?: ClientTracer }) {
    this.#transport = transport;
    this.#clock = clock;
    this.#tracer = tracer;
    // What is traced says so call by call.
    this.#metadata = tracer === undefined ? bearer(token) : { ...bearer(token), [TRACEPARENT_KEY]: UNTRACED };
  }

  /** An operation of a session stream, by the name of its oneof case. */
  call<S extends SessionService, O extends OperationName<S>>(
    address: string,
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    options: SessionCallOptions,
  ): Promise<CallResponse<S, O>> {
    const session = this.session(address, service);
    const span = this.#tracer?.begin(operation, "client");
    return span === undefined
      ? session.call(operation, request, options)
      : spanOver(span, session.call(operation, request, { ...options, span }));
  }

  /** The session with the service at the address, for many calls. */
  session<S extends SessionService>(address: string, contract: S): SessionClient<S> {
    const { channel, sessions } = this.#peer(address);
    const open = sessions.get(contract);
    if (open !== undefined) return open as SessionClient<S>;
    const session = new SessionClient({ channel, contract, clock: this.#clock, metadata: this.#metadata });
    sessions.set(contract, session);
    return session;
  }

  /** A stream that is no session. */
  stream(address: string, method: MethodDescriptor): MessageStream {
    return this.#peer(address).channel.stream(method, { metadata: this.#metadata });
  }

  /** Ends what the owner has in flight at the address: another coordinator serves its group. */
  abandon(address: string, owner: object): void {
    const session = this.#peers.get(address)?.sessions.get(TransactionService);
    const text = `another coordinator has taken the group over from ${address}`;
    session?.abandon(owner, (applied) => new ConcordError("EPOCH_FENCED", text, { applied, retryAfterMs: 0 }));
  }

  unary<M extends UnaryMethod>(
    address: string,
    method: M,
    request: Parameters<M["encodeRequest"]>[0],
    timeoutMs: number,
  ): Promise<ReturnType<M["decodeResponse"]>> {
    const { channel } = this.#peer(address);
    const span = this.#tracer?.begin(method.name, "client");
    const call = callUnary(channel, method, request, { timeoutMs, metadata: this.#metadata, span });
    return span === undefined ? call : spanOver(span, call);
  }

  close(): void {
    for (const peer of this.#peers.values()) {
      for (const session of peer.sessions.values()) session.close();
      peer.channel.close();
    }
    this.#peers.clear();
  }

  #peer(address: string): Peer {
    let peer = this.#peers.get(address);
    if (peer === undefined) {
      peer = { channel: this.#transport.connect(address), sessions: new Map() };
      this.#peers.set(address, peer);
    }
    return peer;
  }
}
