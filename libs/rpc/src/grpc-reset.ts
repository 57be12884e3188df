import { constants } from "node:http2";
import { edgeCallOf } from "./grpc-edge.ts";

/**
 * Breaks a server's call off and drops what its client has not taken. A status would wait behind those bytes; to gRPC clients this code of HTTP/2
 * means RESOURCE_EXHAUSTED. grpc-js has no such call of its own.
 */
export function resetUnread(call: object): void {
  edgeCallOf(call).stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
}
