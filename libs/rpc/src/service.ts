/**
 * A service: its handlers behind one pipeline (role, state, load, well-formedness, deadline, metrics), served both as unary methods
 * and as operations of a multiplexed session stream. Knows no transport, so the simulator runs it as it is.
 */
import type { AnyContract, ServiceContract } from "@concord/protos";
import {
  assert,
  ConcordError,
  ERRORS,
  toConcordError,
  TRACEPARENT_KEY,
  type Applied,
  type CallContext,
  type Clock,
  type MessageStream,
  type ServedMethod,
  type Span,
  type Tracer,
} from "@concord/runtime";
import { Audit, type AuditedCall } from "./audit.ts";
import type { Caller, Role } from "./auth.ts";
import type { AnswerOf, RequestOf, ResponseInitOf, StreamName, UnaryName } from "./contract-types.ts";
import { operationName, SessionFrames } from "./frames.ts";
import {
  FRAME_CALLS_MAX,
  MESSAGE_BYTES_MAX,
  SERVICE_IN_FLIGHT_MAX,
  SERVICE_WAITING_MAX,
  SESSION_OUTSTANDING_MAX,
  SESSIONS_MAX,
  STREAMS_MAX,
  TIMEOUT_MS_MAX,
} from "./limits.ts";
import { begun, begunStream, callOwner, Place, Places, type CallOwner } from "./places.ts";
import { requestIdField, requestIdOf } from "./request-id.ts";
import { serveSession, type ServerSession } from "./session-server.ts";
import { publicError } from "./status.ts";
import { serveStream, type RunningStream, type StreamHandler } from "./stream-server.ts";
import type {
  HandlerContext,
  Operation,
  RunContext,
  ServiceCore,
  ServiceEnvironment,
  ServiceLimits,
  ServiceState,
} from "./service-core.ts";

/** Decode, check, call the domain, encode. Throws ConcordError; anything else is INTERNAL to the caller and logged here. */
export type Handlers<S extends ServiceContract<object>> = {
  readonly [Name in UnaryName<S>]: (request: RequestOf<S, Name>, context: HandlerContext) => AnswerOf<S, Name> | Promise<AnswerOf<S, Name>>;
};

/** One handler: `Handler<RowsService, "Read">`. */
export type Handler<S extends ServiceContract<object>, Name extends UnaryName<S>> = Handlers<S>[Name];

/** The streams of a service that are no sessions. */
export type StreamHandlers<S extends ServiceContract<object>> = {
  readonly [Name in StreamName<S>]: StreamHandler<RequestOf<S, Name>, ResponseInitOf<S, Name>>;
};

/** A method named Session carries all the unary ones as frames; its messages have the fixed shape described in the README. */
export type ServiceDefinition<S extends ServiceContract<object>> = {
  readonly contract: S;
  /** By method name. A method without handler is answered with UNIMPLEMENTED. */
  readonly unary: Handlers<S>;
  /** Who may call: the same roles every method, or by method name. */
  readonly roles: readonly Role[] | Roles<S>;
  readonly limits?: Partial<ServiceLimits>;
} & (StreamName<S> extends never ? { readonly streams?: undefined } : { readonly streams: StreamHandlers<S> });

export type Roles<S extends ServiceContract<object>> = Readonly<Record<UnaryName<S> | StreamName<S>, readonly Role[]>>;

export interface Service {
  readonly name: string;
  /** What it serves, for reflection. */
  readonly contract: AnyContract;
  readonly methods: readonly ServedMethod[];
  readonly state: ServiceState;
  /** Calls running now, those of sessions included. */
  readonly inFlight: number;
  /**
   * A service is born `starting` and answers STARTING until it is `serving`. `draining`: new calls are answered with DRAINING,
   * calls in flight finish, and each session stream is ended with DRAINING once it has none.
   */
  setState(state: ServiceState): void;
  /** Called after every change; returns what stops that. */
  onState(listener: (state: ServiceState) => void): () => void;
  /** Resolves when nothing runs and no session is open. Only after setState("draining"). */
  whenDrained(): Promise<void>;
}

const LIMITS_DEFAULT: ServiceLimits = {
  inFlightMax: SERVICE_IN_FLIGHT_MAX,
  waitingMax: SERVICE_WAITING_MAX,
  sessionsMax: SESSIONS_MAX,
  sessionOutstandingMax: SESSION_OUTSTANDING_MAX,
  frameCallsMax: FRAME_CALLS_MAX,
  messageBytesMax: MESSAGE_BYTES_MAX,
  streamsMax: STREAMS_MAX,
};

