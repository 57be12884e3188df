export { bearer, tokenAuthenticator, type Authenticator, type Caller, type Role, type RoleToken } from "./auth.ts";
export { Channels } from "./channels.ts";
export { fakeService, type FakeAnswers, type FakeCall, type FakeServiceOptions } from "./fake-service.ts";
export { HEALTH_WATCHERS_MAX, healthMethods } from "./health.ts";
export { startHost, startSharedHost, type HostOptions, type ServiceHost, type SharedHost } from "./host.ts";
export { reflectionMethods } from "./reflection.ts";
export { runMain, STOP_MARGIN_MS, type MainOptions, type MainProcess, type Running } from "./run-main.ts";
export type { ChannelTls, GrpcTransportOptions, ServerTls } from "./grpc-options.ts";
export { grpcTransport } from "./grpc-transport.ts";
export { DEFAULT_TIMEOUT_MS, MESSAGE_BYTES_MAX, SESSION_OUTSTANDING_MAX } from "./limits.ts";
export { localTransport, type LocalTransportOptions } from "./local-transport.ts";
export { MemoryTransport, type MemoryTransportOptions } from "./memory-transport.ts";
export { RPC_METRICS } from "./metrics.ts";
export { MountedService, type MountedServiceOptions } from "./mounted-service.ts";
export { startAlone, type Part } from "./part.ts";
export { callUnary, openStream, type TypedStream } from "./unary.ts";
export type {
  AnswerOf,
  OperationName,
  RequestInitOf,
  RequestOf,
  ResponseInitOf,
  ResponseOf,
  StreamName,
  UnaryName,
} from "./contract-types.ts";
export {
  defineService,
  remainingMs,
  type Handler,
  type Handlers,
  type Roles,
  type Service,
  type ServiceDefinition,
  type StreamHandlers,
} from "./service.ts";
export type { HandlerContext, ServiceEnvironment, ServiceLimits, ServiceState, SessionContext } from "./service-core.ts";
export {
  SessionClient,
  type CallRequest,
  type CallResponse,
  type SessionCallOptions,
  type SessionClientLimits,
  type SessionClientOptions,
} from "./session-client.ts";
export type { Page, RequestStream, StreamContext, StreamHandler } from "./stream-server.ts";
export { decodeStatus, encodeStatus, fromStatus, publicError, toStatus } from "./status.ts";
