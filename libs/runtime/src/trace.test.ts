import assert from "node:assert/strict";
import test from "node:test";
import { parseTraceparent, UNTRACED } from "./trace.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

test("traceparent: of version 00: read, with what its caller decided", () => {
  assert.deepEqual(parseTraceparent(`00-${TRACE}-${SPAN}-01`), { traceId: TRACE, spanId: SPAN, isSampled: true });
  assert.equal(parseTraceparent(`00-${TRACE}-${SPAN}-00`)?.isSampled, false);
  assert.equal(parseTraceparent(`00-${TRACE}-${SPAN}-fe`)?.isSampled, false, "only the last flag says so");
  assert.equal(parseTraceparent(UNTRACED)?.isSampled, false);
});

test("traceparent: of a later version: what is known of it is read", () => {
  assert.equal(parseTraceparent(`01-${TRACE}-${SPAN}-01-more`)?.traceId, TRACE);
});

test("traceparent: not one: read as none", () => {
  const zero = "0";
  for (const text of [
    "",
    "x",
    `00-${TRACE}-${SPAN}`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-011`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${zero.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${zero.repeat(16)}-01`,
    ` 00-${TRACE}-${SPAN}-01`,
  ])
    assert.equal(parseTraceparent(text), undefined, text);
});
