import type { ServiceContract } from "@concord/protos";
import { defineUntypedService, type Authenticator, type Role, type Service, type UnaryHandler } from "@concord/rpc";
import type { Environment } from "@concord/runtime";

export interface DefineOptions {
  readonly environment: Environment;
  readonly authenticator: Authenticator;
}

export interface Method {
  readonly roles: readonly Role[];
  readonly handler: UnaryHandler;
}

/** A service; every method with the roles that may call it. */
export function define(options: DefineOptions, contract: ServiceContract<object>, methods: Readonly<Record<string, Method>>): Service {
  const { clock, log, metrics } = options.environment;
  const unary = Object.fromEntries(Object.entries(methods).map(([method, { handler }]) => [method, handler]));
  const roles = Object.fromEntries(Object.entries(methods).map(([method, one]) => [method, one.roles]));
  return defineUntypedService({ contract, unary, roles }, { clock, log, metrics, authenticator: options.authenticator });
}
