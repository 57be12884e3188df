import { RowsService, type QueryResponse } from "@concord/protos-storage";
import { callUnary } from "@concord/rpc";
import type { Channel, Environment } from "@concord/runtime";
import { cellToWire, type CellValue } from "@concord/values";
import { addressOf, type Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";
import type { RegisterHistory } from "../register-history.ts";

/** Value that a write gives a register; undefined: it deletes it. */
export interface Effect {
  readonly key: string;
  readonly name: string;
  readonly value: string | undefined;
}

/** `superseded`: it is answered, and lost to something newer, so that it need not have an effect. */
export type WriteOutcome = "done" | "superseded" | "fail" | "info";

/** Calls of CQL by the bare contract, at a node and with a timestamp that the caller chooses, and the history of registers from writes and reads. */
export class PlainCalls {
  readonly #cluster: Cluster;
  readonly #history: RegisterHistory;
  readonly #channels: ReadonlyMap<string, Channel>;

  constructor(cluster: Cluster, history: RegisterHistory, { transport }: Environment) {
    this.#cluster = cluster;
    this.#history = history;
    this.#channels = new Map(cluster.proxies.map((node) => [node, transport.connect(addressOf(node))]));
  }

  /** `timestampUs` 0: the node draws it. */
  query(node: string, text: string, timestampUs: bigint, binds: readonly CellValue[] = []): Promise<QueryResponse> {
    const request = { statement: { text, binds: binds.map(cellToWire) }, timestampUs };
    return callUnary(this.#channels.get(node)!, RowsService.methods.Query, request, { timeoutMs: this.#cluster.swarm.timeoutMs });
  }

  /** `act` answers whether the write is superseded. */
  async writing(effects: readonly Effect[], act: () => Promise<{ readonly superseded?: boolean }>): Promise<WriteOutcome> {
    const { world } = this.#cluster;
    const startedAt = world.nowMs;
    world.callsInFlight += 1;
    const outcome = await act()
      .then(
        ({ superseded = false }): WriteOutcome => (superseded ? "superseded" : "done"),
        (thrown: unknown) => {
          reportBug(world, "plain write", thrown);
          return outcomeOf(thrown);
        },
      )
      .finally(() => (world.callsInFlight -= 1));
    if (outcome === "superseded") world.count("sim:superseded");
    for (const { key, name, value } of effects) {
      const effect = { kind: "write", value } as const;
      if (outcome === "fail") this.#history.failed();
      else if (outcome === "done") this.#history.done(key, name, startedAt, effect);
      else this.#history.unknown(key, name, startedAt, effect);
    }
    return outcome;
  }

  /** `act` answers the values of those registers that have one. False: they could not be read. */
  async reading(keys: readonly string[], act: () => Promise<ReadonlyMap<string, string>>): Promise<boolean> {
    const { world } = this.#cluster;
    const startedAt = world.nowMs;
    try {
      const values = await act();
      for (const key of keys) {
        const found = values.get(key);
        this.#history.done(key, "a read", startedAt, { kind: "read", accepts: (value) => value === found, found: found ?? "nothing" });
      }
      return true;
    } catch (thrown) {
      reportBug(world, "plain read", thrown);
      return false;
    }
  }
}
