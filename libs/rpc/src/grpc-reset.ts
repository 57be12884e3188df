import { constants, type ServerHttp2Stream } from "node:http2";
import { assert } from "@concord/runtime";

/**
 * Breaks a server's call off and drops what its client has not taken. A status would wait behind those bytes; to gRPC clients this code of HTTP/2
 * means RESOURCE_EXHAUSTED. grpc-js has no such call of its own: the stream is a field of its call.
 */
export function resetUnread(call: object): void {
  const { stream } = (call as { readonly call: { readonly stream?: ServerHttp2Stream } }).call;
  assert(stream !== undefined, "a call of grpc-js has the stream of HTTP/2 that it is served on");
  stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
}
