import { loadService } from "@concord/protos";
import { defineService, type Authenticator, type Role, type Service, type UnaryHandler } from "@concord/rpc";
import type { Environment } from "@concord/runtime";

export interface DefineOptions {
  readonly environment: Environment;
  readonly authenticator: Authenticator;
}

export interface Method {
  readonly roles: readonly Role[];
  readonly handler: UnaryHandler;
}

/** A service by the name of its contract; every method with the roles that may call it. */
export function define(options: DefineOptions, name: string, methods: Readonly<Record<string, Method>>): Service {
  const { clock, log, metrics } = options.environment;
  const loaded = loadService(name);
  const unary = Object.fromEntries(Object.entries(methods).map(([method, { handler }]) => [method, handler]));
  const roles = Object.fromEntries(Object.entries(methods).map(([method, one]) => [method, one.roles]));
  const session = loaded["Session"] === undefined ? {} : { session: "Session" };
  return defineService({ name, methods: loaded, unary, roles, ...session }, { clock, log, metrics, authenticator: options.authenticator });
}
