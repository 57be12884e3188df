// Whose ids a caller may send, and that equal ids of two sources are two messages, over gRPC with tokens.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { IngestResult } from "@concord/protos-dedup";
import { bearer, type Caller } from "@concord/rpc";
import type { Channel, Metadata, Transport } from "@concord/runtime";
import { dedupWorkerSchema } from "./index.ts";
import { sourceRules } from "./ingest/source-rules.ts";
import { SOURCE_PATTERN } from "./limits.ts";
import { WorkerPeers } from "./partitions/peers.ts";
import { fails, Folder, WorkerFixture, type FixtureOptions } from "./test/worker-fixture.ts";

const statuses = (results: readonly IngestResult[]): string[] => results.map((result) => result.verdict.replace("VERDICT_", ""));
const value = Buffer.from;
const caller = (name: string, role = "client"): object => ({ name, role, token: `token-of-${name}` });
const OPEN: FixtureOptions = { scripted: false, config: { windowIdsMax: 4096 } };
const RESERVED: FixtureOptions = {
  scripted: false,
  config: {
    windowIdsMax: 4096,
    clientToken: "for-clients",
    peerToken: "for-peers",
    callers: ["billing", "orders", "bridge", "other"].map((name) => caller(name)),
    sources: [
      { name: "bills", callers: ["billing", "bridge"] },
      { name: "orders", callers: ["orders", "bridge"] },
    ],
  },
};

test("[DDD13] sources: another producer sends an id first: accepted for each source, a duplicate within it, also after a restart", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(OPEN, folder).start();
  const client = fixture.connect();
  const messages = [{ id: "7" }, { id: "6f1ab5e2-0d6e-4b7f-9f43-aaaaaaaaaaaa" }];
  const sent = async (source: string, from = client): Promise<string> => statuses(await from.ingest(messages, { source })).join();
  assert.equal(await sent("mallory"), "ACCEPTED,ACCEPTED");
  assert.equal(await sent("bills"), "ACCEPTED,ACCEPTED");
  assert.equal(await sent(""), "ACCEPTED,ACCEPTED");
  assert.equal(await sent("bills"), "DUPLICATE,DUPLICATE");
  const seen = async (source: string): Promise<readonly boolean[]> =>
    (await client.call("session", "Seen", { ids: ["7", "8"], source })).seen;
  assert.deepEqual(
    [await seen("bills"), await seen("orders")],
    [
      [true, false],
      [false, false],
    ],
  );
  const [first] = await client.ingest([{ id: "9", value: value("nine") }], { source: "bills" });
  const { messages: read } = await client.read(first!.partition, first!.offset);
  assert.deepEqual([read[0]!.id, read[0]!.source], ["9", "bills"], "consumers learn whose id it is");
  await fixture.service.stop();
  const again = await new WorkerFixture(OPEN, folder.restart()).start();
  assert.equal(await sent("orders", again.connect()), "ACCEPTED,ACCEPTED");
  assert.equal(await sent("mallory", again.connect()), "DUPLICATE,DUPLICATE");
  await again.service.stop();
});

test("[DDD13] sources: reserved ones are for their callers alone; a refused call leaves the logs as they were", async () => {
  const fixture = await new WorkerFixture(RESERVED).start();
  const as = (name: string) => fixture.connect(name === "" ? "for-clients" : `token-of-${name}`);
  const ingest = (name: string, source: string): Promise<readonly IngestResult[]> => as(name).ingest([{ id: "1" }], { source });
  assert.deepEqual(statuses(await ingest("billing", "")), ["ACCEPTED"], "its only source");
  assert.deepEqual(statuses(await ingest("bridge", "bills")), ["DUPLICATE"]);
  assert.deepEqual(statuses(await ingest("orders", "orders")), ["ACCEPTED"]);
  assert.deepEqual(statuses(await ingest("other", "")), ["ACCEPTED"], "ids without a source are not reserved");
  assert.deepEqual(statuses(await ingest("", "open")), ["ACCEPTED"], "a source that has no callers is open to any");
  const before = await fixture.folder.contents();
  for (const [name, source] of [
    ["billing", "orders"],
    ["billing", "open"],
    ["other", "bills"],
    ["", "bills"],
  ] as const) {
    const error = await fails("PERMISSION_DENIED", ingest(name, source), `${name} as ${source}`);
    assert.equal(error.applied, "no");
    await fails("PERMISSION_DENIED", as(name).call("session", "Seen", { ids: ["1"], source }), `${name} asks for ${source}`);
    await fails(
      "PERMISSION_DENIED",
      as(name).ingest([{ id: "1" }], { source, forwarded: true }),
      "a client that says that it passes a call on",
    );
  }
  const several = await fails("MALFORMED_REQUEST", ingest("bridge", ""));
  assert.match(several.message, /one of bills, orders/);
  for (const source of ["a b", "ä", "s".repeat(65), "a/b"]) await fails("MALFORMED_REQUEST", ingest("", source), source);
  assert.equal(await fixture.folder.contents(), before);
  const peer = fixture.connect("for-peers");
  assert.deepEqual(statuses(await peer.ingest([{ id: "1" }], { source: "bills", forwarded: true })), ["DUPLICATE"]);
  await fails("PERMISSION_DENIED", peer.ingest([{ id: "1" }], { source: "bills" }), "not passed on: as any caller without a name");
  await fixture.service.stop();
});

