import assert from "node:assert/strict";
import { test } from "node:test";
import { storageProxySchema } from "./index.ts";

const member = (name: string): object => ({ name, address: `${name}:7000`, datacenter: "dc" });
const THREE = ["a", "b", "c"].map(member);

function problemsOf(config: object): string[] {
  const parsed = storageProxySchema.safeParse(config);
  return parsed.success ? [] : parsed.error.issues.map((issue) => issue.message);
}

test("[SEC1] config: nothing given: a node of its own on loopback", () => {
  const config = storageProxySchema.parse({});
  assert.deepEqual([config.ring, config.schemaAuthority, config.listenAddress], [[], "ring", "127.0.0.1:0"]);
});

test("[TXR4] config: rings of 1 and 3 with this node in it: accepted", () => {
  assert.deepEqual(problemsOf({ nodeName: "a", ring: [member("a")] }), []);
  assert.deepEqual(problemsOf({ nodeName: "b", ring: THREE, peerToken: "p" }), []);
});

test("[TXR4] config: any other ring: refused with the reason", () => {
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ nodeName: "a", ring: THREE.slice(0, 2), peerToken: "p" }, /1 or 3 nodes, not 2/],
    [{ nodeName: "a", ring: [...THREE, member("d")], peerToken: "p" }, /1 or 3 nodes, not 4/],
    [{ nodeName: "a", ring: [member("a"), member("a"), member("b")], peerToken: "p" }, /same name/],
    [{ nodeName: "x", ring: THREE, peerToken: "p" }, /x, is not among a, b, c/],
    [{ nodeName: "a", ring: THREE }, /needs a peerToken/],
    [{ nodeName: "a", ring: [{ ...member("a"), weight: 2 }] }, /weight/],
    [{ readTimeoutMs: 0 }, />=1/],
  ];
  for (const [config, expected] of cases) assert.match(problemsOf(config).join("; "), expected);
});

test("config: backend cassandra: its keys, and mistakes in them", () => {
  const contact = { backend: "cassandra", cassandraContactPoints: ["10.0.0.1:9042"] };
  assert.deepEqual(problemsOf({ ...contact, cassandraUsername: "concord", cassandraPassword: "p", cassandraReplicas: { dc1: 3 } }), []);
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ backend: "cassandra" }, /needs nodes to begin with/],
    [{ ...contact, cassandraContactPoints: ["10.0.0.1"] }, /host:port/],
    [{ ...contact, cassandraUsername: "concord" }, /needs cassandraPassword too/],
    [{ ...contact, cassandraPassword: "p" }, /needs cassandraUsername too/],
    [{ ...contact, cassandraKeyspace: "Concord; DROP" }, /lower-case/],
    [{ ...contact, cassandraReplicas: { dc1: 0 } }, />=1/],
  ];
  for (const [config, expected] of cases) assert.match(problemsOf(config).join("; "), expected);
  assert.deepEqual(problemsOf({ cassandraUsername: "concord" }), [], "the ring reads none of them");
});
