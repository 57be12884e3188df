import type { ServiceContract } from "@concord/protos";
import {
  defineService,
  type Authenticator,
  type Handler,
  type Handlers,
  type Role,
  type Roles,
  type Service,
  type ServiceDefinition,
  type UnaryName,
} from "@concord/rpc";
import { WRITES_TAKEN, writeRefused, type Environment, type Writes } from "@concord/runtime";

export interface DefineOptions {
  readonly environment: Environment;
  readonly authenticator: Authenticator;
  /** Refused: every method that may write is. Taken when not given. */
  readonly writes?: Writes;
}

/** They only read; of Query the statement decides. */
const READING: ReadonlySet<string> = new Set([
  "Read",
  "ReadRange",
  "Query",
  "GetSchema",
  "Status",
  "ReadObjectRows",
  "ReadObjectRange",
  "ReadObjectCounters",
  "ListPendingBatches",
  "ListDeadLetters",
]);

/** Every unary method of a service with its handler and the roles that may call it. */
export type MethodsOf<S extends ServiceContract<object>> = {
  readonly [Name in UnaryName<S>]: { readonly roles: readonly Role[]; readonly handler: Handler<S, Name> };
};

/** A service without streams but its session. */
export function define<S extends ServiceContract<object>>(options: DefineOptions, contract: S, methods: MethodsOf<S>): Service {
  const { clock, log, metrics, tracer } = options.environment;
  const { writes = WRITES_TAKEN } = options;
  const refuse = (): never => {
    throw writeRefused(writes.kind === "refused" ? writes.reason : "");
  };
  const entries: [string, MethodsOf<S>[UnaryName<S>]][] = Object.entries(methods as object);
  const unary = Object.fromEntries(
    entries.map(([name, { handler }]) => [name, writes.kind === "taken" || READING.has(name) ? handler : refuse]),
  ) as Handlers<S>;
  const roles = Object.fromEntries(entries.map(([name, one]) => [name, one.roles])) as Roles<S>;
  return defineService({ contract, unary, roles } as unknown as ServiceDefinition<S>, {
    clock,
    log,
    metrics,
    authenticator: options.authenticator,
    tracer,
  });
}
