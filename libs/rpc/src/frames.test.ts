// Frames are written and read without their messages: what the contract's own codec reads and writes says whether that is right.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceContract } from "@concord/protos";
import type { EchoServiceReply, EchoServiceSessionRequestInit, EchoServiceSessionResponseInit } from "@concord/protos-test";
import { UNTRACED, type Span } from "@concord/runtime";
import fc from "fast-check";
import {
  SessionFrames,
  type IncomingCall,
  type IncomingReplies,
  type IncomingReply,
  type OutgoingCalls,
  type OutgoingReplies,
} from "./frames.ts";
import { EchoService } from "./test/echo.ts";

const session = EchoService.methods.Session;
const frames = new SessionFrames(EchoService as unknown as ServiceContract);
const client = frames.clientMethod(1 << 20);
const server = frames.serverMethod(1 << 20);
const operation = (name: string) => frames.operations.get(name)!;

/** Of a frame nothing else is asked of it. */
const spanOf = (traceparent: string): Span => ({ traceparent }) as Span;

const callIds = fc.oneof(fc.bigInt(1n, 300n), fc.bigInt(2n ** 53n - 2n, 2n ** 53n + 2n), fc.bigInt(2n ** 63n, 2n ** 64n - 1n));
const keyOf = (id: bigint): number | bigint => (id < 2n ** 53n ? Number(id) : id);
const echo = fc.record({ text: fc.string(), number: fc.bigInt(0n, 2n ** 64n - 1n), payload: fc.uint8Array({ maxLength: 200 }) });
const outcomes = fc.oneof(
  echo.map((value) => ({ name: "echo" as const, value })),
  fc.bigInt(0n, 2n ** 64n - 1n).map((seq) => ({ name: "logAppend" as const, value: { seq } })),
);
const status = fc.record({ code: fc.nat(16), message: fc.string() }).map((one) => ({ ...one, details: [] }));
const buffers = (value: object): object =>
  Object.fromEntries(Object.entries(value).map(([name, one]) => [name, one instanceof Uint8Array ? Buffer.from(one) : (one as unknown)]));

test("frames: any calls of a client: the contract reads the same calls, each with what is left of its time", () => {
  const call = fc.record({ callId: callIds, outcome: outcomes, leftMs: fc.nat(100_000), traceparent: fc.constantFrom("", UNTRACED) });
  fc.assert(
    fc.property(fc.array(call, { maxLength: 10 }), (calls) => {
      const frame: OutgoingCalls = {
        calls: calls.map(({ callId, outcome, leftMs, traceparent }) => ({
          callId: keyOf(callId),
          operation: operation(outcome.name),
          request: outcome.value,
          deadlineAtMs: 5000.25 + leftMs,
          span: traceparent === "" ? undefined : spanOf(traceparent),
        })),
        nowMs: 5000.75,
      };
      const read = session.decodeRequest(client.encodeRequest(frame)).calls;
      assert.deepEqual(
        read.map((one) => ({ ...one, echo: one.echo === undefined ? undefined : buffers(one.echo) })),
        calls.map(({ callId, outcome: { name, value }, leftMs, traceparent }) => ({
          callId,
          timeoutMs: Math.max(1, leftMs),
          traceparent,
          operation: name,
          echo: name === "echo" ? buffers({ colour: "COLOUR_UNSPECIFIED", ...value }) : undefined,
          ...(name === "logAppend" && { logAppend: value }),
        })),
      );
    }),
  );
});

