import assert from "node:assert/strict";
import { test } from "node:test";
import { CONNECTIONS_MAX, connectionLimits } from "./connection-limits.ts";

/** What an idle program has open. */
const STORES = 80;

for (const openFilesMax of [256, 512, 1024, 4096, 65_536, 1_048_576]) {
  test(`[OPS8] connection limits: ${openFilesMax} open files: all ports full leave more than half to stores`, () => {
    const { grpc, http, admin } = connectionLimits(openFilesMax);
    const left = openFilesMax - grpc - http - admin;
    assert.ok(left >= STORES && left >= openFilesMax / 2, `${left} are left`);
    for (const limit of [grpc, http, admin]) assert.ok(limit >= 4);
  });
}

test("connection limits: no limit of files: the limits of memory", () => assert.deepEqual(connectionLimits(undefined), CONNECTIONS_MAX));
