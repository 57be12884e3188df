/** A service that a test answers for, behind the pipeline of the real ones. */
import type { ServiceContract } from "@concord/protos";
import type { Role } from "./auth.ts";
import type { RequestOf, ResponseInitOf, UnaryName } from "./contract-types.ts";
import { defineService, type Service, type ServiceDefinition, type StreamHandlers } from "./service.ts";
import type { HandlerContext, ServiceEnvironment } from "./service-core.ts";

/** By method name; a method without answer is UNIMPLEMENTED. */
export type FakeAnswers<S extends ServiceContract<object>> = {
  readonly [Name in UnaryName<S>]?: (
    request: RequestOf<S, Name>,
    context: HandlerContext,
  ) => ResponseInitOf<S, Name> | Promise<ResponseInitOf<S, Name>>;
};

export interface FakeCall {
  /** "Read" */
  readonly method: string;
  readonly request: object;
  /** Runs the answer of the method. */
  answer(): Promise<object>;
}

export interface FakeServiceOptions<S extends ServiceContract<object>> {
  readonly contract: S;
  readonly answers: FakeAnswers<S>;
  /** Gets every call that has an answer, and answers it or lets it run. */
  readonly intercept: (call: FakeCall) => Promise<object>;
  readonly streams?: StreamHandlers<S>;
  /** May call every method. */
  readonly role: Role;
  readonly environment: ServiceEnvironment;
}

/** Serving at once. */
export function fakeService<S extends ServiceContract<object>>(options: FakeServiceOptions<S>): Service {
  const { contract, answers, intercept, streams, role, environment } = options;
  const untyped = answers as unknown as Readonly<Record<string, (request: object, context: HandlerContext) => object>>;
  const unary = Object.entries(untyped).map(([method, answerTo]) => {
    const handler = (request: object, context: HandlerContext): Promise<object> =>
      intercept({ method, request, answer: async () => answerTo(request, context) });
    return [method, handler] as const;
  });
  const definition = { contract, unary: Object.fromEntries(unary), streams, roles: [role] };
  const service = defineService(definition as unknown as ServiceDefinition<S>, environment);
  service.setState("serving");
  return service;
}
