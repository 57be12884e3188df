import type { Channel, Listener, ServedMethod, Transport } from "@concord/runtime";
import { connectGrpc } from "./grpc-channel.ts";
import type { GrpcTransportOptions } from "./grpc-options.ts";
import { serveGrpc } from "./grpc-server.ts";

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/;

/** The network over gRPC. Only the grpc-*.ts files of this lib import grpc-js. */
export function grpcTransport(options: GrpcTransportOptions): Transport {
  return {
    serve(address: string, methods: readonly ServedMethod[]): Promise<Listener> {
      if (options.tls?.server === undefined && !LOOPBACK.test(address))
        options.log.warn("serving without TLS beyond loopback", { address });
      return serveGrpc(address, methods, options);
    },
    connect(address: string): Channel {
      return connectGrpc(address, options);
    },
  };
}
