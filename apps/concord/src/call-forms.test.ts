// Every call between the services in both forms, direct and over gRPC: one suite, the same answers.
import { after, describe, test } from "node:test";
import { ProxyChannels, StorageProxyGroupLog, StorageProxyRows } from "@concord/adapter-storage-proxy";
import { TransactionMetadata } from "@concord/adapter-transaction-metadata";
import { connectThrough } from "@concord/client";
import { nodeClock } from "@concord/adapter-node-runtime";
import { groupLogContract, MemoryKeyValue, objectMetadataContract, rowStoreContract } from "@concord/port-contracts";
import type { GroupLog, ObjectMetadata, RowStore } from "@concord/ports";
import { localTransport } from "@concord/rpc";
import type { Transport } from "@concord/runtime";
import { composeStorageProxy, storageProxySchema } from "@concord/storage-proxy";
import { environmentOver, memoryConfig, MemoryNode, network } from "./test/memory-node.ts";

const COORDINATOR = "coordinator-secret";
const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

interface Stores {
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
}

interface Proxy extends Stores {
  restart(): Promise<Proxy>;
}

/** What a txn-coordinator calls: the stores of a storage-proxy in its process, or behind its services. */
async function proxy(form: "direct" | "over gRPC", store = new MemoryKeyValue()): Promise<Proxy> {
  const environment = environmentOver(network());
  const config = storageProxySchema.parse({ coordinatorToken: COORDINATOR, reflection: false, drainGraceMs: 200 });
  const service = composeStorageProxy(config, { environment, openKeyValue: () => Promise.resolve(store) });
  const { address } = await service.start();
  const stores = form === "direct" ? service.stores : remoteStores(address);
  closers.push(() => service.stop());
  return { ...stores, restart: () => service.stop().then(() => proxy(form, new MemoryKeyValue(store.crash()))) };
}

function remoteStores(address: string): Stores {
  const channels = new ProxyChannels({
    proxies: [{ name: "proxy", address, datacenter: "local" }],
    datacenter: "local",
    transport: network(),
    clock: nodeClock,
    coordinatorToken: COORDINATOR,
  });
  const stores = { rows: new StorageProxyRows(channels), groupLog: new StorageProxyGroupLog(channels) };
  closers.push(() => [stores.rows, stores.groupLog, channels].forEach((open) => open.close()));
  return stores;
}

for (const form of ["direct", "over gRPC"] as const) {
  describe(`txn-coordinator to storage-proxy, ${form}`, () => {
    rowStoreContract(test, async () => (await proxy(form)).rows);
    groupLogContract(test, async () => {
      let last = await proxy(form);
      return {
        log: last.groupLog,
        restart: async () => {
          last = await last.restart();
          return last.groupLog;
        },
      };
    });
  });
}

/** What an object-gateway calls: the transactions of its own process, or of a node elsewhere. */
async function metadata(
  transportOf: (of: Transport) => Transport,
): Promise<{ metadata: ObjectMetadata; crash(): Promise<ObjectMetadata> }> {
  const transport = localTransport({ clock: nodeClock, network: network() });
  const node = new MemoryNode(memoryConfig(), transport);
  closers.push(() => node.stop());
  const open = async ({ address }: { address: string }): Promise<ObjectMetadata> => {
    const environment = { ...node.environment, transport: transportOf(transport) };
    const client = await connectThrough({ coordinators: [address], timeoutMs: 10_000 }, environment);
    closers.push(() => client.close());
    const opened = new TransactionMetadata({ client });
    await opened.createTables(nodeClock);
    return opened;
  };
  return { metadata: await open(await node.start()), crash: async () => open(await node.restart()) };
}

describe("[OGD16] object-gateway to txn-coordinator, in the process", () => {
  objectMetadataContract(test, () => metadata((transport) => transport));
});

describe("[OGD16] object-gateway to txn-coordinator, over gRPC", () => {
  objectMetadataContract(test, () => metadata(() => network()));
});
