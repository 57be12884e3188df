/**
 * The frames of sessions. They have one shape for every service, so they are written from calls and replies, and read into them, without
 * a message that holds them in between.
 */
import { Reader, Writer, type MessageFunctions, type Method, type ServiceContract } from "@concord/protos";
import type { Status, StatusInit } from "@concord/protos/google.rpc";
import { readStatus, writeStatus } from "@concord/protos/google.rpc.codecs";
import { assert, unreachable, type Span } from "@concord/runtime";
import { encodeLimited, limitedMethod } from "./messages.ts";

/** A bigint from 2^53 on only, so that equal ids are equal keys. */
export type CallId = number | bigint;

/** An operation as frames name it. */
export interface FrameOperation {
  /** "logAppend": its oneof case. */
  readonly name: string;
  /** "concord.storage.v1.GroupLogService/Append": its method. */
  readonly method: string;
  readonly callTag: number;
  readonly replyTag: number;
  readonly request: MessageFunctions;
  readonly response: MessageFunctions;
}

/** A call as its client sends it. */
export interface OutgoingCall {
  readonly callId: CallId;
  readonly operation: FrameOperation;
  readonly request: object;
  /** Monotonic milliseconds. */
  readonly deadlineAtMs: number;
  /** Of the call, when it is traced. */
  readonly span: Span | undefined;
}

/** `nowMs` is when it leaves: each call takes with it what is left of its time. */
export interface OutgoingCalls {
  readonly calls: readonly OutgoingCall[];
  readonly nowMs: number;
}

/** A call as its server receives it. */
export interface IncomingCall {
  readonly callId: CallId;
  readonly timeoutMs: number;
  /** Undefined: the call names none of this service. */
  readonly operation: FrameOperation | undefined;
  readonly request: object | undefined;
  /** Undefined: the call has none. */
  readonly traceparent: string | undefined;
}

export type OutgoingReply =
  | { readonly kind: "response"; readonly callId: CallId; readonly operation: FrameOperation; readonly response: object }
  | { readonly kind: "error"; readonly callId: CallId; readonly status: StatusInit }
  | EncodedReply;

/** A reply that waits for its client: nothing else is kept of it. */
export interface EncodedReply {
  readonly kind: "encoded";
  readonly callId: CallId;
  readonly bytes: Uint8Array;
}

/** `credits`: so many more calls the client may send. */
export interface OutgoingReplies {
  readonly replies: readonly OutgoingReply[];
  readonly credits: number;
}

export type IncomingReply =
  | { readonly kind: "response"; readonly callId: CallId; readonly operation: FrameOperation; readonly response: object }
  | { readonly kind: "error"; readonly callId: CallId; readonly status: Status }
  | { readonly kind: "nothing"; readonly callId: CallId };

export interface IncomingReplies {
  readonly replies: readonly IncomingReply[];
  readonly credits: number;
}

/** The list of a frame, calls or replies, and the id in each of them. */
const LIST_TAG = 10;
const CREDITS_TAG = 16;
const CALL_ID_TAG = 8;
const TIMEOUT_TAG = 16;
const ERROR_TAG = 18;
const TRACEPARENT_TAG = 802;
const LENGTH_DELIMITED = 2;

/** A frame is written in one go, so one writer serves all sessions. */
const WRITER = new Writer();

/** The frames of one service. */
export class SessionFrames {
  readonly operations: ReadonlyMap<string, FrameOperation>;
  readonly #method: Method;
  readonly #byCallTag: ReadonlyMap<number, FrameOperation>;
  readonly #byReplyTag: ReadonlyMap<number, FrameOperation>;

  constructor({ name, methods }: ServiceContract) {
    const session = methods["Session"];
    assert(session !== undefined, `${name} has no method Session`);
    assert(session.requestStream && session.responseStream, `${session.path} is no stream of both sides`);
    const operations = Object.values(methods).flatMap((method) => operationOf(session, method));
    this.#method = session;
    this.operations = new Map(operations.map((one) => [one.name, one]));
    this.#byCallTag = new Map(operations.map((one) => [one.callTag, one]));
    this.#byReplyTag = new Map(operations.map((one) => [one.replyTag, one]));
  }

  /** The method as a client uses it: it sends OutgoingCalls of at most `bytesMax` bytes and receives IncomingReplies. */
  clientMethod(bytesMax: number): Method {
    return limitedMethod(
      {
        ...this.#method,
        encodeRequest: (frame, max = Infinity) => WRITER.encode(writeCalls, frame as OutgoingCalls, max),
        decodeResponse: (bytes) => this.#readReplies(new Reader(bytes)),
      },
      bytesMax,
    );
  }

  /** The method as a server uses it: it receives lists of IncomingCall and sends OutgoingReplies of at most `bytesMax` bytes. */
  serverMethod(bytesMax: number): Method {
    return limitedMethod(
      {
        ...this.#method,
        decodeRequest: (bytes) => this.#readCalls(new Reader(bytes)),
        encodeResponse: (frame, max = Infinity) => WRITER.encode(writeReplies, frame as OutgoingReplies, max),
      },
      bytesMax,
    );
  }

  #readCalls(reader: Reader): IncomingCall[] {
    const calls: IncomingCall[] = [];
    while (reader.more) {
      const tag = reader.uint32();
      if (tag === LIST_TAG) {
        const outer = reader.open();
        calls.push(this.#readCall(reader));
        reader.close(outer);
      } else reader.skip(tag);
    }
    return calls;
  }

