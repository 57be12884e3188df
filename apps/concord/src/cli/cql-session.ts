// A statement of `concord cql` and its effect: at the cluster, or in the transaction that BEGIN opened.
import type {
  ConcordClient,
  Fields,
  FailedRow,
  OpenTransaction,
  Row,
  StatementResult,
  TableDescription,
  TypedValue,
  Value,
} from "@concord/client";
import { toConcordError } from "@concord/runtime";
import { parse, type Statement } from "@concord/schema";
import { isCellType, literalValue } from "@concord/values";

/** The answer of a statement: rows with the names of their columns, or a line. */
export type Answer =
  | { readonly kind: "rows"; readonly columns: readonly string[]; readonly rows: readonly Row[]; readonly hasMore: boolean }
  | { readonly kind: "done"; readonly text: string };

type Body = Statement["body"];
type Write = Extract<Body, { kind: "insert" | "update" | "delete" }>;
type RowStatement = Write | Extract<Body, { kind: "select" }>;

/** A statement that makes no sense here; nothing was sent. */
export class StatementError extends Error {}

interface Begun {
  /** Undefined until a statement names the row that picks the transaction's group. */
  readonly transaction: OpenTransaction | undefined;
}

export class CqlSession {
  readonly #db: ConcordClient;
  /** At most so many rows of a SELECT are printed. */
  readonly #rowsMax: number;
  #begun: Begun | undefined;

  constructor(db: ConcordClient, rowsMax: number) {
    this.#db = db;
    this.#rowsMax = rowsMax;
  }

  get isInTransaction(): boolean {
    return this.#begun !== undefined;
  }

  /** StatementError, or the client's error: then an open transaction is rolled back. */
  async execute(text: string): Promise<Answer> {
    const words = text.trim().toLowerCase().split(/\s+/);
    try {
      return (await this.#ownVerb(words)) ?? (await this.#statement(text));
    } catch (thrown) {
      await this.close();
      throw thrown;
    }
  }

  /** Rolls back what is open. */
  async close(): Promise<void> {
    const begun = this.#begun;
    this.#begun = undefined;
    await begun?.transaction?.rollback();
  }

  /** Undefined: a statement of CQL. */
  async #ownVerb(words: readonly string[]): Promise<Answer | undefined> {
    const [first, second, ...rest] = words;
    if (first === "begin" && (second === undefined || (second === "transaction" && rest.length === 0))) return this.#begin();
    if (first === "commit" && second === undefined) return await this.#commit();
    if (first === "rollback" && second === undefined) return await this.#rollback();
    if (first !== "describe" && first !== "desc") return undefined;
    if (second === "tables" || second === undefined) return await this.#describeTables();
    return await this.#describeTable(second === "table" ? (rest[0] ?? "") : second);
  }

  #begin(): Answer {
    if (this.#begun !== undefined) throw new StatementError("a transaction is open already: COMMIT or ROLLBACK it first");
    this.#begun = { transaction: undefined };
    return done("begun");
  }

