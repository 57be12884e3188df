import { TransactionService } from "@concord/protos-txn";
import { callUnary } from "@concord/rpc";
import { newTimeIdBytes, sleep, type Channel, type Environment } from "@concord/runtime";
import { place } from "@concord/ownership";
import { evenGroupMap, groupIdOf } from "@concord/schema";
import { datacenterOf, type Cluster } from "../cluster.ts";

export const PROBES_TABLE = "CREATE TABLE probes (entity bigint, k bigint, PRIMARY KEY (entity, k))";
const PROBE_EVERY_MS = 40;
const PROBE_TIMEOUT_MS = 200;
const ENTITIES_TRIED = 1_000n;
/** A standby whose master took the group back stands down within this time, when nothing keeps it from asking the log. */
const STAND_DOWN_MAX_MS = 1_000;

interface Served {
  readonly epoch: bigint;
  /** Place in the ranks of the group: its master is 0 (TX16). */
  readonly rank: number;
  readonly atMs: number;
}

/** A group as the watch sees it. */
interface Watched {
  readonly group: string;
  /** An entity of its tokens. */
  readonly entity: bigint;
  readonly ranks: readonly string[];
  /** The newest epoch under which a transaction was opened, since when. */
  newest: Served | undefined;
  /** When the newest probe that was answered had been sent. */
  servedAtMs: number;
}

/**
 * Opens a transaction of each group at each coordinator all the time, and judges who answers. Once a standby has opened one, those before it in
 * the ranks open none under an older epoch: they stopped before it may act (TX14). A standby whose master is back stands down soon (TX17).
 */
export class GroupWatch {
  readonly #cluster: Cluster;
  readonly #groups: readonly Watched[];
  #sequence = 0n;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#groups = watchedGroups(cluster);
  }

  /** From a machine of its own, which no partition cuts off. */
  start(): void {
    const { world, coordinators, coordinatorAddresses } = this.#cluster;
    world.node("watch", async ({ env }) => {
      for (const [at, address] of coordinatorAddresses.entries()) {
        const channel = env.transport.connect(address);
        for (const watched of this.#groups) void this.#probeOn(env, channel, watched, watched.ranks.indexOf(coordinators[at]!));
      }
    });
  }

  /** Of each group: its master, then its standbys. */
  get ranks(): readonly (readonly string[])[] {
    return this.#groups.map(({ ranks }) => ranks);
  }

  /** Groups of which no transaction begun since then was opened. */
  unserved(sinceMs: number): string[] {
    return this.#groups.filter(({ servedAtMs }) => servedAtMs < sinceMs).map(({ group }) => group);
  }

  async #probeOn(env: Environment, channel: Channel, watched: Watched, rank: number): Promise<never> {
    for (;;) {
      await this.#probe(env, channel, watched, rank);
      await sleep(env.clock, PROBE_EVERY_MS);
    }
  }

  async #probe(env: Environment, channel: Channel, watched: Watched, rank: number): Promise<void> {
    const { world, swarm } = this.#cluster;
    const transactionId = newTimeIdBytes(env.clock, env.random);
    this.#sequence += 1n;
    const key = { table: "probes", partition: [{ bigintValue: watched.entity }], clustering: [{ bigintValue: this.#sequence }] };
    const sentAtMs = world.nowMs;
    const before = watched.newest;
    const timeoutMs = PROBE_TIMEOUT_MS + swarm.network.spikeUs / 1000;
    const start = { operation: { transactionId, number: 1 }, key, skipRead: true };
    try {
      const { epoch } = await callUnary(channel, TransactionService.methods.Start, start, { timeoutMs });
      watched.servedAtMs = Math.max(watched.servedAtMs, sentAtMs);
      this.#judge(watched, before, { epoch, rank, atMs: sentAtMs });
    } catch {
      return;
    }
    const rollback = { operation: { transactionId, number: 2 } };
    await callUnary(channel, TransactionService.methods.Rollback, rollback, { timeoutMs }).catch(() => undefined);
  }

  #judge(watched: Watched, before: Served | undefined, now: Served): void {
    const { world } = this.#cluster;
    if (before !== undefined && isOld(before, now, world.isHealed)) {
      const [older, newer] = [now, before].map(({ epoch, rank }) => `${watched.ranks[rank]} under epoch ${epoch}`);
      world.violation("old master", `${watched.group} was opened at ${older} after ${newer} had opened it at ${before.atMs} ms`);
    }
    if (watched.newest !== undefined && now.epoch <= watched.newest.epoch) return;
    if (watched.newest !== undefined && watched.newest.rank !== now.rank) world.count("sim:masters-moved");
    watched.newest = { ...now, atMs: world.nowMs };
  }
}

/** May `now` not be, although it was asked after `newest` had answered? */
function isOld(newest: Served, now: Served, isHealed: boolean): boolean {
  if (now.epoch === newest.epoch) return now.rank !== newest.rank;
  if (now.epoch > newest.epoch) return false;
  return now.rank <= newest.rank || (isHealed && now.atMs > newest.atMs + STAND_DOWN_MAX_MS);
}

/** Each group with an entity of its range. */
function watchedGroups({ swarm, coordinators }: Cluster): Watched[] {
  const { groups, ...map } = evenGroupMap(swarm.groupCount, swarm.masters === "spread" ? coordinators : coordinators.slice(0, 1));
  const members = coordinators.map((name, at) => ({ name, datacenter: datacenterOf(at) }));
  const before = new Map(groups.map(({ id, master }) => [id, [master]]));
  const placement = place([...before.keys()], members, { ranks: coordinators.length, before, owners: swarm.masters });
  const entities = new Map<string, bigint>();
  for (let entity = 0n; entities.size < groups.length && entity < ENTITIES_TRIED; entity += 1n) {
    const id = groupIdOf({ ...map, groups }, { table: "probes", partition: [{ kind: "bigint", value: entity }], clustering: [] });
    if (!entities.has(id)) entities.set(id, entity);
  }
  return [...entities].map(([group, entity]) => {
    return { group, entity, ranks: placement.get(group)!, newest: undefined, servedAtMs: Number.NEGATIVE_INFINITY };
  });
}