test("[DDD13] sources: ids without a source are reserved: others name one", () => {
  const rules = sourceRules([{ name: "", callers: ["legacy"] }]);
  const legacy: Caller = { role: "client", name: "legacy" };
  assert.equal(rules.sourceFor(legacy, "", false), undefined);
  assert.throws(() => rules.sourceFor(legacy, "new", false), { code: "PERMISSION_DENIED" });
  assert.equal(rules.sourceFor({ role: "client" }, "new", false), "new");
  assert.throws(() => rules.sourceFor({ role: "client" }, "", false), { code: "PERMISSION_DENIED" });
  assert.equal(rules.sourceFor({ role: "peer" }, "", true), undefined, "passed on for legacy");
  assert.deepEqual([rules.areReserved, sourceRules([]).areReserved], [true, false]);
});

test("[DDD13] sources: what is passed on with a source goes as a worker, which a worker without sources refuses", async () => {
  const sent: { readonly request: { readonly source?: string }; readonly token: string | undefined }[] = [];
  const unary = async (_method: unknown, request: object, { metadata }: { readonly metadata?: Metadata }): Promise<object> => {
    sent.push({ request, token: metadata?.["authorization"] });
    return { results: [], seen: [] };
  };
  const transport = { connect: () => ({ unary }) as unknown as Channel } as unknown as Transport;
  const budget = { timeoutMs: 1, signal: new AbortController().signal };
  for (const sourcesReserved of [false, true]) {
    const peers = new WorkerPeers({ transport, nodeName: "a", clientToken: "client", workerToken: "worker", sourcesReserved });
    await peers.ingest("b:1", [], "ACKNOWLEDGE_OUTPUT", "bills", budget);
    await peers.ingest("b:1", [], "ACKNOWLEDGE_OUTPUT", undefined, budget);
    await peers.seen("b:1", [], "bills", budget);
    await peers.seen("b:1", [], undefined, budget);
  }
  const tokens = sent.map(({ token }) => token);
  const [client, worker] = [bearer("client")["authorization"], bearer("worker")["authorization"]];
  assert.deepEqual(tokens, [worker, client, worker, client, worker, worker, worker, worker]);
  assert.deepEqual(new Set(sent.map(({ request }) => request.source)), new Set(["bills", ""]));
});

test("config: sources: names and callers are checked", () => {
  const parse = (sources: readonly object[]): string => {
    const parsed = dedupWorkerSchema.safeParse({ clientToken: "c", callers: [caller("ann"), caller("node", "peer")], sources });
    return parsed.success ? "" : parsed.error.issues.map(({ message }) => message).join();
  };
  assert.equal(parse([{ name: "bills", callers: ["ann"] }]), "");
  assert.equal(parse([{ name: "", callers: ["ann"] }]), "");
  assert.match(parse([{ name: "bills", callers: ["bob"] }]), /bob is no client or operator among callers/);
  assert.match(parse([{ name: "bills", callers: ["node"] }]), /node is no client/);
  const twice = { name: "bills", callers: ["ann"] };
  assert.match(parse([twice, twice]), /two have the same name/);
  assert.notEqual(parse([{ name: "a b", callers: ["ann"] }]), "");
  assert.notEqual(parse([{ name: "bills", callers: [] }]), "");
  assert.ok(SOURCE_PATTERN.test("tenant_1.eu@x-y") && !SOURCE_PATTERN.test(""));
});
