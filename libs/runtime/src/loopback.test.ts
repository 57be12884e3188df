import assert from "node:assert/strict";
import { test } from "node:test";
import { isLoopback } from "./index.ts";

test("loopback: addresses of this machine alone, and those that others reach", () => {
  for (const address of ["127.0.0.1:1", "127.8.0.9:1", "localhost:7100", "[::1]:7100"]) assert.ok(isLoopback(address), address);
  for (const address of ["0.0.0.0:1", "[::]:1", "10.0.0.7:1", "db.internal:1", "127.0.0.1.example.com:1", "localhost.example.com:1"])
    assert.ok(!isLoopback(address), address);
});
