import { ConcordError, toConcordError, type CallContext, type MethodDescriptor, type Metadata } from "@concord/runtime";
import type { Connection } from "./connection.ts";
import type { SimListener } from "./listener.ts";
import type { CallNetwork } from "./call-network.ts";
import { Pipe } from "./pipe.ts";
import { SimStream } from "./stream.ts";

const NO_BYTES = new Uint8Array(0);

/** Opens a stream: the client's end answers at once, the server's end comes to life when the opening packet arrives. */
export function openStream(connection: Connection, network: CallNetwork, method: MethodDescriptor, metadata: Metadata): SimStream {
  const { client, serverNode } = connection;
  const label = `${method.path} #${network.nextCallId()}`;
  const upwards = new Pipe(network, connection, client.node, serverNode, label);
  const downwards = new Pipe(network, connection, serverNode, client.node, label);
  const clientEnd: SimStream = new SimStream({
    owner: client,
    side: "client",
    outgoing: upwards,
    incoming: downwards,
    encode: (message) => method.encodeRequest(message),
    decode: (bytes) => method.decodeResponse(bytes),
    closed: () => connection.clientSide.delete(clientEnd),
    undecodable: (thrown) => network.undecodable(method.path, thrown),
  });
  if (client.isDead) return clientEnd;
  connection.clientSide.add(clientEnd);
  upwards.send("open", NO_BYTES, () => {
    const listener = connection.bind();
    if (connection.server !== undefined) acceptStream({ connection, network, method, metadata, clientEnd, upwards, downwards }, listener);
  });
  return clientEnd;
}

interface Opening {
  readonly connection: Connection;
  readonly network: CallNetwork;
  readonly method: MethodDescriptor;
  readonly metadata: Metadata;
  readonly clientEnd: SimStream;
  readonly upwards: Pipe;
  readonly downwards: Pipe;
}

function acceptStream(opening: Opening, listener: SimListener | undefined): void {
  const { connection, network, method, metadata, clientEnd, upwards, downwards } = opening;
  const server = connection.server!;
  const gone = new AbortController();
  const served = listener?.method(method.path) ?? method;
  const serverEnd: SimStream = new SimStream({
    owner: server,
    side: "server",
    outgoing: downwards,
    incoming: upwards,
    encode: (message) => served.encodeResponse(message),
    decode: (bytes) => served.decodeRequest(bytes),
    closed: () => {
      connection.serverSide.delete(serverEnd);
      listener?.left(serverEnd);
      gone.abort();
    },
    undecodable: (thrown) => network.undecodable(method.path, thrown),
  });
  serverEnd.join(clientEnd);
  connection.serverSide.add(serverEnd);
  const context: CallContext = { deadlineAtMs: Number.POSITIVE_INFINITY, metadata, peer: connection.client.node, signal: gone.signal };
  server.run(() => {
    try {
      if (listener === undefined) throw new ConcordError("DRAINING", `${connection.address} is going away`);
      listener.accept(method.path, serverEnd, context);
    } catch (thrown) {
      network.inspectError(server, method.path, thrown);
      serverEnd.end(toConcordError(thrown));
    }
  });
}
