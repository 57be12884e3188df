// A node of three on whose disk another program leaves no byte: the others serve what needs no space there, it serves reads, also after a restart, and it has
// everything once there is space again.
import { statfsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient } from "@concord/client";
import { type NodePlan, s3Client } from "@concord/constellation";
import type { RowKey } from "@concord/ports";
import type { Attack, Target } from "./attack.ts";
import {
  answerOf,
  type Clients,
  DISK_MIB,
  FULL_MS,
  judgeReserve,
  keep,
  LINE,
  makeSpace,
  OPERATION_MS,
  READS,
  RESERVE_BYTES,
  whileFilled,
} from "./filled-disk.ts";
import { Replica, settle } from "./replicas.ts";

const VICTIM = "concord-3";
const PAUSE_MS = 100;
/** Rows that are deleted while the disk is full, one by each node in each round. */
const DELETED = 300;

interface Node extends Clients {
  readonly plan: NodePlan;
}

const keyOf = (id: bigint): RowKey => ({ table: "keptplain", partition: [{ kind: "bigint", value: id }], clustering: [] });
const textOf = (error: unknown): string => String(error);

/** Clients of each node, which ask that one alone for rows, objects and messages. */
async function connectNodes({ constellation, client, clientToken: token }: Target): Promise<readonly Node[]> {
  const { coordinators, tokens } = constellation;
  const [accessKey] = tokens.accessKeys;
  if (accessKey === undefined) throw new Error("there is no tenant");
  return Promise.all(
    constellation.nodes.map(async (plan) => {
      const addresses = { coordinators, storageProxies: [plan.address], dedupWorker: [plan.address] };
      const db = await client.connect({ ...addresses, token, timeoutMs: OPERATION_MS });
      return { plan, db, s3: s3Client(`http://${plan.httpAddress}`, accessKey) };
    }),
  );
}

class FullNode {
  readonly #target: Target;
  readonly #nodes: readonly Node[];
  #next = 1_000n;
  readonly #deleted: bigint[] = [];
  #reads = 0;

  constructor(target: Target, nodes: readonly Node[]) {
    this.#target = target;
    this.#nodes = nodes;
  }

  async prepare(): Promise<void> {
    const [first] = this.#nodes;
    if (first === undefined) throw new Error("there is no node");
    await keep(first);
    for (let id = this.#next; id < this.#next + BigInt(DELETED); id += 1n) await insert(first.db, id);
  }

  /** Reads by each node and each service, deletions by each node, for so long; a new row is refused by each, with the name of the full one. */
  async judge(when: string): Promise<void> {
    const until = Date.now() + FULL_MS;
    const failed = new Map<string, string>();
    for (let round = 0; round === 0 || Date.now() < until; round += 1) {
      for (const node of this.#nodes) {
        for (const [service, read] of Object.entries(READS)) {
          await read(node).catch((error: unknown) => failed.set(`a read of ${service} at ${node.plan.name}`, textOf(error)));
          this.#reads += 1;
        }
        if (node.plan.name === VICTIM) continue;
        await this.#delete(node.db).catch((error: unknown) => failed.set(`a deletion at ${node.plan.name}`, textOf(error)));
      }
      await sleep(PAUSE_MS);
    }
    for (const [what, error] of failed) this.#target.fail(`${what} ${when}: ${error}`);
    for (const { plan, db } of this.#nodes) {
      const answer = await answerOf(insert(db, 2n));
      if (!answer.startsWith("STORAGE_FULL") || (plan.name !== VICTIM && !answer.includes(VICTIM)))
        this.#target.fail(`a new row at ${plan.name} ${when}: ${answer}`);
    }
  }

  async #delete(db: ConcordClient): Promise<void> {
    const id = this.#next;
    if (this.#deleted.length >= DELETED) return;
    this.#next += 1n;
    await db.query("DELETE FROM KeptPlain WHERE id = ?", [id]);
    this.#deleted.push(id);
    const { rows } = await db.query("SELECT * FROM KeptPlain WHERE id = ?", [id]);
    if (rows.length > 0) throw new Error(`row ${id} was deleted, and is read`);
  }

  /** The replica of the node that was full has each deletion and what was written since, without the others. */
  async judgeReplica(): Promise<void> {
    const [first, , victim] = this.#nodes;
    if (first === undefined || victim === undefined) throw new Error("there are three nodes");
    await insert(first.db, 3n);
    await insert(victim.db, 4n);
    const replica = new Replica(victim.plan, this.#target.constellation.tokens.peer);
    try {
      await settle(this.#target, `what ${VICTIM} has`, async () => {
        const there = await replica.read([1n, 3n, 4n].map(keyOf));
        const undead = (await replica.read(this.#deleted.map(keyOf))).filter((row) => row !== undefined).length;
        const missing = there.filter((row) => row === undefined).length;
        return missing + undead === 0 ? undefined : `${missing} rows missing, ${undead} deleted ones there`;
      });
    } finally {
      replica.close();
    }
    this.#target.note(`${this.#reads} reads, ${this.#deleted.length} deletions while ${VICTIM} was full; its replica alone has them`);
  }
}

const insert = (db: ConcordClient, id: bigint): Promise<unknown> => db.query("INSERT INTO KeptPlain (id, line) VALUES (?, ?)", [id, LINE]);

async function attack(target: Target): Promise<void> {
  const disk = join(target.folder, VICTIM);
  const nodes = await connectNodes(target);
  const full = new FullNode(target, nodes);
  try {
    await full.prepare();
    await whileFilled(disk, () => full.judge(`while the disk of ${VICTIM} was full`));
    target.note(`${statfsSync(disk).bavail} blocks were free before the restart of ${VICTIM}`);
    await target.stop(VICTIM);
    await target.start({}, VICTIM);
    await whileFilled(disk, () => full.judge(`after ${VICTIM} started on the full disk`));
    makeSpace(disk);
    await target.serves("once there was space again");
    await full.judgeReplica();
    await judgeReserve(target, VICTIM);
  } finally {
    makeSpace(disk);
    for (const { db, s3 } of nodes) {
      db.close();
      s3.destroy();
    }
  }
}

export const fullNode: Attack = {
  name: "full-node",
  symptom: "a node whose disk others filled ended, and did not start again until space was made; tried on one of three",
  isShort: false,
  members: { concord: 3 },
  diskMiB: DISK_MIB,
  diskOf: VICTIM,
  config: { lowSpaceBytes: RESERVE_BYTES, reserveBytes: RESERVE_BYTES },
  // The first node takes over what the third one had while it starts again.
  growthMiBMax: 320,
  missing: () => (process.getuid?.() === 0 ? undefined : "only root mounts a file system"),
  run: attack,
};
