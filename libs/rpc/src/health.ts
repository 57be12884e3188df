import { Health, type HealthCheckRequest, type HealthCheckResponseInit, type HealthListResponseInit } from "@concord/protos/grpc.health.v1";
import { ConcordError, type MessageStream, type ServedMethod } from "@concord/runtime";
import type { Service } from "./service.ts";

/** Open Watch streams of one server; one more is ended with OVERLOADED. */
export const HEALTH_WATCHERS_MAX = 1000;

type Status = "SERVING" | "NOT_SERVING" | "SERVICE_UNKNOWN";

/**
 * grpc.health.v1 over the services' own states: SERVING while a service is `serving`; the empty name is SERVING when all are.
 * Answers every caller, also while starting and draining.
 */
export function healthMethods(services: readonly Service[]): readonly ServedMethod[] {
  const { Check, List, Watch } = Health.methods;
  let watchers = 0;
  const watch = (stream: MessageStream): void => {
    if (watchers >= HEALTH_WATCHERS_MAX) {
      const metadata = { limit: "HEALTH_WATCHERS_MAX", value: String(HEALTH_WATCHERS_MAX) };
      stream.end(new ConcordError("OVERLOADED", "too many health watchers", { metadata }));
      return;
    }
    watchers += 1;
    const forget: (() => void)[] = [];
    stream.onEnd(() => {
      watchers -= 1;
      for (const one of forget) one();
    });
    stream.onMessage((request) => {
      const { service } = request as HealthCheckRequest;
      if (forget.length === 0)
        forget.push(...follow(services, service, (status) => stream.send({ status } satisfies HealthCheckResponseInit)));
    });
  };
  return [
    { kind: "unary", method: Check, handle: (request) => check(services, (request as HealthCheckRequest).service) },
    { kind: "unary", method: List, handle: () => Promise.resolve(list(services)) },
    { kind: "stream", method: Watch, handle: watch },
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
