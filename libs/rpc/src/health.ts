import { Health, type HealthCheckRequest, type HealthCheckResponseInit, type HealthListResponseInit } from "@concord/protos/grpc.health.v1";
import { ConcordError, type CallContext, type MessageStream, type Metrics, type ServedMethod } from "@concord/runtime";
import type { Caller } from "./auth.ts";
import { begunStream, Places, type Place } from "./places.ts";
import type { Service } from "./service.ts";

/** Open Watch streams of one server; one more is ended with OVERLOADED. */
export const HEALTH_WATCHERS_MAX = 1000;
/** Check and List calls of one server in flight. */
export const HEALTH_CALLS_MAX = 1000;
/** Callers need no token. */
const ANYONE: Caller = { role: "client" };

type Status = "SERVING" | "NOT_SERVING" | "SERVICE_UNKNOWN";

/**
 * grpc.health.v1 over the services' own states: SERVING while a service is `serving`; the empty name is SERVING when all are.
 * Answers every caller, also while starting and draining.
 */
export function healthMethods(services: readonly Service[], metrics: Metrics): readonly ServedMethod[] {
  const { Check, List, Watch } = Health.methods;
  const calls = new Places({ service: "health", metrics, limit: "HEALTH_CALLS_MAX", what: "calls in flight", max: HEALTH_CALLS_MAX });
  const watchers = new Places({ service: "health", metrics, limit: "HEALTH_WATCHERS_MAX", what: "watchers", max: HEALTH_WATCHERS_MAX });
  const admit = (context: CallContext): Place => calls.enter(ANYONE, context.peer);
  const admitWatch = (context: CallContext): Place => watchers.enter(ANYONE, context.peer);
  const watch = (stream: MessageStream, context: CallContext): void => {
    const place = begunStream(stream, context, admitWatch);
    if (place === undefined) return;
    const forget: (() => void)[] = [];
    stream.onEnd(() => {
      place.leave();
      for (const one of forget) one();
    });
    stream.onMessage((request) => {
      const { service } = request as HealthCheckRequest;
      if (forget.length === 0)
        forget.push(...follow(services, service, (status) => stream.send({ status } satisfies HealthCheckResponseInit)));
    });
  };
  return [
    { kind: "unary", method: Check, admit, handle: (request) => check(services, (request as HealthCheckRequest).service) },
    { kind: "unary", method: List, admit, handle: () => Promise.resolve(list(services)) },
    { kind: "stream", method: Watch, admit: admitWatch, handle: watch },
  ];
}

function check(services: readonly Service[], name: string): Promise<HealthCheckResponseInit> {
  const status = statusOf(services, name);
  if (status === "SERVICE_UNKNOWN") return Promise.reject(new ConcordError("NOT_FOUND", `this server has no service ${name}`));
  return Promise.resolve({ status });
}

function list(services: readonly Service[]): HealthListResponseInit {
  const names = ["", ...services.map((service) => service.name)];
  return { statuses: Object.fromEntries(names.map((name) => [name, { status: statusOf(services, name) }])) };
}

function statusOf(services: readonly Service[], name: string): Status {
  const asked = name === "" ? services : services.filter((service) => service.name === name);
  if (asked.length === 0 && name !== "") return "SERVICE_UNKNOWN";
  return asked.every((service) => service.state === "serving") ? "SERVING" : "NOT_SERVING";
}

/** Sends the status now and after every change; returns what ends that. */
function follow(services: readonly Service[], name: string, send: (status: Status) => void): (() => void)[] {
  let last = statusOf(services, name);
  send(last);
  const update = (): void => {
    const status = statusOf(services, name);
    if (status === last) return;
    last = status;
    send(status);
  };
  return services.map((service) => service.onState(update));
}