/** Puts the handlers of a service behind the pipeline. */
export function defineService<S extends ServiceContract<object>>(
  definition: ServiceDefinition<S>,
  environment: ServiceEnvironment,
): Service {
  return new ServedService(definition as unknown as Definition, environment);
}

/** A definition past its types: the pipeline is the same for every service. */
interface Definition {
  readonly contract: ServiceContract;
  readonly unary: Readonly<Record<string, Operation["handler"]>>;
  readonly streams?: Readonly<Record<string, StreamHandler<object, object>>>;
  readonly roles: readonly Role[] | Readonly<Record<string, readonly Role[]>>;
  readonly limits?: Partial<ServiceLimits>;
}

/** What is left of a call's budget: the `timeoutMs` of the calls it makes itself. 0 when the deadline has passed. */
export function remainingMs(context: CallContext, clock: Clock): number {
  return Math.min(Math.max(0, context.deadlineAtMs - clock.monotonicMs()), TIMEOUT_MS_MAX);
}

class ServedService implements Service, ServiceCore {
  readonly name: string;
  readonly contract: AnyContract;
  readonly environment: ServiceEnvironment;
  readonly limits: ServiceLimits;
  readonly operations: ReadonlyMap<string, Operation>;
  readonly methods: readonly ServedMethod[];
  readonly #labels: Readonly<Record<string, string>>;
  readonly #sessions = new Set<ServerSession>();
  readonly #streams = new Set<RunningStream>();
  readonly #places: { readonly calls: Places; readonly waits: Places; readonly sessions: Places; readonly streams: Places };
  readonly #audit: Audit;
  readonly #stateListeners = new Set<(state: ServiceState) => void>();
  #drainWaiters: (() => void)[] = [];
  #state: ServiceState = "starting";
  #lastSessionId = 0;

