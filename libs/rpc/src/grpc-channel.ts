import { Client, Metadata as GrpcMetadata, status as GrpcStatus, type ClientDuplexStream, type ServiceError } from "@grpc/grpc-js";
import {
  ConcordError,
  type CallOptions,
  type Channel,
  type MessageStream,
  type Metadata,
  type MethodDescriptor,
  type StreamOptions,
} from "@concord/runtime";
import { GrpcConnections } from "./grpc-connections.ts";
import { fromServiceError } from "./grpc-errors.ts";
import { channelOptions, messageBytesMax, type GrpcCredentials, type GrpcTransportOptions } from "./grpc-options.ts";
import { encodeRequest } from "./messages.ts";

type Bytes = Uint8Array;

const asBuffer = (bytes: Bytes): Buffer => (Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
const asIs = (bytes: Buffer): Bytes => bytes;

/** A channel to one address; connects at the first call and again after a loss. */
export function connectGrpc(address: string, options: GrpcTransportOptions, { channel: credentials }: GrpcCredentials): Channel {
  const connections = new GrpcConnections(options.clock, address);
  const client = new Client(address, credentials(address), { ...channelOptions(options, address), ...connections.channelOption });
  const probe = (): void => connections.probe();
  return {
    address,
    unary: (method, request, call) => callUnary(client, method, request, call, { ...options, probe }),
    stream: (method, call) => new ChannelStream(client, method, call),
    probe,
    close: () => {
      client.close();
      connections.close();
    },
  };
}

function callUnary(
  client: Client,
  method: MethodDescriptor,
  request: object,
  call: CallOptions,
  options: GrpcTransportOptions & { readonly probe: () => void },
): Promise<object> {
  return new Promise((resolve, reject) => {
    const bytes = encodeRequest(method, request, messageBytesMax(options));
    if (!(call.timeoutMs > 0)) throw new ConcordError("DEADLINE_EXCEEDED", "no time is left for the call", { applied: "no" });
    if (call.signal?.aborted === true) throw new ConcordError("CANCELLED", "the caller gave up on the call", { applied: "no" });
    const deadline = options.clock.nowMs() + call.timeoutMs;
    const finish = (error: ServiceError | null, response?: Bytes): void => {
      call.signal?.removeEventListener("abort", cancel);
      if (error?.code === GrpcStatus.DEADLINE_EXCEEDED) options.probe();
      if (error !== null) reject(fromServiceError(error));
      else settleDecoded(method, response!, resolve, reject);
    };
    const running = client.makeUnaryRequest(method.path, asBuffer, asIs, bytes, toGrpc(call.metadata), { deadline }, finish);
    const cancel = (): void => running.cancel();
    call.signal?.addEventListener("abort", cancel, { once: true });
  });
}

function settleDecoded(
  method: MethodDescriptor,
  bytes: Bytes,
  resolve: (message: object) => void,
  reject: (error: ConcordError) => void,
): void {
  try {
    resolve(method.decodeResponse(bytes));
  } catch (thrown) {
    reject(new ConcordError("INTERNAL", `the response of ${method.path} cannot be decoded`, { cause: thrown }));
  }
}

class ChannelStream implements MessageStream {
  readonly #call: ClientDuplexStream<Bytes, Bytes>;
  readonly #method: MethodDescriptor;
  readonly #endListeners: ((error: Error | undefined) => void)[] = [];
  #ended: { readonly error: Error | undefined } | undefined;
  #locallyEnded = false;

  constructor(client: Client, method: MethodDescriptor, options: StreamOptions) {
    this.#method = method;
    this.#call = client.makeBidiStreamRequest(method.path, asBuffer, asIs, toGrpc(options.metadata));
    this.#call.on("error", (error: ServiceError) => this.#end(fromServiceError(error)));
    this.#call.on("status", (status) => {
      if (status.code === 0) this.#end(undefined);
    });
  }

  send(message: object): boolean {
    const bytes = this.#method.encodeRequest(message);
    if (this.#locallyEnded || this.#ended !== undefined) return true;
    return this.#call.write(bytes);
  }

  onMessage(listener: (message: object) => void): void {
    this.#call.on("data", (bytes: Bytes) => {
      let message: object;
      try {
        message = this.#method.decodeResponse(bytes);
      } catch (thrown) {
        this.end(new ConcordError("INTERNAL", `a message of ${this.#method.path} cannot be decoded`, { cause: thrown }));
        return;
      }
      if (this.#ended === undefined) listener(message);
    });
  }

  onDrain(listener: () => void): void {
    this.#call.on("drain", listener);
  }

  onEnd(listener: (error: Error | undefined) => void): void {
    if (this.#ended === undefined) this.#endListeners.push(listener);
    else listener(this.#ended.error);
  }

  end(error?: Error): void {
    if (this.#locallyEnded) return;
    this.#locallyEnded = true;
    if (error === undefined) {
      this.#call.end();
      return;
    }
    this.#call.cancel();
    this.#end(error);
  }

  #end(error: Error | undefined): void {
    if (this.#ended !== undefined) return;
    this.#ended = { error };
    for (const listener of this.#endListeners) listener(error);
  }
}

function toGrpc(metadata: Metadata | undefined): GrpcMetadata {
  const result = new GrpcMetadata();
  for (const [key, value] of Object.entries(metadata ?? {})) result.set(key, value);
  return result;
}
