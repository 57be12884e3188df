import type { Write } from "@concord/client";
import type { Environment } from "@concord/runtime";
import type { Client, Cluster } from "../cluster.ts";
import { reportBug } from "../outcome.ts";
import { markOf, tokenOf } from "./marks.ts";
import type { Effect, PlainCalls, WriteOutcome } from "./plain-calls.ts";

export const CELLS_TABLE = "CREATE TABLE cells (part bigint, k bigint, v text, PRIMARY KEY (part, k)) WITH kind = 'plain'";
/** Size of a padded mark, above the smallest space for hints: a hint with one such row is dropped. */
const PADDED_CHARACTERS = 1_500;
/** Lead of a client's wrong clock, within TIMESTAMP_AHEAD_MS_MAX. */
const AHEAD_US = 59n * 60_000_000n;
/** Age of a late write: more than the clock of any node is behind. */
const LATE_US = 24n * 3_600_000_000n;
const ROWS_OF_A_KIND = 3;
/** One of its free rows, two of its home rows and two of its library rows, so that a batch of them is logged, and one of its cold rows. */
const PARTS_OF_A_CLIENT = 6n;

/**
 * `free`: written at any node, with timestamps of any clock. `home`: written at one node, which draws the timestamps, also those of batches, which are not
 * compared with what rows hold. `library`: written by one client library, which makes the timestamps, also those of batches. `cold`: as `free`, read by no
 * one until the end, so that no read repairs it.
 */
type Kind = "free" | "home" | "library" | "cold";

export interface CellRow {
  readonly kind: Kind;
  readonly part: bigint;
  readonly k: bigint;
}

interface Change {
  readonly row: CellRow;
  readonly verb: "insert" | "update" | "delete";
  /** Undefined: a deletion. */
  readonly token: string | undefined;
}

interface Cell extends Pick<CellRow, "part" | "k"> {
  readonly v: string;
}

export interface PlainClientOptions {
  readonly cluster: Cluster;
  readonly calls: PlainCalls;
  readonly number: number;
  readonly client: Client;
  /** Name of the node at which it writes its home rows. */
  readonly home: string;
  readonly padded: boolean;
}

/**
 * Writes rows of its own, one write after the other: by the client library, and by the bare contract, at a node and with a timestamp that it chooses. Each
 * row is a register: what is acknowledged, and not superseded, is what the next read shows.
 */
export class PlainClient {
  readonly rows: readonly CellRow[];
  readonly env: Environment;
  readonly #options: PlainClientOptions;
  /** Rows with a write whose outcome is not known: it may surface at any time. */
  readonly #unsure = new Set<CellRow>();
  #names = 0;

  constructor(options: PlainClientOptions) {
    this.#options = options;
    this.env = options.client.env;
    this.rows = rowsOf(options.number);
  }