test("frames: any calls of the contract: the server reads the same", () => {
  const call = fc.record({
    callId: callIds,
    timeoutMs: fc.nat(),
    outcome: fc.option(outcomes, { nil: undefined }),
    traceparent: fc.constantFrom("", UNTRACED),
  });
  fc.assert(
    fc.property(fc.array(call, { maxLength: 10 }), (calls) => {
      const message: EchoServiceSessionRequestInit = {
        calls: calls.map(({ callId, timeoutMs, outcome, traceparent }) => ({
          callId,
          timeoutMs,
          traceparent,
          ...(outcome && { [outcome.name]: outcome.value }),
        })),
        credits: 7,
      };
      const bytes = session.encodeRequest(message);
      const read = server.decodeRequest(bytes) as readonly IncomingCall[];
      const expected = session.decodeRequest(bytes).calls.map((one) => ({
        callId: keyOf(one.callId),
        timeoutMs: one.timeoutMs,
        operation: one.operation === undefined ? undefined : operation(one.operation),
        request: one.operation === undefined ? undefined : one[one.operation],
        traceparent: one.traceparent === "" ? undefined : one.traceparent,
      }));
      assert.deepEqual(read, expected);
    }),
  );
});

const replies = fc.array(
  fc.record({
    callId: callIds,
    outcome: fc.oneof(
      outcomes,
      status.map((value) => ({ name: "error" as const, value })),
    ),
  }),
  {
    maxLength: 10,
  },
);

test("frames: any replies of a server: the contract reads the same replies and credits", () => {
  fc.assert(
    fc.property(replies, fc.nat(), (given, credits) => {
      const frame: OutgoingReplies = {
        replies: given.map(({ callId, outcome }) =>
          outcome.name === "error"
            ? { kind: "error", callId: keyOf(callId), status: outcome.value }
            : { kind: "response", callId: keyOf(callId), operation: operation(outcome.name), response: outcome.value },
        ),
        credits,
      };
      const expected: EchoServiceSessionResponseInit = {
        replies: given.map(({ callId, outcome: { name, value } }) => ({ callId, [name]: value })),
        credits,
      };
      const bytes = server.encodeResponse(frame);
      assert.deepEqual(session.decodeResponse(bytes), session.decodeResponse(session.encodeResponse(expected)));
    }),
  );
});

test("frames: any replies of the contract: the client reads the same replies and credits", () => {
  const expectedOf = (reply: EchoServiceReply): IncomingReply => {
    const callId = keyOf(reply.callId);
    if (reply.outcome === undefined) return { kind: "nothing", callId };
    if (reply.outcome === "error") return { kind: "error", callId, status: reply.error };
    return { kind: "response", callId, operation: operation(reply.outcome), response: reply[reply.outcome]! };
  };
  fc.assert(
    fc.property(replies, fc.nat(), (given, credits) => {
      const bytes = session.encodeResponse({
        replies: [...given.map(({ callId, outcome: { name, value } }) => ({ callId, [name]: value })), { callId: 9n }],
        credits,
      });
      const read = client.decodeResponse(bytes) as IncomingReplies;
      assert.deepEqual(read, { replies: session.decodeResponse(bytes).replies.map(expectedOf), credits });
    }),
  );
});

test("frames: a traced call: field 100 beside the operation, in these bytes; one that is not traced has none", () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const call = { callId: 6, operation: operation("echo"), request: {}, deadlineAtMs: 50 };
  const bytesOf = (span: Span | undefined): string =>
    Buffer.from(client.encodeRequest({ calls: [{ ...call, span }], nowMs: 0 })).toString("hex");
  const head = "08061032";
  const text = Buffer.from(traceparent).toString("hex");
  assert.equal(bytesOf(undefined), `0a06${head}1a00`);
  assert.equal(bytesOf(spanOf(traceparent)), `0a40${head}1a00a20637${text}`);
});

test("frames: fields of a newer contract, and the id behind the operation: read over, and found", () => {
  const call = Buffer.concat([Buffer.from([0x7a, 2, 9, 9, 0x1a, 2, 0x10, 5]), Buffer.from([0x98, 1, 3, 0x10, 50, 0x08, 6])]);
  const frame = Buffer.concat([Buffer.from([0x22, 1, 0, 0x0a, call.length]), call]);
  const [read] = server.decodeRequest(frame) as readonly IncomingCall[];
  assert.deepEqual([read!.callId, read!.timeoutMs, read!.operation?.name], [6, 50, "echo"]);
  assert.equal((read!.request as { number: bigint }).number, 5n);
});
