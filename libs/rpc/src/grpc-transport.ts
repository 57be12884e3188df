import { OutputBudget, type Channel, type Listener, type ServedMethod, type Transport } from "@concord/runtime";
import { connectGrpc } from "./grpc-channel.ts";
import { credentialsOf, type GrpcTransportOptions } from "./grpc-options.ts";
import { serveGrpc } from "./grpc-server.ts";
import { OUTPUT_BYTES_MAX, OUTPUT_STALLED_MS } from "./limits.ts";
import { requestIds } from "./request-id.ts";

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/;

/** The network over gRPC. Only the grpc-*.ts files of this lib import grpc-js. */
export function grpcTransport(options: GrpcTransportOptions): Transport {
  const { clock, metrics, outputBytesMax: bytesMax = OUTPUT_BYTES_MAX } = options;
  const output = new OutputBudget({ clock, metrics, bytesMax, stalledMs: OUTPUT_STALLED_MS });
  const credentials = credentialsOf(options);
  const newRequestId = requestIds(clock);
  return {
    serve(address: string, methods: readonly ServedMethod[]): Promise<Listener> {
      if (options.tls?.server === undefined && !LOOPBACK.test(address))
        options.log.warn("serving without TLS beyond loopback", { address });
      return serveGrpc(address, methods, { ...options, output, credentials, newRequestId });
    },
    connect(address: string): Channel {
      return connectGrpc(address, options, credentials);
    },
  };
}
