// The ObjectMetadata contract, kept by composed coordinators and proxies in a simulated world.
import { test } from "node:test";
import { TransactionMetadata } from "@concord/adapter-transaction-metadata";
import { OBJECT_METADATA_CASES } from "@concord/port-contracts";
import type { MetadataCommit, MetadataOutcome, MetadataRow, ObjectMetadata } from "@concord/ports";
import { Cluster, COORDINATORS, PROXIES, type Client } from "./cluster.ts";

/** Another part of the same tables for each case. */
class Apart implements ObjectMetadata {
  readonly #metadata: ObjectMetadata;
  readonly #name: string;

  constructor(metadata: ObjectMetadata, name: string) {
    this.#metadata = metadata;
    this.#name = name;
  }

  read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    return this.#metadata.read(this.#name + partition, keys);
  }

  range(partition: string, range: Parameters<ObjectMetadata["range"]>[1]): Promise<readonly MetadataRow[]> {
    return this.#metadata.range(this.#name + partition, range);
  }

  readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    return this.#metadata.readCounters(this.#name + partition, key);
  }

  commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.#metadata.commit({ ...commit, partition: this.#name + commit.partition });
  }
}

interface Constellation {
  readonly cluster: Cluster;
  readonly client: Client;
  readonly metadata: TransactionMetadata;
}

async function start(): Promise<Constellation> {
  const cluster = new Cluster("object-metadata", { keepTrace: false });
  cluster.startProxies("coordinator");
  cluster.startCoordinators();
  const client = await cluster.client("gateway", { coordinators: cluster.coordinatorAddresses, timeoutMs: 30_000 });
  const metadata = new TransactionMetadata({ client: client.db, timeoutMs: 60_000 });
  await cluster.world.complete(metadata.createTables(client.env.clock), 60_000);
  return { cluster, client, metadata };
}

const started = start();

/** All machines lose their power at once. */
async function blackout({ cluster: { world }, metadata }: Constellation): Promise<ObjectMetadata> {
  for (const name of [...PROXIES, ...COORDINATORS]) world.crash(name, "power");
  for (const name of [...PROXIES, ...COORDINATORS]) world.start(name);
  return metadata;
}

for (const [at, contractCase] of OBJECT_METADATA_CASES.entries()) {
  test(`[OGD16] ObjectMetadata contract: transactions: ${contractCase.name}`, async () => {
    const constellation = await started;
    const name = `case-${at}/`;
    const metadata = new Apart(constellation.metadata, name);
    const crash = async (): Promise<ObjectMetadata> => new Apart(await blackout(constellation), name);
    await constellation.cluster.world.complete(
      contractCase.run(async () => ({ metadata, crash })),
      600_000,
    );
  });
}
