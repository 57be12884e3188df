import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import {
  credentials,
  experimental,
  ServerCredentials,
  type ChannelCredentials,
  type ChannelOptions,
  type ServerOptions,
} from "@grpc/grpc-js";
import type { Clock, Log, Metrics } from "@concord/runtime";
import { Certificates, type Texts } from "./grpc-certificates.ts";
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

export interface GrpcTls {
  readonly server?: ServerTls;
  readonly channel?: ChannelTls;
}

/** The credentials of all servers and channels of one transport. */
export interface GrpcCredentials {
  readonly server: ServerCredentials;
  readonly channel: (address: string) => ChannelCredentials;
}

export interface GrpcTransportOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Without it servers and channels are plaintext: for loopback and meshes only. */
  readonly tls?: GrpcTls;
  /** Other texts for `tls`, while it runs. */
  readonly tlsChanges?: (listener: (tls: GrpcTls) => void) => void;
  readonly messageBytesMax?: number;
  /** Budget of unary calls that come without a deadline. */
  readonly defaultTimeoutMs?: number;
  readonly connectionAgeMsMax?: number;
  /** Connections of a server at the same time; one more is closed at once. */
  readonly connectionsMax?: number;
  /** Memory of servers for requests on their way in; `INPUT_BYTES_MAX` when not given. */
  readonly inputBytesMax?: number;
  /** Memory of servers for pages and large answers that their clients have not taken; `OUTPUT_BYTES_MAX` when not given. */
  readonly outputBytesMax?: number;
}

export function serverOptions(options: GrpcTransportOptions): ServerOptions {
  return {
    "grpc.keepalive_time_ms": KEEPALIVE_TIME_MS,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    "grpc.max_connection_age_ms": options.connectionAgeMsMax ?? CONNECTION_AGE_MS_MAX,
    "grpc.max_connection_age_grace_ms": CONNECTION_AGE_GRACE_MS,
    // Its books of every call and socket are read by no program of ours.
    "grpc.enable_channelz": 0,
    "grpc.max_concurrent_streams": CONCURRENT_STREAMS_MAX,
    "grpc.max_receive_message_length": messageBytesMax(options),
    "grpc-node.flow_control_window": FLOW_CONTROL_WINDOW_BYTES,
  };
}

export function channelOptions(options: GrpcTransportOptions, address: string): ChannelOptions {
  const name = nameSent(options.tls?.channel, address);
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
    "grpc.max_receive_message_length": messageBytesMax(options),
    "grpc-node.flow_control_window": FLOW_CONTROL_WINDOW_BYTES,
    ...(name === undefined ? {} : { "grpc.ssl_target_name_override": name }),
  };
}

export function messageBytesMax(options: GrpcTransportOptions): number {
  return options.messageBytesMax ?? MESSAGE_BYTES_MAX;
}

/** Follows `tlsChanges`: connections made from then on. */
export function credentialsOf({ clock, tls, tlsChanges }: GrpcTransportOptions): GrpcCredentials {
  const texts = textsOf(tls);
  const [server, channel] = [new Certificates(clock, texts.server), new Certificates(clock, texts.channel)];
  tlsChanges?.((changed) => {
    server.replace(textsOf(changed).server);
    channel.replace(textsOf(changed).channel);
  });
  const channelOf = (address: string): ChannelCredentials => channelCredentials(tls?.channel, channel, address);
  return { server: serverCredentials(tls?.server, server), channel: channelOf };
}

function textsOf({ server, channel }: GrpcTls = {}): { readonly server: Texts; readonly channel: Texts } {
  return {
    server: { ca: server?.clientCa, certificate: server?.certificate, key: server?.key },
    channel: { ca: channel?.serverCa, certificate: channel?.certificate, key: channel?.key },
  };
}

function serverCredentials(tls: ServerTls | undefined, certificates: Certificates): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const asksClients = tls.clientCa !== undefined;
  // The identity comes first, whatever the names of its parameters say.
  return experimental.createCertificateProviderServerCredentials(certificates, asksClients ? certificates : null, asksClients);
}

/** TLS sends no IP addresses as names of servers, and Node refuses to; grpc-js sends a name always. */
const NAME_OF_ADDRESS = "address.invalid";

/** The address of a server that is called by it, and has no other name. */
function ipOf({ serverName }: ChannelTls, address: string): string | undefined {
  const host = address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  return serverName === undefined && isIP(host) !== 0 ? host : undefined;
}

function nameSent(tls: ChannelTls | undefined, address: string): string | undefined {
  if (tls === undefined) return undefined;
  return tls.serverName ?? (ipOf(tls, address) === undefined ? undefined : NAME_OF_ADDRESS);
}

function channelCredentials(tls: ChannelTls | undefined, certificates: Certificates, address: string): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const hasIdentity = tls.certificate !== undefined && tls.key !== undefined;
  const ip = ipOf(tls, address);
  // The certificate must have the address, whatever name was sent.
  const verified =
    ip === undefined ? {} : { checkServerIdentity: (_name: string, certificate: PeerCertificate) => checkServerIdentity(ip, certificate) };
  return experimental.createCertificateProviderChannelCredentials(certificates, hasIdentity ? certificates : null, verified);
}
