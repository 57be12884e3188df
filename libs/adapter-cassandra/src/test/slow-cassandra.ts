import { sleep, type Clock } from "@concord/runtime";
import { CassandraFailure } from "../failure.ts";
import type { Answer, CassandraSession, Column, Parameter, ResultRow, Statement } from "../session.ts";

type Row = Map<string, Column>;

/** Rounds between the nodes that a request waits for (measured, Paxos v2): prepare with read, propose, commit. */
const ROUNDS_APPLIED = 3;
const ROUNDS_REFUSED = 1;
const ROUNDS_READ = 1;

const KEY = ["group_name", "kind", "seq"];
const NOT_ASKED = (): never => {
  throw new Error("the group log asks for lightweight transactions and serial reads only");
};

/**
 * The time that requests take on a cluster whose every round between nodes takes `roundMs`; the rows of the group log, by the statements
 * themselves. A request that takes longer than its time-out is carried out all the same. What Cassandra really does: `npm run test:engines`.
 */
export class SlowCassandra implements CassandraSession {
  readonly #clock: Clock;
  readonly #rows = new Map<string, Row>();
  roundMs: number;
  /** Lightweight transactions are carried out and not answered. */
  losesAnswers = false;
  /** Every request with its time-out. */
  readonly sent: { readonly kind: "swap" | "read"; readonly timeoutMs: number }[] = [];

  constructor(clock: Clock, roundMs: number) {
    this.#clock = clock;
    this.roundMs = roundMs;
  }

  compareAndSet: CassandraSession["compareAndSet"] = async (statements, { timeoutMs }) => {
    this.sent.push({ kind: "swap", timeoutMs });
    const answer = this.#swap(statements);
    const rounds = answer.isApplied ? ROUNDS_APPLIED : ROUNDS_REFUSED;
    return await this.#after(this.losesAnswers ? Infinity : rounds, timeoutMs, answer);
  };

  read: CassandraSession["read"] = async (statement, { timeoutMs }) => {
    this.sent.push({ kind: "read", timeoutMs });
    return await this.#after(ROUNDS_READ, timeoutMs, { rows: this.#select(statement), pageState: undefined, isApplied: true });
  };

  write = NOT_ASKED;
  writeLogged = NOT_ASKED;
  define = NOT_ASKED;
  ask = NOT_ASKED;
  nodes = NOT_ASKED;
  avoid = NOT_ASKED;
  close = NOT_ASKED;

  async #after(rounds: number, timeoutMs: number, answer: Answer): Promise<Answer> {
    const takesMs = rounds * this.roundMs;
    await sleep(this.#clock, Math.min(takesMs, timeoutMs));
    if (takesMs > timeoutMs) throw new CassandraFailure("no-answer", `no answer in ${timeoutMs} ms`);
    return answer;
  }

  #swap(statements: readonly Statement[]): Answer {
    const [conditional] = statements.map(clauses).filter(({ conditions, onlyNew }) => conditions.length > 0 || onlyNew);
    const row = this.#rows.get(nameOf(conditional!.equal));
    const holds = conditional!.onlyNew
      ? row === undefined
      : row !== undefined && conditional!.conditions.every(({ column, operator, value }) => compare(row.get(column), operator, value));
    if (holds) for (const statement of statements) this.#change(clauses(statement));
    const shown = row === undefined ? undefined : conditional!.conditions.map(({ column }) => [column, row.get(column)] as const);
    return { rows: shown === undefined || holds ? [] : [Object.fromEntries(shown)], pageState: undefined, isApplied: holds };
  }

  #change({ verb, equal, bounds, set }: Clauses): void {
    if (verb === "DELETE") {
      for (const [name, row] of this.#rows) if (isWithin(row, equal, bounds)) this.#rows.delete(name);
      return;
    }
    const name = nameOf(equal);
    this.#rows.set(name, new Map([...(this.#rows.get(name) ?? []), ...equal, ...set]));
  }

  #select(statement: Statement): ResultRow[] {
    const { equal, bounds } = clauses(statement);
    const found = [...this.#rows.values()].filter((row) => isWithin(row, equal, bounds));
    const seqOfRow = (row: Row): bigint => row.get("seq") as bigint;
    return found.toSorted((left, right) => Number(seqOfRow(left) - seqOfRow(right))).map((row) => Object.fromEntries(row));
  }
}

interface Comparison {
  readonly column: string;
  readonly operator: string;
  readonly value: Column;
}

interface Clauses {
  readonly verb: string;
  /** Columns of the key, and those that are set. */
  readonly equal: Row;
  readonly set: Row;
  readonly bounds: readonly Comparison[];
  readonly conditions: readonly Comparison[];
  readonly onlyNew: boolean;
}

/** As much of CQL as the group log's statements have. */
function clauses({ query, parameters }: Statement): Clauses {
  const values = parameters.values();
  const verb = query.trimStart().split(/\s/, 1)[0]!;
  const valueOf = (text: string): Column => (text === "?" ? (values.next().value as Parameter as Column) : BigInt(text));
  if (verb === "INSERT") {
    const [columns, given] = [...query.matchAll(/\(([^)]*)\)/g)].map(([, list]) => list!.split(",").map((each) => each.trim()));
    const all = columns!.map((column, at) => [column, valueOf(given![at]!)] as const);
    const isKey = ([column]: readonly [string, Column]): boolean => KEY.includes(column);
    const [equal, set] = [new Map(all.filter(isKey)), new Map(all.filter((each) => !isKey(each)))];
    return { verb, equal, set, bounds: [], conditions: [], onlyNew: /IF NOT EXISTS/.test(query) };
  }
  const [, setText = "", whereText = "", ifText = ""] = /(?:SET (.*?))?\s*WHERE (.*?)(?:\s+IF (.*))?$/s.exec(query)!;
  const comparisons = (text: string): Comparison[] =>
    [...text.matchAll(/(\w+) (<=|>=|<|>|=) (\?|\d+)/g)].map(([, column, operator, value]) => ({
      column: column!,
      operator: operator!,
      value: valueOf(value!),
    }));
  const [set, where, conditions] = [setText, whereText, ifText].map(comparisons) as [Comparison[], Comparison[], Comparison[]];
  const rowOf = (equal: readonly Comparison[]): Row => new Map(equal.map(({ column, value }) => [column, value]));
  const equal = rowOf(where.filter(({ operator }) => operator === "="));
  return { verb, equal, set: rowOf(set), bounds: where.filter(({ operator }) => operator !== "="), conditions, onlyNew: false };
}

function isWithin(row: Row, equal: Row, bounds: readonly Comparison[]): boolean {
  return (
    [...equal].every(([column, value]) => compare(row.get(column), "=", value)) &&
    bounds.every(({ column, operator, value }) => compare(row.get(column), operator, value))
  );
}

function compare(left: Column, operator: string, right: Column): boolean {
  const [a, b] = [left, right].map((each) => (typeof each === "number" ? BigInt(each) : each)) as [bigint, bigint];
  switch (operator) {
    case "<":
      return a < b;
    case "<=":
      return a <= b;
    case ">":
      return a > b;
    case ">=":
      return a >= b;
    default:
      return a === b;
  }
}

function nameOf(key: Row): string {
  return KEY.map((column) => `${key.get(column) as string | number | bigint}`).join("/");
}