  #readCall(reader: Reader): IncomingCall {
    let callId: CallId = 0;
    let timeoutMs = 0;
    let operation: FrameOperation | undefined;
    let request: object | undefined;
    let traceparent: string | undefined;
    while (reader.more) {
      const tag = reader.uint32();
      if (tag === CALL_ID_TAG) callId = reader.id64();
      else if (tag === TIMEOUT_TAG) timeoutMs = reader.uint32();
      else if (tag === TRACEPARENT_TAG) traceparent = reader.string();
      else {
        const found = this.#byCallTag.get(tag);
        if (found === undefined) reader.skip(tag);
        else {
          const outer = reader.open();
          operation = found;
          request = found.request.read(reader);
          reader.close(outer);
        }
      }
    }
    return { callId, timeoutMs, operation, request, traceparent: traceparent === "" ? undefined : traceparent };
  }

  #readReplies(reader: Reader): IncomingReplies {
    const replies: IncomingReply[] = [];
    let credits = 0;
    while (reader.more) {
      const tag = reader.uint32();
      if (tag === LIST_TAG) {
        const outer = reader.open();
        replies.push(this.#readReply(reader));
        reader.close(outer);
      } else if (tag === CREDITS_TAG) credits = reader.uint32();
      else reader.skip(tag);
    }
    return { replies, credits };
  }

  #readReply(reader: Reader): IncomingReply {
    let callId: CallId = 0;
    let operation: FrameOperation | undefined;
    let outcome: object | undefined;
    while (reader.more) {
      const tag = reader.uint32();
      if (tag === CALL_ID_TAG) {
        callId = reader.id64();
        continue;
      }
      const found = this.#byReplyTag.get(tag);
      if (found === undefined && tag !== ERROR_TAG) {
        reader.skip(tag);
        continue;
      }
      const outer = reader.open();
      operation = found;
      outcome = found === undefined ? readStatus(reader) : found.response.read(reader);
      reader.close(outer);
    }
    if (outcome === undefined) return { kind: "nothing", callId };
    if (operation === undefined) return { kind: "error", callId, status: outcome as Status };
    return { kind: "response", callId, operation, response: outcome };
  }
}

/** Nothing for the session itself. */
function operationOf(session: Method, method: Method): FrameOperation[] {
  const name = operationName(method.name);
  const fields = session.operations[name];
  if (fields === undefined) return [];
  const { request, response } = method.functions;
  return [{ name, method: method.path.slice(1), callTag: tagOf(fields.call), replyTag: tagOf(fields.reply), request, response }];
}

function tagOf(field: number): number {
  return field * 8 + LENGTH_DELIMITED;
}

/** "LogAppend" -> "logAppend": the name of the method's oneof case in session frames. */
export function operationName(method: string): string {
  return method.charAt(0).toLowerCase() + method.slice(1);
}

/** The last call first: a Writer writes backwards. */
function writeCalls(writer: Writer, { calls, nowMs }: OutgoingCalls): void {
  for (let at = calls.length - 1; at >= 0; at -= 1) {
    const { callId, operation, request, deadlineAtMs, span } = calls[at]!;
    const size = writer.size;
    if (span !== undefined) writer.string(TRACEPARENT_TAG, span.traceparent);
    const sizeBefore = writer.size;
    operation.request.write(writer, request);
    writer.close(operation.callTag, sizeBefore);
    writer.uint32(TIMEOUT_TAG, Math.max(1, Math.ceil(deadlineAtMs - nowMs)));
    writer.id64(CALL_ID_TAG, callId);
    writer.close(LIST_TAG, size);
  }
}

function writeReplies(writer: Writer, { replies, credits }: OutgoingReplies): void {
  if (credits > 0) writer.uint32(CREDITS_TAG, credits);
  for (let at = replies.length - 1; at >= 0; at -= 1) writeReply(writer, replies[at]!);
}

function writeReply(writer: Writer, reply: OutgoingReply): void {
  const size = writer.size;
  switch (reply.kind) {
    case "encoded":
      writer.raw(reply.bytes);
      return;
    case "response":
      reply.operation.response.write(writer, reply.response);
      writer.close(reply.operation.replyTag, size);
      break;
    case "error":
      writeStatus(writer, reply.status);
      writer.close(ERROR_TAG, size);
      break;
    default:
      unreachable(reply);
  }
  writer.id64(CALL_ID_TAG, reply.callId);
  writer.close(LIST_TAG, size);
}

/** Throws what encoding a frame with it alone throws. */
export function encodeReply(reply: OutgoingReply, bytesMax: number): EncodedReply {
  if (reply.kind === "encoded") return reply;
  // A copy: the writer's bytes are a view of a buffer that other frames share.
  const bytes = new Uint8Array(encodeLimited(() => WRITER.encode(writeReply, reply, bytesMax), bytesMax));
  return { kind: "encoded", callId: reply.callId, bytes };
}

/**
 * Sends items as one frame; false: the transport's buffer is full. A frame that `send` throws for is sent as two halves, in their
 * order, so what cannot be sent takes nothing else with it; one item alone goes to `refused`. Sizes are not looked at beforehand:
 * frames hardly ever reach their limit, and encoding stops there.
 */
export function sendInFrames<Item>(
  items: readonly Item[],
  send: (items: readonly Item[]) => boolean,
  refused: (item: Item, thrown: unknown) => void,
): boolean {
  try {
    return send(items);
  } catch (thrown) {
    if (items.length === 1) {
      refused(items[0]!, thrown);
      return true;
    }
  }
  const half = items.length >>> 1;
  const isFree = sendInFrames(items.slice(0, half), send, refused);
  return sendInFrames(items.slice(half), send, refused) && isFree;
}
