import { isLoopback, OutputBudget, type Channel, type Listener, type ServedMethod, type Transport } from "@concord/runtime";
import { connectGrpc } from "./grpc-channel.ts";
import { credentialsOf, type GrpcTransportOptions } from "./grpc-options.ts";
import { serveGrpc } from "./grpc-server.ts";
import { InputBudget } from "./input-budget.ts";
import { INPUT_BYTES_MAX, OUTPUT_BYTES_MAX, OUTPUT_STALLED_MS } from "./limits.ts";
import { requestIds } from "./request-id.ts";

/** The network over gRPC. Only the grpc-*.ts files of this lib import grpc-js. */
export function grpcTransport(options: GrpcTransportOptions): Transport {
  const { clock, metrics, inputBytesMax = INPUT_BYTES_MAX, outputBytesMax: bytesMax = OUTPUT_BYTES_MAX } = options;
  const input = new InputBudget(metrics, inputBytesMax);
  const output = new OutputBudget({ clock, metrics, bytesMax, stalledMs: OUTPUT_STALLED_MS });
  const credentials = credentialsOf(options);
  const newRequestId = requestIds(clock);
  return {
    serve(address: string, methods: readonly ServedMethod[]): Promise<Listener> {
      if (options.tls?.server === undefined && !isLoopback(address)) options.log.warn("serving without TLS beyond loopback", { address });
      return serveGrpc(address, methods, { ...options, input, output, credentials, newRequestId });
    },
    connect(address: string): Channel {
      return connectGrpc(address, options, credentials);
    },
  };
}
