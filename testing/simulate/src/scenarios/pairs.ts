// Two rows that change together, and readers of both whose transactions stay open while masters move.
import type { ConcordClient } from "@concord/client";
import { TransactionService, type StartResponse } from "@concord/protos-txn";
import { callUnary } from "@concord/rpc";
import { newTimeIdBytes, sleep, type Channel, type Environment } from "@concord/runtime";
import type { Cluster } from "../cluster.ts";
import { reportBug } from "../outcome.ts";

export const PAIRS_TABLE = "CREATE TABLE pairs (entity bigint, k bigint, n int, PRIMARY KEY (entity, k))";

const ENTITIES: readonly bigint[] = [0n, 1n, 2n];
const [FIRST, SECOND] = [0n, 1n];
/** Between the reads of the two rows: as long as a standby takes to serve, and longer. */
const OPEN_MS: readonly number[] = [50, 250, 400, 700];
const BETWEEN_MS = 150;
const CALL_MS = 1_000;
const { methods } = TransactionService;

interface Pair {
  readonly n: number;
}

/**
 * A writer raises the number in both rows of a pair in one transaction. Readers open one at each coordinator by the bare contract, as a program
 * that does not follow the topology: it goes on where it began, although another coordinator may serve the group by now. What such a transaction
 * reads and commits is one state (TXD1).
 */
export class Pairs {
  readonly #cluster: Cluster;
  #isOver = false;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Resolves with the writer's end, after `stop`. */
  async start(): Promise<{ readonly ended: Promise<void> }> {
    const { coordinatorAddresses, world, swarm } = this.#cluster;
    const { db, env } = await this.#cluster.client("pairs", { coordinators: coordinatorAddresses, timeoutMs: swarm.timeoutMs });
    world.node("pair-readers", async (reader) => {
      for (const address of coordinatorAddresses) {
        const channel = reader.env.transport.connect(address);
        for (const entity of ENTITIES) void this.#readOn(reader.env, channel, entity);
      }
    });
    return { ended: this.#writeOn(db, env) };
  }

  stop(): void {
    this.#isOver = true;
  }

  async #writeOn(db: ConcordClient, env: Environment): Promise<void> {
    const { world, swarm } = this.#cluster;
    while (!this.#isOver) {
      const entity = ENTITIES[env.random.below(ENTITIES.length)]!;
      await db
        .runTransaction(
          { table: "pairs", key: { entity, k: FIRST } },
          async (txn) => {
            const n = 1 + ((await txn.lock<Pair>("pairs", { entity, k: FIRST }))?.n ?? 0);
            txn.insert("pairs", { entity, k: FIRST, n });
            txn.insert("pairs", { entity, k: SECOND, n });
          },
          { deadlineMs: swarm.timeoutMs },
        )
        .catch((thrown: unknown) => reportBug(world, "pairs", thrown));
      await sleep(env.clock, env.random.below(1 + swarm.thinkMs));
    }
  }

  async #readOn(env: Environment, channel: Channel, entity: bigint): Promise<void> {
    while (!this.#isOver) {
      const transactionId = newTimeIdBytes(env.clock, env.random);
      await this.#readBoth(env, channel, entity, transactionId).catch(() => {
        const rollback = { operation: { transactionId, number: 1 } };
        return callUnary(channel, methods.Rollback, rollback, { timeoutMs: CALL_MS }).catch(() => undefined);
      });
      await sleep(env.clock, env.random.below(BETWEEN_MS));
    }
  }

  /** Rejects when the transaction did not commit: then what it read says nothing. */
  async #readBoth(env: Environment, channel: Channel, entity: bigint, transactionId: Uint8Array): Promise<void> {
    const { world, swarm } = this.#cluster;
    const options = { timeoutMs: CALL_MS + swarm.network.spikeUs / 1000 };
    const mode = "LOCK_MODE_SHARED";
    const operation = (number: number): { transactionId: Uint8Array; number: number } => ({ transactionId, number });
    const opened = await callUnary(channel, methods.Start, { operation: operation(1), key: keyOf(entity, FIRST), mode }, options);
    await sleep(env.clock, OPEN_MS[env.random.below(OPEN_MS.length)]!);
    const locked = await callUnary(channel, methods.Lock, { operation: operation(2), keys: [keyOf(entity, SECOND)], mode }, options);
    await callUnary(channel, methods.Commit, { operation: operation(3) }, options);
    world.count("sim:pairs-read");
    const [first, second] = [numberIn(opened.row), numberIn(locked.rows[0]!.row)];
    if (first === second) return;
    const where = `pair ${entity}, in a transaction of ${opened.group} under epoch ${opened.epoch}`;
    world.violation("torn read", `${where} that committed: ${first} in one row, ${second} in the other`);
  }
}

function keyOf(entity: bigint, k: bigint): { table: string; partition: { bigintValue: bigint }[]; clustering: { bigintValue: bigint }[] } {
  return { table: "pairs", partition: [{ bigintValue: entity }], clustering: [{ bigintValue: k }] };
}

function numberIn(row: StartResponse["row"]): number {
  const value = row?.columns.find(({ name }) => name === "n")?.value;
  return value?.kind === "intValue" ? value.intValue : 0;
}
