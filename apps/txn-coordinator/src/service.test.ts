// The life of a coordinator's host around that of its groups.
import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { TopologyService } from "@concord/protos-txn";
import { IdService } from "@concord/protos-ids";
import { callUnary, defineService, MemoryTransport, tokenAuthenticator } from "@concord/rpc";
import { ConcordError, silentLog, silentMetrics, StartWaits } from "@concord/runtime";
import { TxnCoordinatorService, type TxnCoordinatorServiceOptions } from "./service.ts";

const ADDRESS = "coordinator:1";

test("[TX13] drain: a coordinator that is heard over gRPC alone: it is heard until its groups have stopped, while new calls get DRAINING", async (t) => {
  const transport = new MemoryTransport({ clock: nodeClock });
  const environment = { clock: nodeClock, log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator([]) };
  const groups = Promise.withResolvers<void>();
  const none = (): never => assert.fail("not called");
  const topology = defineService(
    {
      contract: TopologyService,
      unary: { GetTopology: () => ({}) },
      streams: { WatchTopology: none },
      roles: ["client"],
    } as unknown as Parameters<typeof defineService<TopologyService>>[0],
    environment,
  );
  // Any service does for heartbeats.
  const heartbeats = defineService(
    { contract: IdService, unary: { Generate: () => ({ ranges: [], workerId: 0 }) }, roles: ["client"] },
    environment,
  );
  heartbeats.setState("serving");
  const nothing = (): void => undefined;
  const service = new TxnCoordinatorService({
    log: silentLog,
    groups: {
      own: [],
      ready: true,
      boundTo: nothing,
      start: () => Promise.resolve(),
      units: { handOver: () => Promise.resolve() },
      stop: () => groups.promise,
    },
    schema: { reload: () => Promise.resolve() },
    stalls: { start: nothing, stop: nothing },
    startWaits: new StartWaits({ clock: nodeClock, log: silentLog }),
    drainGraceMs: 100,
    services: [topology],
    heartbeats: [heartbeats],
    host: { transport, clock: nodeClock, log: silentLog, address: ADDRESS, reflection: false },
    stopIds: nothing,
    close: nothing,
  } as unknown as TxnCoordinatorServiceOptions);
  t.after(() => {
    groups.resolve();
    return service.stop();
  });
  await service.start();
  const channel = transport.connect(ADDRESS);
  const beat = (): Promise<object> => callUnary(channel, IdService.methods.Generate, {}, { timeoutMs: 5_000 });
  const ask = (): Promise<object> => callUnary(channel, TopologyService.methods.GetTopology, {}, { timeoutMs: 5_000 });
  const isCode =
    (code: string) =>
    (thrown: unknown): boolean =>
      thrown instanceof ConcordError && thrown.code === code;
  await ask();
  const stopped = service.stop();
  await assert.rejects(async () => {
    for (;;) await ask();
  }, isCode("DRAINING"));
  await beat();
  groups.resolve();
  await stopped;
  await assert.rejects(beat(), isCode("CONNECTION_LOST"));
});
