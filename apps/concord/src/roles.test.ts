// Every RPC of every program, called as every role: docs/roles.md is the table of who may.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { nodeHttpServer } from "@concord/adapter-http";
import { nodeClock } from "@concord/adapter-node-runtime";
import { tokensOf } from "@concord/config";
import { composeDedupWorker, dedupWorkerSchema } from "@concord/dedup-worker";
import { composeObjectGateway, objectGatewaySchema } from "@concord/object-gateway";
import { MemoryDisk, MemoryKeyValue } from "@concord/port-contracts";
import type { Method, ServiceContract } from "@concord/protos";
import * as health from "@concord/protos/grpc.health.v1";
import * as reflection from "@concord/protos/grpc.reflection.v1";
import * as reflectionAlpha from "@concord/protos/grpc.reflection.v1alpha";
import * as cluster from "@concord/protos-cluster";
import * as dedup from "@concord/protos-dedup";
import * as ids from "@concord/protos-ids";
import * as object from "@concord/protos-object";
import * as storage from "@concord/protos-storage";
import * as txn from "@concord/protos-txn";
import { bearer, MemoryTransport, SessionClient, startHost, tokenAuthenticator, type Part } from "@concord/rpc";
import { silentLog, silentMetrics, toConcordError, type Channel, type Metadata } from "@concord/runtime";
import { composeStorageProxy, storageProxySchema } from "@concord/storage-proxy";
import { composeTxnCoordinator, txnCoordinatorSchema } from "@concord/txn-coordinator";
import { ACCESS_KEY, environmentOver } from "./test/memory-node.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const ROLES = ["client", "coordinator", "peer", "operator"] as const;
const TOKENS = Object.fromEntries(ROLES.map((role) => [`${role}Token`, `${role}-token`]));
const WORKER_TOKEN = "token-of-workers";
const TIMEOUT_MS = 60_000;

/** Credentials that a caller sends, and its role; undefined: it has none. */
const CALLERS: readonly (readonly [name: string, role: string | undefined, metadata: Metadata])[] = [
  ...ROLES.map((role) => [role, role, bearer(`${role}-token`)] as const),
  ["none", undefined, {}],
  ["unknown", undefined, bearer("guessed")],
];
const WORKER = ["worker", "peer", bearer(WORKER_TOKEN)] as const;

const SERVICES = [health, reflection, reflectionAlpha, cluster, dedup, ids, object, storage, txn]
  .flatMap((exported) => Object.values(exported) as unknown[])
  .filter((one): one is ServiceContract => typeof one === "object" && one !== null && "methods" in one);

interface Row {
  readonly program: string;
  readonly service: string;
  readonly rpc: string;
  readonly roles: readonly string[];
}

const ROWS = readFileSync(join(ROOT, "docs/roles.md"), "utf8")
  .split("\n")
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .filter(([, , service]) => service?.includes("."))
  .flatMap(([, program, service, rpcs, roles]): Row[] =>
    rpcs!.split(" ").map((rpc) => ({ program: program!, service: service!, rpc, roles: roles!.split(" ") })),
  );

/** "service/rpc" of every file below `folder`. */
function rpcsBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".proto"))
    .flatMap((file) => {
      const text = readFileSync(join(folder, file), "utf8");
      const [, scope] = /^package ([\w.]+);/m.exec(text)!;
      let service = "";
      return [...text.matchAll(/^service (\w+)|^ +rpc (\w+)/gm)].flatMap(([, named, rpc]) => {
        service = named ?? service;
        return rpc === undefined ? [] : [`${scope}.${service}/${rpc}`];
      });
    });
}

const network = new MemoryTransport({ clock: nodeClock });
const environment = environmentOver(network);
const MEMBERS = ["a", "b"].map((name) => ({ name, address: `${name}:1`, datacenter: "local" }));

interface Program {
  readonly config: Parameters<typeof tokensOf>[0];
  readonly part: Part<unknown>;
}

const openKeyValue = (): Promise<MemoryKeyValue> => Promise.resolve(new MemoryKeyValue());

