/** Calls of a channel with the types of the contract. */
import type { Method, UnaryMethod } from "@concord/protos";
import { spanOver, TRACEPARENT_KEY, type CallOptions, type Channel, type Span, type StreamOptions } from "@concord/runtime";

/** The client's end of a stream: sends requests, receives responses. See MessageStream. */
export interface TypedStream<RequestInit extends object, Response extends object> {
  send(message: RequestInit): boolean;
  onMessage(listener: (message: Response) => void): void;
  onDrain(listener: () => void): void;
  onEnd(listener: (error: Error | undefined) => void): void;
  end(error?: Error): void;
}

/** One call: `callUnary(channel, RowsService.methods.Read, { keys }, { timeoutMs })`. */
export async function callUnary<M extends UnaryMethod>(
  channel: Channel,
  method: M,
  request: Parameters<M["encodeRequest"]>[0],
  options: CallOptions,
): Promise<ReturnType<M["decodeResponse"]>> {
  const { span } = options;
  const answer = span === undefined ? channel.unary(method, request, options) : tracedUnary(channel, method, request, options, span);
  return (await answer) as ReturnType<M["decodeResponse"]>;
}

function tracedUnary(channel: Channel, method: UnaryMethod, request: object, options: CallOptions, parent: Span): Promise<object> {
  const span = parent.child(method.path.slice(1), "client");
  const metadata = { ...options.metadata, [TRACEPARENT_KEY]: span.traceparent };
  return spanOver(span, channel.unary(method, request, { ...options, metadata }));
}

/** A stream that is no session. */
export function openStream<M extends Method>(
  channel: Channel,
  method: M,
  options: StreamOptions,
): TypedStream<Parameters<M["encodeRequest"]>[0], ReturnType<M["decodeResponse"]>> {
  return channel.stream(method, options) as TypedStream<Parameters<M["encodeRequest"]>[0], ReturnType<M["decodeResponse"]>>;
}
