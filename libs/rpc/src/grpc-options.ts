import { credentials, ServerCredentials, type ChannelCredentials, type ChannelOptions, type ServerOptions } from "@grpc/grpc-js";
import type { Clock, Log, Metrics } from "@concord/runtime";
import { MESSAGE_BYTES_MAX } from "./limits.ts";

/** A ping after this silence; without an answer within the time-out the connection is broken. */
export const KEEPALIVE_TIME_MS = 30_000;
export const KEEPALIVE_TIMEOUT_MS = 10_000;
/**
 * A server asks a client to move to a new connection after this time (so that load spreads after a scale-out) and breaks the old
 * one after the grace: a session stream lives at most for both together.
 */
export const CONNECTION_AGE_MS_MAX = 3_600_000;
export const CONNECTION_AGE_GRACE_MS = 3_600_000;
/** Streams and unary calls of one connection at the same time. */
export const CONCURRENT_STREAMS_MAX = 2048;
export const RECONNECT_BACKOFF_MS_MIN = 50;
export const RECONNECT_BACKOFF_MS_MAX = 2_000;
/** HTTP/2 window per stream; the default of 64 KiB stalls large frames. */
const FLOW_CONTROL_WINDOW_BYTES = 1024 * 1024;
/**
 * grpc-js itself refuses messages above this multiple of our limit; up to there our own check answers with a rich error.
 */
const GRPC_RECEIVE_FACTOR = 4;

/** PEM texts. With `clientCa` a server demands a certificate of its clients (mutual TLS). */
export interface ServerTls {
  readonly certificate: string;
  readonly key: string;
  readonly clientCa?: string;
}

/** PEM texts. `certificate` and `key` only for mutual TLS. */
export interface ChannelTls {
  readonly serverCa: string;
  readonly certificate?: string;
  readonly key?: string;
  /** The name to expect in the server's certificate when it is not the host of the address. */
  readonly serverName?: string;
}

export interface GrpcTransportOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Without it servers and channels are plaintext: for loopback and meshes only. */
  readonly tls?: { readonly server?: ServerTls; readonly channel?: ChannelTls };
  readonly messageBytesMax?: number;
  /** Budget of unary calls that come without a deadline. */
  readonly defaultTimeoutMs?: number;
  readonly connectionAgeMsMax?: number;
  /** Memory of servers for pages and large answers that their clients have not taken; `OUTPUT_BYTES_MAX` when not given. */
  readonly outputBytesMax?: number;
}

export function serverOptions(options: GrpcTransportOptions): ServerOptions {
  return {
    "grpc.keepalive_time_ms": KEEPALIVE_TIME_MS,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    "grpc.max_connection_age_ms": options.connectionAgeMsMax ?? CONNECTION_AGE_MS_MAX,
    "grpc.max_connection_age_grace_ms": CONNECTION_AGE_GRACE_MS,
    "grpc.max_concurrent_streams": CONCURRENT_STREAMS_MAX,
    "grpc.max_receive_message_length": GRPC_RECEIVE_FACTOR * messageBytesMax(options),
    "grpc-node.flow_control_window": FLOW_CONTROL_WINDOW_BYTES,
  };
}

export function channelOptions(options: GrpcTransportOptions): ChannelOptions {
  const serverName = options.tls?.channel?.serverName;
  return {
    "grpc.keepalive_time_ms": KEEPALIVE_TIME_MS,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    "grpc.keepalive_permit_without_calls": 1,
    // Retries are ours: a transparent one would repeat a call whose outcome is unknown, and its buffer grows with long streams.
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.enable_http_proxy": 0,
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": RECONNECT_BACKOFF_MS_MIN,
    "grpc.max_reconnect_backoff_ms": RECONNECT_BACKOFF_MS_MAX,
    "grpc.max_receive_message_length": GRPC_RECEIVE_FACTOR * messageBytesMax(options),
    "grpc-node.flow_control_window": FLOW_CONTROL_WINDOW_BYTES,
    ...(serverName === undefined ? {} : { "grpc.ssl_target_name_override": serverName }),
  };
}

export function messageBytesMax(options: GrpcTransportOptions): number {
  return options.messageBytesMax ?? MESSAGE_BYTES_MAX;
}

export function serverCredentials(tls: ServerTls | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const pair = { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.certificate) };
  const clientCa = tls.clientCa === undefined ? null : Buffer.from(tls.clientCa);
  return ServerCredentials.createSsl(clientCa, [pair], clientCa !== null);
}

export function channelCredentials(tls: ChannelTls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const part = (pem: string | undefined): Buffer | null => (pem === undefined ? null : Buffer.from(pem));
  return credentials.createSsl(part(tls.serverCa), part(tls.key), part(tls.certificate));
}
