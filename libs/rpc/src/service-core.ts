// The service as the streams and calls that run in it use it.
import type { CallContext, Clock, ConcordError, Log, Metrics, Span, Tracer } from "@concord/runtime";
import type { Authenticator, Caller, Role } from "./auth.ts";
import type { CallOwner } from "./places.ts";
import type { Method } from "@concord/protos";

/** The session stream a call came on. */
export interface SessionContext {
  /** Unique among the sessions this service has served since it was made. */
  readonly id: number;
  /** Calls `listener` once when the stream has ended for whatever reason; at once if it has already. */
  onEnd(listener: () => void): void;
}

export interface HandlerContext extends CallContext {
  readonly caller: Caller;
  /** Whose shares the call takes. */
  readonly owner: CallOwner;
  /** Session of the call; undefined when it came as a unary one. */
  readonly session: SessionContext | undefined;
  /** Span of this call, when it is traced; the work that it causes is part of it. */
  readonly span?: Span | undefined;
  /**
   * The call waits from here on for what others do, and its work after that is short: it moves to a place of calls that wait, until it is
   * answered. False: there is none for its owner, and it keeps the one it has.
   */
  waits(): boolean;
}

export interface ServiceLimits {
  readonly inFlightMax: number;
  /** Calls in flight that wait for others; `inFlightMax` does not count them. */
  readonly waitingMax: number;
  readonly sessionsMax: number;
  readonly sessionOutstandingMax: number;
  readonly frameCallsMax: number;
  readonly messageBytesMax: number;
  /** Streams that are no sessions, open at the same time. */
  readonly streamsMax: number;
}

export interface ServiceEnvironment {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly authenticator: Authenticator;
  readonly tracer?: Tracer | undefined;
}

export type ServiceState = "starting" | "serving" | "draining";

/** The context of a call with what becomes of its end. */
export interface RunContext extends HandlerContext {
  /** Trace context of the caller; undefined when it sent none. */
  readonly traceparent: string | undefined;
  /** Id of the call; undefined over transports that name no calls. */
  readonly requestId: string | undefined;
  span: Span | undefined;
  /** Which places its own is one of. */
  place: "calls" | "waits";
  /** Ends the call, once: with an error, or with the handler's response. */
  finish(error: ConcordError | undefined, response: object | undefined): void;
}

/** The service as its sessions use it. */
export interface ServiceCore {
  readonly name: string;
  readonly environment: ServiceEnvironment;
  readonly limits: ServiceLimits;
  readonly state: ServiceState;
  /** Operations by the name of their oneof case: Read -> read. */
  readonly operations: ReadonlyMap<string, Operation>;
  run(operation: Operation, request: object, context: RunContext, nowMs: number): void;
  /** Counts the call among those that wait, as `waits` of its context does. */
  moveToWaiting(context: RunContext): boolean;
}

/** One callable method with what the pipeline needs at hand. */
export interface Operation {
  readonly method: Method;
  readonly handler: ((request: object, context: HandlerContext) => object | Promise<object>) | undefined;
  readonly roles: ReadonlySet<Role>;
  readonly labels: (code: string) => Readonly<Record<string, string>>;
}