/** Programs that will only open: a call of a caller who may is past the check of its role, and gets STARTING. */
const PROGRAMS: Readonly<Record<string, (tokens: object) => Program>> = {
  "storage-proxy": (tokens) => {
    const config = storageProxySchema.parse({ ...tokens, reserveBytes: 0 });
    return { config, part: composeStorageProxy(config, { environment, disk: new MemoryDisk(), openKeyValue }) };
  },
  "txn-coordinator": (tokens) => {
    const config = txnCoordinatorSchema.parse({ ...tokens, storageProxies: MEMBERS });
    return { config, part: composeTxnCoordinator(config, { environment }) };
  },
  "object-gateway": (tokens) => {
    const config = objectGatewaySchema.parse({ ...tokens, reserveBytes: 0, accessKeys: [ACCESS_KEY] });
    const http = nodeHttpServer({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
    return { config, part: composeObjectGateway(config, { environment, disk: new MemoryDisk(), http }) };
  },
  "dedup-worker": (tokens) => {
    const shared = { nodeName: "a", workers: MEMBERS, logFolder: "logs", workerToken: WORKER_TOKEN };
    const config = dedupWorkerSchema.parse({ ...tokens, ...shared, reserveBytes: 0 });
    return { config, part: composeDedupWorker(config, { environment, disk: new MemoryDisk(), openKeyValue }) };
  },
};

interface Opened {
  readonly channel: Channel;
  /** "service/rpc" of what it serves. */
  readonly served: ReadonlySet<string>;
}

async function opened(program: string, tokens: object = TOKENS): Promise<Opened> {
  const { config, part } = PROGRAMS[program]!(tokens);
  const served = new Set<string>();
  const transport: Pick<MemoryTransport, "serve" | "connect"> = {
    serve: (address, methods) => {
      for (const { method } of methods) served.add(method.path.slice(1));
      return network.serve(address, methods);
    },
    connect: (address) => network.connect(address),
  };
  after(() => part.stop());
  const workers = program === "dedup-worker" ? [{ role: "peer", token: WORKER_TOKEN } as const] : [];
  const authenticator = tokenAuthenticator([...tokensOf(config), ...workers]);
  const services = await part.open();
  const host = { transport, address: `${program}:0`, services, clock: nodeClock, log: silentLog, metrics: silentMetrics, authenticator };
  const { address } = await startHost(host);
  return { channel: network.connect(address), served };
}

type Outcome = "may" | "PERMISSION_DENIED" | "UNAUTHENTICATED";

/** Anything but a refusal of the role is an answer to one who may: a peer's Hello of no member is refused for its name. */
function outcomeOf(thrown: unknown): Outcome {
  const { code, metadata } = toConcordError(thrown);
  if (code === "UNAUTHENTICATED") return code;
  return code === "PERMISSION_DENIED" && metadata["allowed"] !== undefined ? code : "may";
}

function expected({ roles }: Pick<Row, "roles">, role: string | undefined): Outcome {
  if (roles[0] === "anyone") return "may";
  if (role === undefined) return "UNAUTHENTICATED";
  return roles.includes(role) ? "may" : "PERMISSION_DENIED";
}

function contractOf({ service }: Row): ServiceContract {
  return SERVICES.find(({ name }) => name === service)!;
}

function operationOf(rpc: string): string {
  return rpc.charAt(0).toLowerCase() + rpc.slice(1);
}

function isInSession({ methods }: ServiceContract, rpc: string): boolean {
  return methods["Session"]?.operations[operationOf(rpc)] !== undefined;
}

function called(channel: Channel, method: Method, metadata: Metadata): Promise<Outcome> {
  const may = (): Outcome => "may";
  if (!method.requestStream) return channel.unary(method, {}, { timeoutMs: TIMEOUT_MS, metadata }).then(may, outcomeOf);
  return new Promise((resolve) => {
    const stream = channel.stream(method, { metadata });
    stream.onMessage(() => resolve("may"));
    stream.onEnd((error) => resolve(error === undefined ? "may" : outcomeOf(error)));
    stream.send({});
    stream.end();
  });
}

async function calledInSession(channel: Channel, contract: ServiceContract, rpc: string, metadata: Metadata): Promise<Outcome> {
  const session = new SessionClient({ channel, contract: contract as ServiceContract<object>, clock: nodeClock, metadata });
  try {
    return await session.callByName(operationOf(rpc), {}, { timeoutMs: TIMEOUT_MS }).then((): Outcome => "may", outcomeOf);
  } finally {
    session.close();
  }
}

test("[SEC2] roles: each RPC of each .proto file has a row, and each row an RPC", () => {
  const declared = [...rpcsBelow(join(ROOT, "protos/concord")), ...rpcsBelow(join(ROOT, "protos/grpc"))];
  assert.ok(declared.length > 80, `${declared.length} RPCs are found`);
  const rows = new Set(ROWS.map(({ service, rpc }) => `${service}/${rpc}`));
  assert.deepEqual([...rows].toSorted(), declared.toSorted());
  const twice = ROWS.map(({ program, service, rpc }) => `${program} ${service}/${rpc}`);
  assert.deepEqual(
    twice.filter((one, at) => twice.indexOf(one) !== at),
    [],
  );
});

for (const program of Object.keys(PROGRAMS)) {
  const rows = ROWS.filter((row) => row.program === program || row.program === "every");
  const callers = program === "dedup-worker" ? [...CALLERS, WORKER] : CALLERS;

  test(`[SEC2] [SEC14] roles: ${program}: each RPC, called as each role, without a token and with an unknown one, alone and in a session`, async () => {
    const { channel, served } = await opened(program);
    assert.deepEqual([...served].toSorted(), rows.map(({ service, rpc }) => `${service}/${rpc}`).toSorted());
    for (const row of rows) {
      const contract = contractOf(row);
      for (const [caller, role, metadata] of callers) {
        const what = `${row.service}/${row.rpc} called as ${caller}`;
        assert.equal(await called(channel, contract.methods[row.rpc]!, metadata), expected(row, role), what);
        if (!isInSession(contract, row.rpc)) continue;
        assert.equal(await calledInSession(channel, contract, row.rpc, metadata), expected(row, role), `${what} in a session`);
      }
    }
    channel.close();
  });

  test(`[SEC2] [SEC14] roles: ${program}: no token of clients: a caller without a token is a client, to each RPC`, async () => {
    const { clientToken, ...others } = TOKENS;
    assert.ok(clientToken !== undefined);
    const { channel } = await opened(program, others);
    for (const row of rows) {
      const method = contractOf(row).methods[row.rpc]!;
      assert.equal(await called(channel, method, {}), expected(row, "client"), `${row.service}/${row.rpc}`);
    }
    channel.close();
  });
}
