// Which node of an engine a fault is for: one that the loads use at that moment, and what shows that it took something from them.
import { setTimeout as sleep } from "node:timers/promises";
import { cassandraNodes, type Constellation, engineAddresses, type Engines, kafkaNames } from "@concord/constellation";
import type { Moved } from "./evidence.ts";
import { busiestBroker, countOf, kafkaPlacement, movedFrom, type Pipeline, type Placement } from "./kafka-placement.ts";
import { unreadRequests, type Unread } from "./unread-requests.ts";

export const ENGINES = ["cassandra", "kafka", "ceph"] as const;
export type EngineName = (typeof ENGINES)[number];

/** A fault is of one node of several: the replicas that the one before it left behind have caught up. */
const IN_SYNC_WITHIN_MS = 120_000;
const IN_SYNC_POLL_MS = 250;
/** How long a node that stands still is looked at until requests wait in it. */
const UNREAD_WITHIN_MS = 2_000;
const UNREAD_POLL_MS = 20;

export interface Target {
  readonly engine: EngineName;
  /** undefined: all of it. */
  readonly node: string | undefined;
}

export interface Victim extends Target {
  /** Why it, for the printed line. */
  readonly role: string;
  /** What waits for it, while it stands still. */
  readonly unread: () => Unread | undefined;
  /** What others have taken over from it by now. */
  readonly moved: () => Promise<Moved | undefined>;
}

export interface FaultContext {
  readonly constellation: Constellation;
  readonly engines: Engines;
  readonly dataFolder: string;
}

export function nameOf({ engine, node }: Target): string {
  return node === undefined ? engine : `${engine} ${node}`;
}

/** Asked just before the fault: where leaders are changes with each. */
export async function chooseVictim(engine: EngineName, context: FaultContext): Promise<Victim> {
  switch (engine) {
    case "ceph":
      return { engine, node: "osd", role: "the only one", unread: () => undefined, moved: async () => undefined };
    case "cassandra":
      return coordinatingNode(context);
    case "kafka":
      return leadingBroker(context);
  }
}

/** Every node has a replica of every row; the storage-proxies ask those of their own datacenter to coordinate. */
function coordinatingNode({ constellation, engines }: FaultContext): Victim {
  const addresses = engineAddresses("cassandra", engines.folder);
  const proxies = constellation.nodes.filter(({ service }) => service === "storage-proxy").map(({ datacenter }) => datacenter);
  const { at, asking } = coordinatorOf(cassandraNodes(engines.folder), proxies);
  return {
    engine: "cassandra",
    node: String(at + 1),
    role: `coordinates for ${asking} of ${proxies.length} storage-proxies`,
    unread: () => unreadRequests(addresses[at]!, pidsOf(constellation)),
    moved: async () => undefined,
  };
}

/** Which node most proxies ask first, by the datacenters of nodes and of proxies; of equals the last. Of one datacenter every node is asked by all. */
export function coordinatorOf(nodes: readonly string[], proxies: readonly string[]): { readonly at: number; readonly asking: number } {
  const isOne = new Set(nodes).size === 1;
  const asking = nodes.map((datacenter) => (isOne ? proxies.length : proxies.filter((each) => each === datacenter).length));
  const most = Math.max(...asking);
  return { at: asking.lastIndexOf(most), asking: most };
}

async function leadingBroker({ constellation, engines, dataFolder }: FaultContext): Promise<Victim> {
  const addresses = engineAddresses("kafka", engines.folder);
  const { pipeline: name, topics, partitions } = kafkaNames(engines, dataFolder);
  // As libs/adapter-kafka names them.
  const pipeline: Pipeline = { topics, transactionalIds: Array.from({ length: partitions }, (_, partition) => `${name}/${partition}`) };
  const before = await placementInSync(addresses, pipeline);
  const broker = busiestBroker(before);
  const [led, coordinated] = [countOf(before.leaders, broker), countOf(before.coordinators, broker)];
  const others = addresses.filter((_, at) => at + 1 !== broker);
  const moved = async (): Promise<Moved | undefined> => {
    if (others.length === 0) return undefined;
    const after = await kafkaPlacement(others, pipeline);
    return {
      partitions: movedFrom(broker, before.leaders, after.leaders),
      ofPartitions: led,
      coordinated: movedFrom(broker, before.coordinators, after.coordinators),
      ofCoordinated: coordinated,
    };
  };
  return {
    engine: "kafka",
    node: String(broker),
    role: `leads ${led} of ${before.leaders.size} loaded partitions, coordinates ${coordinated} of ${before.coordinators.size} transactional ids`,
    unread: () => unreadRequests(addresses[broker - 1]!, pidsOf(constellation)),
    moved,
  };
}

async function placementInSync(addresses: readonly string[], pipeline: Pipeline): Promise<Placement> {
  const endsAt = performance.now() + IN_SYNC_WITHIN_MS;
  for (;;) {
    const placement = await kafkaPlacement(addresses, pipeline);
    if (placement.lagging === 0) return placement;
    if (performance.now() > endsAt)
      throw new Error(`${placement.lagging} partitions have a replica that is behind after ${IN_SYNC_WITHIN_MS / 1000} s`);
    await sleep(IN_SYNC_POLL_MS);
  }
}

function pidsOf(constellation: Constellation): readonly number[] {
  return constellation.nodes.flatMap(({ name }) => constellation.process(name).pid ?? []);
}

/** What of the services waits in a node that stands still, as soon as something does, or after a short time. */
export async function whenUnread({ unread }: Pick<Victim, "unread">): Promise<Unread | undefined> {
  const endsAt = performance.now() + UNREAD_WITHIN_MS;
  for (;;) {
    const found = unread();
    if (found === undefined || found.connections > 0 || performance.now() > endsAt) return found;
    await sleep(UNREAD_POLL_MS);
  }
}
