// The watch over real sockets, by a client of the bare contract.
import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { MemoryGroupLog, MemoryRowStore } from "@concord/port-contracts";
import { TopologyService } from "@concord/protos-txn";
import { grpcTransport, openStream } from "@concord/rpc";
import { ConcordError, silentLog, silentMetrics } from "@concord/runtime";
import type { Context } from "./context.ts";
import { composeTxnCoordinator, txnCoordinatorSchema } from "./index.ts";
import { watchTopologyHandler } from "./rpc/watch-topology.ts";
import { CoordinatorFixture } from "./test/coordinator-fixture.ts";

test("[TXD13] watch: over gRPC: the topology at once; when the coordinator stops the stream ends with DRAINING", async () => {
  const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
  const proxies = [{ name: "none", address: "none:1" }];
  const coordinator = composeTxnCoordinator(
    txnCoordinatorSchema.parse({ listenAddress: "127.0.0.1:0", storageProxies: proxies, groupCount: 3 }),
    {
      environment: { ...new CoordinatorFixture().environment(), clock: nodeClock, transport },
      stores: { rows: new MemoryRowStore(), groupLog: new MemoryGroupLog() },
    },
  );
  const { address } = await coordinator.start();
  const channel = transport.connect(address);
  const stream = openStream(channel, TopologyService.methods.WatchTopology, {});
  const first = Promise.withResolvers<void>();
  const ended = new Promise<Error | undefined>((resolve) => stream.onEnd(resolve));
  stream.onMessage(({ topology }) => {
    const { coordinators, groups } = topology!;
    assert.deepEqual(
      coordinators.map((node) => node.address),
      [address],
    );
    assert.deepEqual(
      groups.map(({ id, master, standbys }) => [id, master, standbys.length]),
      [
        ["g0", "txn-coordinator", 0],
        ["g1", "txn-coordinator", 0],
        ["g2", "txn-coordinator", 0],
      ],
    );
    assert.ok(groups.every(({ epoch }) => epoch > 0n));
    first.resolve();
  });
  stream.onDrain(() => undefined);
  stream.send({});
  await first.promise;
  await coordinator.stop();
  const error = await ended;
  assert.ok(error instanceof ConcordError && error.code === "DRAINING", String(error));
  channel.close();
});

test("[TXD13] watch: a client that goes on sending: its messages are taken, and none is kept", async () => {
  let taken = 0;
  const stream = { onMessage: () => void (taken += 1), send: () => Promise.resolve(), sendPage: () => Promise.resolve() };
  const context = { caller: { role: "client" }, metadata: {}, peer: "", signal: AbortSignal.abort() } as const;
  await watchTopologyHandler({} as Context)(stream, context);
  assert.equal(taken, 1, "a stream without a listener keeps what comes for one");
});
