// What this lib signs its own verifier accepts; a changed request it does not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createVerifier, fieldsOf, parseTarget, signRequest } from "./index.ts";

const NOW_MS = Date.UTC(2026, 10, 22, 9, 30);
const KEY = { accessKeyId: "AKID", secretAccessKey: "a-secret/with+signs", region: "eu-test-1" };
const verifier = createVerifier({ region: KEY.region, credential: () => ({ secret: KEY.secretAccessKey, tenant: "mine" }) });
const HOST = "s3.test:9000";

test("signing: a path and a query with characters that are encoded: verified; another key: not", () => {
  for (const target of ["/bucket", "/bucket/a%20b/c%2Bd", "/bucket?list-type=2&prefix=a%2F%C3%A4&max-keys=5"]) {
    const request = { method: "PUT", target, host: HOST, body: Uint8Array.of(1, 2, 3) };
    const signed = Object.entries(signRequest(request, KEY, NOW_MS));
    const sent = { method: "PUT", headers: fieldsOf([["host", HOST] as const, ...signed]) };
    assert.equal(verifier.verify(sent, parseTarget(target, HOST), NOW_MS).tenant, "mine", target);
    const other = Object.entries(signRequest(request, { ...KEY, secretAccessKey: "another-secret" }, NOW_MS));
    assert.throws(() =>
      verifier.verify({ ...sent, headers: fieldsOf([["host", HOST] as const, ...other]) }, parseTarget(target, HOST), NOW_MS),
    );
    assert.throws(() => verifier.verify({ ...sent, method: "GET" }, parseTarget(target, HOST), NOW_MS), /signature/i);
  }
});
