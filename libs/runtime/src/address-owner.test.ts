import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOwner } from "./address-owner.ts";

for (const [address, owner] of [
  ["10.0.0.1", "10.0.0.1"],
  ["::ffff:10.0.0.1", "10.0.0.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:0db8:1:2::9", "2001:db8:1:2"],
  ["2001:db8::1", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["fe80::1%eth0", "fe80:0:0:0"],
  [undefined, "unknown"],
] as const) {
  test(`address owner: ${address}: ${owner}`, () => assert.equal(addressOwner(address), owner));
}
