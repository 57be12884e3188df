// Concord without our client: grpc-js and proto-loader on the published .proto files, as any program would use them.
import { join } from "node:path";
import type { ServiceContract } from "@concord/protos";
import type { RequestInitOf, ResponseOf, UnaryName } from "@concord/rpc";
import type { Installed } from "./installed-client.ts";

interface GrpcModule {
  readonly credentials: { createInsecure(): unknown };
  readonly Metadata: new () => { set(key: string, value: string): void };
  loadPackageDefinition(definition: object): Record<string, unknown>;
}

interface LoaderModule {
  loadSync(files: readonly string[], options: object): object;
}

/** A stream in both directions; nothing is read from it until there is a listener for "data", or it is iterated over. */
export interface PlainStream extends AsyncIterable<unknown> {
  write(message: object): void;
  on(event: "error" | "close", listener: () => void): void;
  cancel(): void;
}

type StreamMethod = (metadata: object) => PlainStream;
type UnaryMethod = (request: object, metadata: object, options: object, done: (error: Error | null, response: object) => void) => void;

/** The calls of one service; the contract's types say what goes in and what comes out. */
export interface PlainService<S extends ServiceContract<object>> {
  call<Name extends UnaryName<S>>(
    method: Name,
    request: RequestInitOf<S, Name>,
    token?: string,
    more?: Readonly<Record<string, string>>,
  ): Promise<ResponseOf<S, Name>>;
  /** A method that streams both ways; its messages are of the types of the .proto file. */
  stream(method: string): PlainStream;
  close(): void;
}

const CALL_TIMEOUT_MS = 30_000;

/** `own`: a connection that no other service object of this process shares: what is not read on it holds up nothing else. */
export type PlainConnection = "shared" | "own";

/** A service at one address. */
export type PlainGrpc = <S extends ServiceContract<object>>(address: string, service: S, connection?: PlainConnection) => PlainService<S>;

export function plainGrpc({ load, protoFolder }: Installed): PlainGrpc {
  const grpc = load("@grpc/grpc-js") as GrpcModule;
  const loader = load("@grpc/proto-loader") as LoaderModule;
  const files = [
    "concord/txn/v1/topology.proto",
    "concord/storage/v1/rows.proto",
    "concord/storage/v1/batches.proto",
    "concord/storage/v1/replica.proto",
    "concord/object/v1/admin.proto",
    "concord/dedup/v1/ingest.proto",
    "concord/dedup/v1/output.proto",
    "concord/dedup/v1/window.proto",
  ];
  const options = { includeDirs: [protoFolder], longs: BigInt, enums: String, defaults: true, oneofs: true };
  const loaded = grpc.loadPackageDefinition(
    loader.loadSync(
      files.map((file) => join(protoFolder, file)),
      options,
    ),
  );
  return <S extends ServiceContract<object>>(address: string, { name }: S, connection: PlainConnection = "shared"): PlainService<S> => {
    const Service = name.split(".").reduce<unknown>((scope, part) => (scope as Record<string, unknown>)[part], loaded) as new (
      address: string,
      credentials: unknown,
      options: object,
    ) => Record<string, UnaryMethod & StreamMethod> & { close(): void };
    const channel = connection === "own" ? { "grpc.use_local_subchannel_pool": 1 } : {};
    const stub = new Service(address, grpc.credentials.createInsecure(), channel);
    return {
      call<Name extends UnaryName<S>>(
        method: Name,
        request: RequestInitOf<S, Name>,
        token?: string,
        more: Readonly<Record<string, string>> = {},
      ): Promise<ResponseOf<S, Name>> {
        const metadata = new grpc.Metadata();
        if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
        for (const [key, value] of Object.entries(more)) metadata.set(key, value);
        return new Promise((resolve, reject) => {
          stub[method]!(request, metadata, { deadline: Date.now() + CALL_TIMEOUT_MS }, (error, response) =>
            error === null ? resolve(response as ResponseOf<S, Name>) : reject(error),
          );
        });
      },
      stream: (method) => stub[method]!(new grpc.Metadata()),
      close: () => stub.close(),
    };
  };
}