  constructor(definition: Definition, environment: ServiceEnvironment) {
    const { name, contract, methods } = definition.contract;
    this.name = name;
    this.contract = contract;
    this.environment = environment;
    this.#audit = new Audit(environment.clock, environment.log);
    this.limits = { ...LIMITS_DEFAULT, ...definition.limits };
    this.#labels = Object.freeze({ service: name });
    const places = (limit: "inFlightMax" | "waitingMax" | "sessionsMax" | "streamsMax", what: string): Places =>
      new Places({ service: name, metrics: environment.metrics, limit, what, max: this.limits[limit] });
    this.#places = {
      calls: places("inFlightMax", "calls in flight"),
      waits: places("waitingMax", "calls that wait"),
      sessions: places("sessionsMax", "sessions open"),
      streams: places("streamsMax", "streams open"),
    };
    this.#countWaiting();
    this.operations = operationsOf(definition);
    this.methods = [
      ...[...this.operations.values()].map((operation) => this.#serveUnary(operation)),
      ...(methods["Session"] === undefined ? [] : [this.#serveSessions(definition.contract)]),
      ...Object.entries(definition.streams ?? {}).map(([stream, handler]) => this.#serveStreams(definition, stream, handler)),
    ];
  }

  get state(): ServiceState {
    return this.#state;
  }

  get inFlight(): number {
    return this.#places.calls.used + this.#places.waits.used;
  }

  setState(state: ServiceState): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const listener of this.#stateListeners) listener(state);
    if (state === "draining") {
      for (const session of this.#sessions) session.drain();
      for (const stream of this.#streams) stream.drain(this.#draining("unknown"));
    }
    this.#settleDrained();
  }

  onState(listener: (state: ServiceState) => void): () => void {
    this.#stateListeners.add(listener);
    return () => void this.#stateListeners.delete(listener);
  }

  whenDrained(): Promise<void> {
    assert(this.#state === "draining", "whenDrained is asked of a draining service");
    return new Promise((resolve) => {
      this.#drainWaiters.push(resolve);
      this.#settleDrained();
    });
  }

  run(operation: Operation, request: object, context: RunContext, nowMs: number): void {
    const refusal = this.#refusal(operation, context.caller) ?? this.#places.calls.take(context.owner);
    if (refusal === undefined) {
      this.#countCalls();
      this.#begin(operation, request, context, nowMs);
    } else {
      this.#refused(operation, context.caller, context, refusal);
      context.finish(refusal, undefined);
    }
  }

  /** A call that has its place. */
  #begin(operation: Operation, request: object, context: RunContext, nowMs: number): void {
    const refusal = requestRefusal(operation, request, context, nowMs);
    if (refusal !== undefined) {
      this.#leave(context.owner);
      this.#observe(operation, refusal.code, nowMs);
      context.finish(refusal, undefined);
      return;
    }
    if (this.environment.tracer !== undefined) context.span = spanOf(this.environment.tracer, operation.method.path, context);
    const fail = (thrown: unknown): void => this.#finish(operation, context, nowMs, this.#failure(operation, context, thrown), undefined);
    let answer: object | Promise<object>;
    try {
      answer = operation.handler!(request, context);
    } catch (thrown) {
      fail(thrown);
      return;
    }
    if (answer instanceof Promise) answer.then((response: object) => this.#finish(operation, context, nowMs, undefined, response), fail);
    else this.#finish(operation, context, nowMs, undefined, answer);
  }

  #finish(
    operation: Operation,
    context: RunContext,
    startedAtMs: number,
    error: ConcordError | undefined,
    response: object | undefined,
  ): void {
    this.#places[context.place].leave(context.owner);
    this.#countCalls();
    if (context.place === "waits") this.#countWaiting();
    const code = error?.code ?? "OK";
    this.#observe(operation, code, startedAtMs);
    this.#audit.answered(context.caller, operation.method.path, code, context);
    context.span?.end(error?.code);
    context.finish(error, response);
    this.#settleDrained();
  }

  moveToWaiting(context: RunContext): boolean {
    const { calls, waits } = this.#places;
    if (context.place === "waits") return true;
    if (waits.take(context.owner) !== undefined) return false;
    calls.leave(context.owner);
    context.place = "waits";
    this.#countWaiting();
    return true;
  }

  #countCalls(): void {
    this.environment.metrics.gauge("rpc_server_in_flight", this.inFlight, this.#labels);
  }

  #countWaiting(): void {
    this.environment.metrics.gauge("rpc_server_waiting", this.#places.waits.used, this.#labels);
  }

  #leave(owner: CallOwner): void {
    this.#places.calls.leave(owner);
    this.#countCalls();
    this.#settleDrained();
  }

  /** Why a call is not begun: then nothing of it was applied (I2). */
  #refusal(operation: Operation, caller: Caller): ConcordError | undefined {
    const refusal = this.#callerRefusal(operation, caller);
    if (refusal !== undefined) return refusal;
    if (operation.handler === undefined) return new ConcordError("UNIMPLEMENTED", `${operation.method.path} is not implemented`);
    return this.#stateRefusal();
  }

  #refused(operation: Operation, caller: Caller, call: AuditedCall, refusal: ConcordError): void {
    this.#observe(operation, refusal.code, this.environment.clock.monotonicMs());
    if (refusal.code === "PERMISSION_DENIED") this.#auditRefused(operation, caller, call, refusal);
  }

  #callerRefusal({ roles, method }: Operation, { role }: Caller): ConcordError | undefined {
    if (roles.has(role)) return undefined;
    const metadata = { role, allowed: [...roles].join(",") };
    return new ConcordError("PERMISSION_DENIED", `role ${role} may not call ${method.path}`, { metadata });
  }

