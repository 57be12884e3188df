import { toHex } from "@concord/runtime";
import { CassandraFailure } from "../failure.ts";
import type { Answer, CassandraSession, Column, Parameter, ResultRow, Statement } from "../session.ts";

type Bytes = Uint8Array;
interface Cell {
  readonly us: bigint;
  /** Undefined: a tombstone. */
  readonly value: Column;
}

/** One row at one replica: cells by "deleted", "marker" or "cells.COLUMN", and deletions of all cells and of the row. */
interface Row {
  readonly partition: Bytes;
  readonly clustering: Bytes;
  readonly cells: Map<string, Cell>;
  cellsDeletedUs: bigint;
  rowDeletedUs: bigint;
}

export const REPLICAS = [0, 1, 2] as const;

/** Choices of the model: which replicas take part and what gets lost. */
export interface Draws {
  below(limit: number): number;
}

/**
 * Rows at three replicas with Cassandra's rules: the larger timestamp wins, a tombstone on a tie, then the larger bytes; reads merge and repair two
 * of them. `forget` drops every tombstone of a replica, as a compaction after gc_grace does. What a real node does: `npm run test:engines`.
 */
export class ThreeReplicas implements Pick<CassandraSession, "read" | "write" | "compareAndSet"> {
  readonly replicas: readonly Map<string, Row>[] = REPLICAS.map(() => new Map());
  /** Replicas that take no request. */
  readonly down = new Set<number>();
  /** Replicas that lose the next writes and do not acknowledge. */
  readonly deaf = new Set<number>();
  readonly #draws: Draws;
  slot: number | undefined;
  /** A read of tokens that has more rows with nothing alive than this fails, as above tombstone_failure_threshold. */
  tombstonesMax = Infinity;
  /** Runs before each read or write. */
  before: (statements: readonly Statement[]) => void = () => undefined;

  constructor(draws: Draws) {
    this.#draws = draws;
  }

