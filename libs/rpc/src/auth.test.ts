import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { bearer, tokenAuthenticator } from "./auth.ts";

const refused = { name: "ConcordError", code: "UNAUTHENTICATED" };

test("[SEC2] auth: no token for clients: anonymous callers are clients, known tokens their role, unknown ones no role", () => {
  const authenticator = tokenAuthenticator([{ role: "peer", token: "p" }]);
  assert.equal(authenticator.authenticate({}).role, "client");
  assert.equal(authenticator.authenticate(bearer("p")).role, "peer");
  assert.throws(() => authenticator.authenticate(bearer("q")), refused);
  assert.throws(() => authenticator.authenticate({ authorization: "Basic p" }), refused);
  assert.throws(() => authenticator.authenticate({ authorization: "" }), refused);
});

test("[SEC2] auth: a token for clients: anonymous callers are refused; several tokens of one role all work", () => {
  const authenticator = tokenAuthenticator([
    { role: "client", token: "old" },
    { role: "client", token: "new" },
  ]);
  assert.throws(() => authenticator.authenticate({}), refused);
  assert.equal(authenticator.authenticate(bearer("old")).role, "client");
  assert.equal(authenticator.authenticate(bearer("new")).role, "client");
});

test("auth: an empty token in the configuration: refused at start", () => {
  assert.throws(() => tokenAuthenticator([{ role: "peer", token: "" }]), ConcordError);
});
