import type { MethodDescriptor, ServedMethod } from "@concord/runtime";
import type { Boot, NodeContext } from "./index.ts";

/** Methods made by hand, JSON on the wire. */
export function toyMethod(path: string, isStream = false): MethodDescriptor {
  const encode = (message: object): Uint8Array => Buffer.from(JSON.stringify(message));
  const decode = (bytes: Uint8Array): object => JSON.parse(Buffer.from(bytes).toString()) as object;
  return {
    path,
    requestStream: isStream,
    responseStream: isStream,
    encodeRequest: encode,
    decodeRequest: decode,
    encodeResponse: encode,
    decodeResponse: decode,
  };
}

export const PUT = toyMethod("/toy.Store/Put");
export const GET = toyMethod("/toy.Store/Get");
export const TALK = toyMethod("/toy.Store/Talk", true);

const bytesOf = (text: string): Uint8Array => Buffer.from(text);

/** A small durable store: Put syncs before it answers, Talk echoes numbered messages. */
export function toyStore(address: string): Boot {
  return async (context: NodeContext) => {
    const store = await context.openBacking("main");
    const put: ServedMethod = {
      kind: "unary",
      method: PUT,
      handle: async (request) => {
        const { key, value } = request as { key: string; value: string };
        context.env.failpoint("toy:before-write");
        await store.batch([{ kind: "put", key: bytesOf(key), value: bytesOf(value) }]);
        await store.flush();
        context.env.failpoint("toy:after-write");
        return { ok: true };
      },
    };
    const get: ServedMethod = {
      kind: "unary",
      method: GET,
      handle: async (request) => {
        const [value] = await store.getMany([bytesOf((request as { key: string }).key)]);
        return value === undefined ? {} : { value: Buffer.from(value).toString() };
      },
    };
    const talk: ServedMethod = {
      kind: "stream",
      method: TALK,
      handle: (stream) => {
        stream.onMessage((message) => stream.send(message));
        stream.onEnd((error) => {
          if (error === undefined) stream.end();
        });
      },
    };
    const listener = await context.env.transport.serve(address, [put, get, talk]);
    return { stop: () => listener.drain(1_000) };
  };
}

/** Runs `body` as the only process of a node and answers its result. */
export function clientOf(world: { node(name: string, boot: Boot): void }, name: string): Promise<NodeContext> {
  return new Promise((resolve) => {
    world.node(name, async (context) => resolve(context));
  });
}