  read: CassandraSession["read"] = async ({ query, parameters }, { pageRows = Infinity, pageState }) => {
    this.before([{ query, parameters }]);
    if (query.includes("migrations")) return answer(this.slot === undefined ? [] : [{ version: this.slot }]);
    const up = REPLICAS.filter((replica) => !this.down.has(replica));
    if (up.length < 2) throw new CassandraFailure("unavailable", "two replicas are down");
    if (up.length === 3) up.splice(this.#draws.below(3), 1);
    const asked = up.map((replica) => this.replicas[replica]!);
    if (!query.includes("token(")) {
      const [partition, clustering] = parameters as [Bytes, Bytes];
      return answer(shown(merged(asked, partition, clustering)));
    }
    const [after, last] = parameters as [bigint, bigint];
    const keys = new Map(asked.flatMap((rows) => [...rows]).filter(([, { partition }]) => isBetween(tokenOf(partition), after, last)));
    const sorted = [...keys].toSorted(([left], [right]) => (left < right ? -1 : 1)).map(([, row]) => row);
    const found = sorted.map((row) => shown(merged(asked, row.partition, row.clustering)));
    if (found.filter((row) => row.length === 0).length > this.tombstonesMax) throw new CassandraFailure("read-unanswered", "tombstones");
    const rest = found.flat().filter((row) => pageState === undefined || nameOf(row) > pageState);
    const page = rest.slice(0, pageRows);
    return { rows: page, pageState: page.length < rest.length ? nameOf(page.at(-1)!) : undefined, isApplied: true };
  };

  write: CassandraSession["write"] = async (statements, { consistency }) => {
    this.before(statements);
    const up = REPLICAS.filter((replica) => !this.down.has(replica));
    const least = consistency === "all" ? 3 : 2;
    if (up.length < least) throw new CassandraFailure("unavailable", "replicas are down");
    const taking = up.filter((replica) => !this.deaf.has(replica));
    for (const replica of taking) this.deliver(replica, statements);
    if (taking.length < least) throw new CassandraFailure("write-unacknowledged", "a replica did not acknowledge");
  };

  compareAndSet: CassandraSession["compareAndSet"] = async ([statement]) => {
    this.before([statement!]);
    const [to, , from] = statement!.parameters as [number, string, number | null];
    const isApplied = (this.slot ?? null) === from;
    if (isApplied) this.slot = to;
    return { ...answer([]), isApplied };
  };

  /** A write, a hint, or a batch that is replayed, at one replica. */
  deliver(replica: number, statements: readonly Statement[]): void {
    for (const { query, parameters } of statements) apply(this.replicas[replica]!, query, parameters);
  }

  forget(replica: number): void {
    const rows = this.replicas[replica]!;
    for (const [name, row] of rows) {
      for (const [cell, { value }] of row.cells) if (value === undefined) row.cells.delete(cell);
      [row.cellsDeletedUs, row.rowDeletedUs] = [0n, 0n];
      if (row.cells.size === 0) rows.delete(name);
    }
  }

  /** Results of a read of a row from each two replicas; nothing is repaired. */
  readsOf(partition: Bytes, clustering: Bytes): readonly (ResultRow | undefined)[] {
    return REPLICAS.map((absent) => {
      const two = this.replicas.filter((_, replica) => replica !== absent).map((rows) => copyOf(rowOf(rows, partition, clustering)));
      return shown(merged(two, partition, clustering))[0];
    });
  }

  /** Rows that Cassandra still has something alive of, at any replica. */
  get storedRows(): number {
    const keys = new Map(this.replicas.flatMap((rows) => [...rows]));
    return [...keys.values()].filter((row) => {
      const copies = this.replicas.map((rows) => copyOf(rowOf(rows, row.partition, row.clustering)));
      return shown(merged(copies, row.partition, row.clustering)).length > 0;
    }).length;
  }
}

function apply(rows: Map<string, Row>, query: string, parameters: readonly Parameter[]): void {
  const [us] = parameters as readonly [bigint];
  const [partition, clustering] = parameters.slice(-2) as [Bytes, Bytes];
  const row = rowOf(rows, partition, clustering);
  if (query.startsWith("DELETE FROM")) row.rowDeletedUs = larger(row.rowDeletedUs, us);
  else if (query.startsWith("DELETE marker, cells")) {
    row.cellsDeletedUs = larger(row.cellsDeletedUs, us);
    put(row, "marker", { us, value: undefined });
  } else if (query.includes("SET deleted")) put(row, "deleted", { us, value: parameters[1] as bigint });
  else {
    const [, marker, cells] = parameters as [bigint, bigint | undefined, ReadonlyMap<string, Bytes>];
    if (marker !== undefined) put(row, "marker", { us, value: marker });
    for (const [column, value] of cells) put(row, `cells.${column}`, { us, value: value as unknown as Column });
  }
  clean(row);
}

function rowOf(rows: Map<string, Row>, partition: Bytes, clustering: Bytes): Row {
  const name = nameOf({ partition, clustering });
  const present = rows.get(name);
  if (present !== undefined) return present;
  const row = { partition, clustering, cells: new Map(), cellsDeletedUs: 0n, rowDeletedUs: 0n };
  rows.set(name, row);
  return row;
}

/** A replica with a copy of this row alone. */
function copyOf(row: Row): Map<string, Row> {
  const rows = new Map<string, Row>();
  const copy = rowOf(rows, row.partition, row.clustering);
  [copy.rowDeletedUs, copy.cellsDeletedUs] = [row.rowDeletedUs, row.cellsDeletedUs];
  for (const [name, cell] of row.cells) copy.cells.set(name, cell);
  return rows;
}

/** Rows in the order of tokens, then of clustering keys. */
function nameOf({ partition, clustering }: ResultRow): string {
  const token = BigInt.asUintN(64, tokenOf(partition as Bytes) + (1n << 63n));
  return `${token.toString().padStart(20, "0")} ${toHex(clustering as Bytes)}`;
}

function put(row: Row, name: string, cell: Cell): void {
  const present = row.cells.get(name);
  if (present === undefined || wins(cell, present)) row.cells.set(name, cell);
}

function wins(cell: Cell, present: Cell): boolean {
  if (cell.us !== present.us) return cell.us > present.us;
  if (present.value === undefined) return false;
  if (cell.value === undefined) return true;
  // Numbers at one timestamp are that timestamp.
  return cell.value instanceof Uint8Array && present.value instanceof Uint8Array && toHex(cell.value) > toHex(present.value);
}

/** Drops what the row's deletions cover. */
function clean(row: Row): void {
  for (const [name, { us }] of row.cells) {
    const deletedUs = name.startsWith("cells.") ? larger(row.rowDeletedUs, row.cellsDeletedUs) : row.rowDeletedUs;
    if (us <= deletedUs) row.cells.delete(name);
  }
}

/** Reads from these replicas; each of them has the result then (read repair). */
function merged(replicas: readonly Map<string, Row>[], partition: Bytes, clustering: Bytes): Row {
  const rows = replicas.map((each) => rowOf(each, partition, clustering));
  const all = rowOf(new Map(), partition, clustering);
  for (const row of rows) {
    all.rowDeletedUs = larger(all.rowDeletedUs, row.rowDeletedUs);
    all.cellsDeletedUs = larger(all.cellsDeletedUs, row.cellsDeletedUs);
    for (const [name, cell] of row.cells) put(all, name, cell);
  }
  clean(all);
  for (const row of rows) {
    [row.rowDeletedUs, row.cellsDeletedUs] = [all.rowDeletedUs, all.cellsDeletedUs];
    row.cells.clear();
    for (const [name, cell] of all.cells) row.cells.set(name, cell);
  }
  return all;
}

function shown({ partition, clustering, cells: all }: Row): readonly ResultRow[] {
  const alive = [...all].filter(([, { value }]) => value !== undefined);
  if (alive.length === 0) return [];
  const cells = alive
    .filter(([name]) => name.startsWith("cells."))
    .map(([name, { value }]) => [name.slice("cells.".length), value] as const);
  const value = (name: string): Column => all.get(name)?.value ?? null;
  return [{ partition, clustering, deleted: value("deleted"), marker: value("marker"), cells: new Map(cells) as unknown as Column }];
}

function answer(rows: readonly ResultRow[]): Answer {
  return { rows, pageState: undefined, isApplied: true };
}

/** Any function that spreads: 64 bits, never the smallest. */
export function tokenOf(partition: Bytes): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of partition) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & ((1n << 64n) - 1n);
  return BigInt.asIntN(64, hash | 1n);
}

function isBetween(token: bigint, after: bigint, last: bigint): boolean {
  return token > after && token <= last;
}

function larger(left: bigint, right: bigint): bigint {
  return left > right ? left : right;
}
