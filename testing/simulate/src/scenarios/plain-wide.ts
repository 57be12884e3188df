import { toConcordError, type Environment } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import type { Cluster } from "../cluster.ts";
import { markOf, tokenOf } from "./marks.ts";
import type { Effect, PlainCalls, WriteOutcome } from "./plain-calls.ts";

export const WIDE_TABLE = "CREATE TABLE wide (id bigint PRIMARY KEY, a text, b text, c text) WITH kind = 'plain'";
const COLUMNS = ["a", "b", "c"] as const;
/** Size of a large value: two of three fit into a row, which its nodes remember as large from the second on. */
const LARGE_CHARACTERS = 1_040_000;
const SMALL_CHARACTERS = 10;
const ROWS = 1;

type Column = (typeof COLUMNS)[number];

export interface WideRowsOptions {
  readonly cluster: Cluster;
  readonly calls: PlainCalls;
  readonly env: Environment;
  /** Name of the node at which they are written. */
  readonly node: string;
}

/** Result of a write of a column, and whether the row was found too large for it. */
interface Grown {
  readonly outcome: WriteOutcome;
  readonly isTooLarge: boolean;
}

/**
 * Rows that grow to their size bound, column by column, and beyond. A node that has merged the large columns in its life refuses the one that does not fit,
 * which changes nothing, and takes it once there is space for it. Each column is a register.
 */
export class WideRows {
  readonly ids: readonly bigint[] = Array.from({ length: ROWS }, (_, id) => BigInt(id));
  readonly #options: WideRowsOptions;
  #names = 0;

  constructor(options: WideRowsOptions) {
    this.#options = options;
  }

  async write(): Promise<void> {
    for (const id of this.ids) await this.#fill(id);
  }

  async read(id: bigint, column: Column, node: string): Promise<boolean> {
    const { calls } = this.#options;
    const key = nameOf(id, column);
    return calls.reading([key], async () => {
      const { rows } = await calls.query(node, `SELECT ${column} FROM wide WHERE id = ${id}`, 0n);
      const value = rows[0]?.columns[0]?.value;
      return new Map(value?.kind === "textValue" ? [[key, tokenOf(value.textValue, [LARGE_CHARACTERS, SMALL_CHARACTERS])]] : []);
    });
  }

  /** True: each column is read. */
  async readAll(): Promise<boolean> {
    let isRead = true;
    for (const id of this.ids) for (const column of COLUMNS) isRead = (await this.read(id, column, this.#options.node)) && isRead;
    return isRead;
  }

  async #fill(id: bigint): Promise<void> {
    const { cluster, env, node } = this.#options;
    const { world } = cluster;
    const lives = cluster.livesOf(node);
    const first = await this.#grow(id, "a", LARGE_CHARACTERS);
    const second = await this.#grow(id, "b", LARGE_CHARACTERS);
    const third = await this.#grow(id, "c", LARGE_CHARACTERS);
    const isFull = first.outcome === "done" && second.outcome === "done" && cluster.livesOf(node) === lives;
    if (third.isTooLarge) world.count("sim:row-too-large");
    if (isFull && third.outcome === "done") world.violation("row size", `${nameOf(id, "c")}: taken, though the row was full`);
    await this.read(id, "c", cluster.proxies[env.random.below(cluster.proxies.length)]!);
    if (env.random.below(2) === 0) {
      await this.#delete(id);
      return;
    }
    const shrunk = await this.#grow(id, "b", SMALL_CHARACTERS);
    const fourth = await this.#grow(id, "c", LARGE_CHARACTERS);
    if (shrunk.outcome === "done" && fourth.isTooLarge) world.violation("row size", `${nameOf(id, "c")}: refused, though there was space`);
  }

  async #grow(id: bigint, column: Column, characters: number): Promise<Grown> {
    const { calls, node } = this.#options;
    this.#names += 1;
    const token = `w${this.#names}`;
    const binds: CellValue[] = [{ kind: "text", value: markOf(token, characters) }];
    let isTooLarge = false;
    const outcome = await calls.writing([{ key: nameOf(id, column), name: token, value: token }], () =>
      calls.query(node, `UPDATE wide SET ${column} = ? WHERE id = ${id}`, 0n, binds).catch((thrown: unknown) => {
        isTooLarge = toConcordError(thrown).metadata["limit"] === "ROW_BYTES_MAX";
        throw thrown;
      }),
    );
    return { outcome, isTooLarge };
  }

  async #delete(id: bigint): Promise<void> {
    const { calls, node } = this.#options;
    const effects = COLUMNS.map((column): Effect => ({ key: nameOf(id, column), name: "deletion", value: undefined }));
    await calls.writing(effects, () => calls.query(node, `DELETE FROM wide WHERE id = ${id}`, 0n));
  }
}

const nameOf = (id: bigint, column: Column): string => `wide ${id}.${column}`;