  #auditRefused({ method }: Pick<Operation, "method">, caller: Caller | undefined, context: AuditedCall, thrown: unknown): void {
    this.#audit.refused(caller, method.path, toConcordError(thrown).code, context);
  }

  /** UNAUTHENTICATED. */
  #callerOf(operation: Pick<Operation, "method">, context: CallContext): Caller {
    try {
      return this.environment.authenticator.authenticate(context.metadata);
    } catch (thrown) {
      this.#auditRefused(operation, undefined, auditedOf(context), thrown);
      throw thrown;
    }
  }

  #stateRefusal(): ConcordError | undefined {
    if (this.#state === "starting") return new ConcordError("STARTING", `${this.name} is not ready yet`);
    return this.#state === "draining" ? this.#draining("no") : undefined;
  }

  #failure(operation: Operation, { requestId }: AuditedCall, thrown: unknown): ConcordError {
    const error = publicError(thrown);
    const call = { method: operation.method.path, code: error.code, ...requestIdField(requestId) };
    const { log } = this.environment;
    if (ERRORS[error.code].kind === "corrupt" || error.code === "INTERNAL") {
      const stack = thrown instanceof Error ? thrown.stack : String(thrown);
      log.error("call failed", { ...call, stack });
      return requestId === undefined ? error : named(error, requestId);
    }
    log.debug("call failed", { ...call, reason: error.message });
    return error;
  }

  #observe(operation: Operation, code: string, startedAtMs: number): void {
    const { clock, metrics } = this.environment;
    metrics.observe("rpc_server_duration_seconds", (clock.monotonicMs() - startedAtMs) / 1000, operation.labels(code));
  }

  #serveUnary(operation: Operation): ServedMethod {
    const admit = (context: CallContext): Place => {
      const caller = this.#callerOf(operation, context);
      const owner = callOwner(caller, context.peer);
      const refusal = this.#refusal(operation, caller) ?? this.#places.calls.take(owner);
      if (refusal === undefined) {
        this.#countCalls();
        return new Place(caller, owner, () => this.#leave(owner));
      }
      this.#refused(operation, caller, auditedOf(context), refusal);
      throw refusal;
    };
    const handle = (request: object, context: CallContext): Promise<object> =>
      new Promise((resolve, reject) => {
        const { caller, callOwner: owner } = begun(context, admit);
        this.#begin(
          operation,
          request,
          new UnaryContext(this, context, caller, owner, resolve, reject),
          this.environment.clock.monotonicMs(),
        );
      });
    return { kind: "unary", method: operation.method, admit, handle };
  }

  #serveSessions(contract: ServiceContract): ServedMethod {
    const admit = (context: CallContext): Place => {
      const caller = this.#callerOf({ method: contract.methods["Session"]! }, context);
      if (this.#state === "draining") throw this.#draining("no");
      return this.#places.sessions.enter(caller, context.peer);
    };
    const handle = (stream: MessageStream, context: CallContext): void => {
      const place = begunStream(stream, context, admit);
      if (place === undefined) return;
      this.#lastSessionId += 1;
      const { caller, callOwner: owner } = place;
      const session = serveSession(this, stream, context, { id: this.#lastSessionId, caller, owner }, () => {
        place.leave();
        this.#sessions.delete(session);
        this.#countSessions();
        this.#settleDrained();
      });
      this.#sessions.add(session);
      this.#countSessions();
    };
    return { kind: "stream", method: new SessionFrames(contract).serverMethod(this.limits.messageBytesMax), admit, handle };
  }

  #serveStreams({ contract, roles }: Definition, name: string, handler: StreamHandler<object, object>): ServedMethod {
    const method = contract.methods[name];
    assert(method !== undefined && method.requestStream && method.responseStream, `${contract.name} has no stream method ${name}`);
    const operation: Operation = {
      method,
      handler: undefined,
      roles: new Set(rolesOf(roles, name)),
      labels: labelCache(method.path.slice(1)),
    };
    assert(operation.roles.size > 0, `${method.path} names no role that may call it`);
    const admit = (context: CallContext): Place => {
      const caller = this.#callerOf(operation, context);
      const denial = this.#callerRefusal(operation, caller);
      if (denial !== undefined) this.#auditRefused(operation, caller, auditedOf(context), denial);
      const refusal = denial ?? this.#stateRefusal();
      if (refusal !== undefined) throw refusal;
      return this.#places.streams.enter(caller, context.peer);
    };
    const handle = (stream: MessageStream, context: CallContext): void => {
      const startedAtMs = this.environment.clock.monotonicMs();
      const place = begunStream(stream, context, admit);
      if (place === undefined) return;
      const { caller } = place;
      const onEnded = (error: ConcordError | undefined, thrown: unknown): void => {
        place.leave();
        this.#streams.delete(running);
        this.#countStreams();
        const code = error?.code ?? "OK";
        this.#observe(operation, code, startedAtMs);
        this.#audit.answered(caller, method.path, code, auditedOf(context));
        if (thrown !== undefined) this.#failure(operation, auditedOf(context), thrown);
        this.#settleDrained();
      };
      const running = serveStream(stream, context, { method, handler, caller, onEnded });
      this.#streams.add(running);
      this.#countStreams();
    };
    return { kind: "stream", method, admit, handle };
  }

  #draining(applied: Applied): ConcordError {
    return new ConcordError("DRAINING", `${this.name} is shutting down; call another server`, { applied });
  }

  #countStreams(): void {
    this.environment.metrics.gauge("rpc_server_streams", this.#streams.size, this.#labels);
  }

  #countSessions(): void {
    this.environment.metrics.gauge("rpc_server_sessions", this.#sessions.size, this.#labels);
  }

  #settleDrained(): void {
    if (this.#state !== "draining" || this.inFlight > 0 || this.#sessions.size > 0 || this.#streams.size > 0) return;
    const waiters = this.#drainWaiters;
    this.#drainWaiters = [];
    for (const resolve of waiters) resolve();
  }
}