  /** Writes own rows once; then, at times, reads them back. */
  async step(): Promise<void> {
    const { random } = this.env;
    const row = this.#pick(this.rows);
    if (row.kind === "home" && random.below(2) === 0) await this.#batchAtHome();
    else if (row.kind === "library" && random.below(2) === 0) await this.#batchByLibrary();
    else if (row.kind === "free" && random.below(6) === 0) await this.#writeOverFuture(row);
    else await this.write(row, this.#drawVerb());
    if (row.kind !== "cold" && random.below(2) === 0) await this.read(row);
  }

  write(row: CellRow, verb: Change["verb"]): Promise<WriteOutcome> {
    const change = this.#change(row, verb);
    const { random, clock } = this.env;
    if (row.kind === "home") return this.#drawn([change], this.#options.home, this.#cqlOf(change));
    if (row.kind === "library") return this.#byLibrary(change);
    switch (random.below(10)) {
      case 0:
        return this.#given(change, clock.nowUs() + AHEAD_US);
      case 1:
      case 2:
        return this.#given(change, clock.nowUs());
      case 3:
      case 4:
        return this.#drawn([change], this.#anyNode(), this.#cqlOf(change));
      default:
        return this.#byLibrary(change);
    }
  }

  /** Sends a write that comes too late for a row that was deleted: it has no effect, and the answer has that. */
  async writeLate(row: CellRow, deletedAfterUs: bigint): Promise<void> {
    const { cluster, calls } = this.#options;
    const { world } = cluster;
    const change = this.#change(row, "insert");
    const written = calls.query(this.#anyNode(), this.#cqlOf(change), deletedAfterUs - LATE_US);
    const answer = await written.catch((thrown: unknown) => reportBug(world, "late write", thrown));
    world.count(answer === undefined ? "sim:late-write-refused" : "sim:late-write-superseded");
    if (answer?.superseded === false)
      world.violation("late write", `${nameOf(row)}: ${change.token} was taken, the row was deleted after its timestamp`);
  }

  async read(row: CellRow): Promise<void> {
    const { client, calls } = this.#options;
    const { part, k } = row;
    const where = `WHERE part = ${part} AND k = ${k}`;
    const key = nameOf(row);
    switch (this.env.random.below(4)) {
      case 0:
        await calls.reading([key], async () => {
          const { rows } = await calls.query(this.#anyNode(), `SELECT v FROM cells ${where}`, 0n);
          const value = rows[0]?.columns[0]?.value;
          return tokensOf(value?.kind === "textValue" ? [{ part, k, v: value.textValue }] : []);
        });
        return;
      case 1:
        await calls.reading([key], async () => tokensOf((await client.db.query<Cell>(`SELECT * FROM cells ${where}`)).rows));
        return;
      case 2:
        await calls.reading([key], async () => tokensOf([await client.db.read<Cell>("cells", { part, k })]));
        return;
      default:
        await this.readPart(part);
    }
  }

  /** Reads the rows of a partition, in pages. False: they could not be read. */
  readPart(part: bigint, timeoutMs?: number): Promise<boolean> {
    const { client, calls } = this.#options;
    const rows = rowsOf(Number(part / PARTS_OF_A_CLIENT)).filter((row) => row.part === part);
    const range = { partition: { part }, pageSize: 2 };
    return calls.reading(rows.map(nameOf), async () => {
      const cells: Cell[] = [];
      for await (const cell of client.db.readRange<Cell>("cells", range, timeoutMs === undefined ? {} : { timeoutMs })) cells.push(cell);
      return tokensOf(cells);
    });
  }

  /** Writes by a clock that is ahead, and at once by a right one, whose write is superseded whichever replicas answer it first. */
  async #writeOverFuture(row: CellRow): Promise<void> {
    const { clock } = this.env;
    await this.#given(this.#change(row, this.#drawVerb()), clock.nowUs() + AHEAD_US);
    await this.#given(this.#change(row, this.#drawVerb()), clock.nowUs());
  }

  /** Writes all home rows in one batch, logged or not, whose timestamp the node draws. */
  async #batchAtHome(): Promise<void> {
    const changes = this.#changes("home");
    const logged = this.env.random.below(2) === 0 ? "" : "UNLOGGED ";
    const statements = changes.map((change) => `${this.#cqlOf(change)};`).join(" ");
    await this.#drawn(changes, this.#options.home, `BEGIN ${logged}BATCH ${statements} APPLY BATCH`);
  }

  async #batchByLibrary(): Promise<void> {
    const { db } = this.#options.client;
    const changes = this.#changes("library");
    const logged = this.env.random.below(2) === 0;
    await this.#writing(changes, "in a batch", async () => {
      await db.batch(
        changes.map((change) => this.#writeOf(change)),
        { logged },
      );
      return {};
    });
  }

  /** Writes at a node that draws the timestamp above what replicas hold: superseded only by writes that are still under way. */
  async #drawn(changes: readonly Change[], node: string, text: string): Promise<WriteOutcome> {
    const isSure = changes.every(({ row }) => !this.#unsure.has(row));
    const outcome = await this.#writing(changes, `at ${node}`, () => this.#options.calls.query(node, text, 0n));
    const [{ row, token = "a deletion" }] = changes as [Change];
    if (outcome === "superseded" && isSure)
      this.#options.cluster.world.violation("drawn timestamp", `${nameOf(row)}: ${token} lost to what the row held`);
    return outcome;
  }

  #given(change: Change, timestampUs: bigint): Promise<WriteOutcome> {
    const node = this.#anyNode();
    return this.#writing([change], `at ${node} @${timestampUs}`, () => this.#options.calls.query(node, this.#cqlOf(change), timestampUs));
  }

  #byLibrary(change: Change): Promise<WriteOutcome> {
    const { db } = this.#options.client;
    if (this.env.random.below(2) === 0) return this.#writing([change], "by CQL", () => db.query(this.#cqlOf(change)));
    return this.#writing([change], "by the library", () => db.write(this.#writeOf(change)));
  }

  async #writing(changes: readonly Change[], how: string, act: Parameters<PlainCalls["writing"]>[1]): Promise<WriteOutcome> {
    const effects = changes.map(({ row, token }): Effect => ({ key: nameOf(row), name: `${token ?? "deletion"} ${how}`, value: token }));
    const outcome = await this.#options.calls.writing(effects, act);
    if (outcome === "info") for (const { row } of changes) this.#unsure.add(row);
    return outcome;
  }

  get #padding(): number | undefined {
    return this.#options.padded ? PADDED_CHARACTERS : undefined;
  }

  #cqlOf({ row, verb, token = "" }: Change): string {
    const { part, k } = row;
    const mark = markOf(token, this.#padding);
    switch (verb) {
      case "insert":
        return `INSERT INTO cells (part, k, v) VALUES (${part}, ${k}, '${mark}')`;
      case "update":
        return `UPDATE cells SET v = '${mark}' WHERE part = ${part} AND k = ${k}`;
      case "delete":
        return `DELETE FROM cells WHERE part = ${part} AND k = ${k}`;
    }
  }

  #writeOf({ row, verb, token = "" }: Change): Write {
    const { part, k } = row;
    const cell = { part, k, v: markOf(token, this.#padding) };
    switch (verb) {
      case "insert":
        return { insert: "cells", row: cell };
      case "update":
        return { update: "cells", row: cell };
      case "delete":
        return { delete: "cells", key: { part, k } };
    }
  }

  /** Changes of all rows of a kind. */
  #changes(kind: Kind): Change[] {
    return this.rows.filter((row) => row.kind === kind).map((row) => this.#change(row, this.#drawVerb()));
  }

  #change(row: CellRow, verb: Change["verb"]): Change {
    this.#names += 1;
    return { row, verb, token: verb === "delete" ? undefined : `c${this.#options.number}-${this.#names}` };
  }

  #drawVerb(): Change["verb"] {
    return this.#pick(["insert", "insert", "insert", "update", "update", "delete"]);
  }

  #anyNode(): string {
    return this.#pick(this.#options.cluster.proxies);
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.env.random.below(items.length)]!;
  }
}

const nameOf = ({ part, k }: Pick<CellRow, "part" | "k">): string => `cells ${part}/${k}`;

function tokensOf(cells: readonly (Cell | undefined)[]): ReadonlyMap<string, string> {
  const there = cells.filter((cell) => cell !== undefined);
  return new Map(there.map((cell) => [nameOf(cell), tokenOf(cell.v, [PADDED_CHARACTERS])]));
}

function rowsOf(client: number): readonly CellRow[] {
  const first = BigInt(client) * PARTS_OF_A_CLIENT;
  const rows = (kind: Kind, part: bigint, count: number): CellRow[] =>
    Array.from({ length: count }, (_, k) => ({ kind, part: first + part, k: BigInt(k) }));
  const alone = { home: [...rows("home", 1n, 1), ...rows("home", 2n, 1)], library: [...rows("library", 4n, 1), ...rows("library", 5n, 1)] };
  return [...rows("free", 0n, ROWS_OF_A_KIND), ...alone.home, ...rows("cold", 3n, ROWS_OF_A_KIND), ...alone.library];
}
