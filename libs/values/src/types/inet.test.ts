// RFC 4291 and RFC 5952 by their own examples.
import assert from "node:assert/strict";
import { isIP } from "node:net";
import { test } from "node:test";
import fc from "fast-check";
import { inet } from "./inet.ts";

const texts: readonly (readonly [string, string])[] = [
  ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
  ["2001:0DB8:0000:0000:0000:0000:0002:0001", "2001:db8::2:1"],
  ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
  ["0:0:0:0:0:0:0:0", "::"],
  ["0:0:0:0:0:0:0:1", "::1"],
  ["fe80::", "fe80::"],
  ["64:ff9b::192.0.2.33", "64:ff9b::c000:221"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::ffff:c000:201", "192.0.2.1"],
  ["::192.0.2.1", "::c000:201"],
  ["255.255.255.255", "255.255.255.255"],
];

test("inet: texts of an address: one form is given back (RFC 5952)", () => {
  for (const [text, form] of texts) assert.equal(inet.toJavaScript(inet.fromJavaScript(text)!), form, text);
});

test("inet: any address: its text is one that node:net knows, and the address again", () => {
  const group = fc.oneof(fc.constant(0), fc.constant(0), fc.nat(0xffff));
  fc.assert(
    fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), (groups) => {
      const content = inet.canonical(Uint8Array.from(groups.flatMap((one) => [one >> 8, one & 255])));
      const text = inet.toJavaScript(content);
      assert.equal(isIP(text), content.length === 4 ? 4 : 6);
      assert.deepEqual(inet.fromJavaScript(text), content);
    }),
  );
});

test("inet: any text: an address to node:net and to us, or to neither; zones are refused", () => {
  const unit = fc.constantFrom("0", "1", "f", "ff", "25", "255", "256", ":", "::", ".", "1.2.3.4", "%1", "g", "/");
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 17 }), (units) => {
      const text = units.join("");
      assert.equal(inet.fromJavaScript(text) !== undefined, isIP(text) !== 0 && !text.includes("%"), text);
    }),
    { numRuns: 5000 },
  );
});