/** A unary call's context with its role; the transport's own object is not touched. */
class UnaryContext implements RunContext {
  readonly deadlineAtMs: number;
  readonly metadata: CallContext["metadata"];
  readonly peer: string;
  readonly caller: Caller;
  readonly owner: CallOwner;
  readonly session: undefined;
  readonly traceparent: string | undefined;
  span: Span | undefined = undefined;
  place: RunContext["place"] = "calls";
  readonly #core: ServiceCore;
  readonly #base: CallContext;
  readonly #resolve: (response: object) => void;
  readonly #reject: (error: ConcordError) => void;

  constructor(
    core: ServiceCore,
    base: CallContext,
    caller: Caller,
    owner: CallOwner,
    resolve: (response: object) => void,
    reject: (error: ConcordError) => void,
  ) {
    this.#core = core;
    this.#base = base;
    this.owner = owner;
    this.#resolve = resolve;
    this.#reject = reject;
    this.deadlineAtMs = base.deadlineAtMs;
    this.metadata = base.metadata;
    this.peer = base.peer;
    this.caller = caller;
    this.traceparent = base.metadata[TRACEPARENT_KEY];
  }

  get signal(): AbortSignal {
    return this.#base.signal;
  }

  get requestId(): string | undefined {
    return requestIdOf(this.metadata);
  }

  waits(): boolean {
    return this.#core.moveToWaiting(this);
  }

  finish(error: ConcordError | undefined, response: object | undefined): void {
    if (error === undefined) this.#resolve(response!);
    else this.#reject(error);
  }
}

function requestRefusal({ method }: Operation, request: object, context: HandlerContext, nowMs: number): ConcordError | undefined {
  const field = method.unknownEnumIn(request);
  if (field !== undefined) return new ConcordError("MALFORMED_REQUEST", `${field} has an unknown value`, { metadata: { field } });
  if (context.deadlineAtMs > nowMs) return undefined;
  return new ConcordError("DEADLINE_EXCEEDED", "the deadline had passed before the call was begun", { applied: "no" });
}

const auditedOf = ({ peer, metadata }: CallContext): AuditedCall => ({ peer, requestId: requestIdOf(metadata) });

/** A fault with the id by which its lines are found in the log: its caller knows nothing else of it. */
function named(error: ConcordError, requestId: string): ConcordError {
  const { code, message, applied, metadata, retryAfterMs, cause } = error;
  const retry = retryAfterMs === undefined ? {} : { retryAfterMs };
  return new ConcordError(code, message, { applied, metadata: { ...metadata, requestId }, cause, ...retry });
}

/** A caller's traceparent decides; without one, only calls of clients begin a trace: those of other servers are part of a client's. */
function spanOf(tracer: Tracer, path: string, { traceparent, caller }: RunContext): Span | undefined {
  const name = path.slice(1);
  if (traceparent !== undefined) return tracer.follow(name, "server", traceparent);
  return caller.role === "client" ? tracer.begin(name, "server") : undefined;
}

function operationsOf({ contract, unary, roles }: Definition): ReadonlyMap<string, Operation> {
  for (const name of Object.keys(unary)) {
    assert(contract.methods[name] !== undefined, `${contract.name} has no method ${name}`);
    assert(rolesOf(roles, name).length > 0, `${contract.name}/${name} names no role that may call it`);
  }
  const methods = Object.values(contract.methods).filter((method) => !method.requestStream && !method.responseStream);
  return new Map(
    methods.map((method): [string, Operation] => [
      operationName(method.name),
      {
        method,
        handler: unary[method.name],
        roles: new Set(unary[method.name] === undefined ? ALL_ROLES : rolesOf(roles, method.name)),
        labels: labelCache(method.path.slice(1)),
      },
    ]),
  );
}

function rolesOf(roles: Definition["roles"], name: string): readonly Role[] {
  return isList(roles) ? roles : (roles[name] ?? []);
}

function isList(roles: Definition["roles"]): roles is readonly Role[] {
  return Array.isArray(roles);
}

/** For methods without handler: every role may hear UNIMPLEMENTED. */
const ALL_ROLES: readonly Role[] = ["client", "coordinator", "peer", "operator"];

/** One label object per outcome, so that metrics can cache by identity. */
function labelCache(method: string): (code: string) => Readonly<Record<string, string>> {
  const byCode = new Map<string, Readonly<Record<string, string>>>();
  return (code) => {
    let labels = byCode.get(code);
    if (labels === undefined) {
      labels = Object.freeze({ method, code });
      byCode.set(code, labels);
    }
    return labels;
  };
}