  async #commit(): Promise<Answer> {
    const { transaction } = this.#open();
    this.#begun = undefined;
    if (transaction === undefined) return done("committed: it had no statement");
    const { group, seq, timestampUs } = await transaction.commit();
    return done(`committed: group ${group}, entry ${seq}, timestamp ${timestampUs} us`);
  }

  async #rollback(): Promise<Answer> {
    this.#open();
    await this.close();
    return done("rolled back");
  }

  #open(): Begun {
    if (this.#begun === undefined) throw new StatementError("no transaction is open: BEGIN opens one");
    return this.#begun;
  }

  async #statement(text: string): Promise<Answer> {
    const { body, bindCount } = parsed(text);
    if (bindCount > 0) throw new StatementError("a ? stands for a value of a program; write the value itself here");
    if (body.kind === "create-table" || body.kind === "create-index") return await this.#create(text);
    if (this.#begun !== undefined) return await this.#inTransaction(body, text);
    const condition = body.kind !== "select" && body.kind !== "batch" && body.condition !== undefined;
    if (condition) return outcomeOf(await this.#db.executeIf(text));
    if (body.kind === "select") return await this.#select(body.columns, (pageSize) => this.#db.query(text, [], { pageSize }));
    const { superseded } = await this.#db.query(text);
    return done(superseded === true ? "written, and superseded: the row holds newer cells" : "written");
  }

  async #create(text: string): Promise<Answer> {
    if (this.#begun !== undefined) throw new StatementError("tables are created outside a transaction: COMMIT or ROLLBACK first");
    return done(`created: schema version ${await this.#db.createTables([text])}`);
  }

  async #inTransaction(body: Body, text: string): Promise<Answer> {
    if (body.kind === "batch") throw new StatementError("a transaction takes its statements one by one, without BATCH");
    const transaction = await this.#transactionFor(body as RowStatement);
    if (body.kind === "select") return await this.#select(body.columns, (pageSize) => transaction.query(text, [], { pageSize }));
    if ((body as Write).condition !== undefined) return outcomeOf(await transaction.executeIf(text));
    await transaction.query(text);
    return done("will be written by COMMIT");
  }

  async #transactionFor(body: RowStatement): Promise<OpenTransaction> {
    const { transaction } = this.#open();
    if (transaction !== undefined) return transaction;
    const table = await this.#table(body.table);
    const opened = await this.#db.start({ table: table.name, key: keyIn(body, table) });
    this.#begun = { transaction: opened };
    return opened;
  }

  async #select(
    columns: readonly string[] | undefined,
    page: (pageSize: number) => Promise<{ rows: Row[]; next: Uint8Array | undefined }>,
  ): Promise<Answer> {
    const { rows: whole, next } = await page(this.#rowsMax);
    const rows = columns === undefined ? whole : whole.map((row) => Object.fromEntries(columns.map((name) => [name, row[name] ?? null])));
    return { kind: "rows", columns: columns ?? columnsOf(rows), rows, hasMore: next !== undefined };
  }

  async #describeTables(): Promise<Answer> {
    const tables = await this.#db.tables();
    const rows = tables.map((table) => ({
      table: table.name,
      kind: table.kind,
      "primary key": keyText(table),
      indexes: table.indexes.map(({ name }) => name).join(", "),
    }));
    return { kind: "rows", columns: ["table", "kind", "primary key", "indexes"], rows, hasMore: false };
  }

  async #describeTable(name: string): Promise<Answer> {
    const table = await this.#table(name);
    const roleOf = (column: string): string => {
      if (table.partitionKey.includes(column)) return "partition key";
      if (table.clusteringKey.includes(column)) return "clustering key";
      return table.indexes
        .filter(({ columns }) => columns.includes(column))
        .map((index) => `index ${index.name}`)
        .join(", ");
    };
    const rows = table.columns.map((column) => ({ column: column.name, type: column.type, role: roleOf(column.name) }));
    return { kind: "rows", columns: ["column", "type", "role"], rows, hasMore: false };
  }

  async #table(given: string): Promise<TableDescription> {
    const name = given.replaceAll('"', "");
    const tables = await this.#db.tables();
    const found = tables.find((table) => table.name === name);
    if (found === undefined) throw new StatementError(`there is no table ${name}; DESCRIBE TABLES lists them`);
    return found;
  }
}

function done(text: string): Answer {
  return { kind: "done", text };
}

function parsed(text: string): Statement {
  try {
    return parse(text);
  } catch (thrown) {
    const { code, message } = toConcordError(thrown);
    throw new StatementError(`${code}: ${message}`);
  }
}

/** Columns that any of the rows has, in the order in which they are met. */
function columnsOf(rows: readonly Row[]): readonly string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

function keyText({ partitionKey, clusteringKey }: TableDescription): string {
  const partition = partitionKey.length === 1 ? partitionKey.join() : `(${partitionKey.join(", ")})`;
  return `(${[partition, ...clusteringKey].join(", ")})`;
}

function outcomeOf(result: StatementResult): Answer {
  if (result.applied) return done("applied");
  const rows = result.failed.map(failedRow);
  return { kind: "rows", columns: ["applied", ...columnsOf(rows).filter((name) => name !== "applied")], rows, hasMore: false };
}

/** A row that did not fulfil the condition, as it was compared. */
function failedRow({ key, row }: FailedRow): Row {
  return { applied: false, ...(key as Row), ...row };
}

/** The whole primary key that a statement names, as values of its columns. */
function keyIn(body: RowStatement, table: TableDescription): Fields {
  const named =
    body.kind === "insert"
      ? body.assignments
      : body.where.filter(({ operator }) => operator === "=").map(({ column, term }) => ({ column, term }));
  const terms = new Map(named.map(({ column, term }) => [column.name, term]));
  const names = [...table.partitionKey, ...table.clusteringKey];
  return Object.fromEntries(
    names.map((name): [string, Value | TypedValue] => {
      const term = terms.get(name);
      const type = table.columns.find((column) => column.name === name)?.type;
      if (term === undefined || term.kind === "null" || term.kind === "bind" || term.kind === "call" || !isCellType(type))
        throw new StatementError(
          `the first statement of a transaction names one row by its whole key, which picks the group: the key of ${table.name} is ${names.join(", ")}`,
        );
      const outcome = literalValue(type, term);
      if (outcome.kind === "refused") throw new StatementError(`${table.name}.${name}: the value given ${outcome.problem}`);
      return [name, outcome.value];
    }),
  );
}
