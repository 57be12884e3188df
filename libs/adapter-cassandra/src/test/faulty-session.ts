import { CassandraFailure } from "../failure.ts";
import type { CassandraSession, ResultRow, Statement } from "../session.ts";

/** `held`: the request is on its way until `releaseHeld`. */
export type Fault = "request-lost" | "answer-lost" | "held";

/** Passes on to a real session, and loses what the test says. */
export class FaultySession implements CassandraSession {
  readonly #session: CassandraSession;
  /** Of the next lightweight transactions, in order; undefined: none. */
  readonly swapFaults: (Fault | undefined)[] = [];
  /** Of the next reads at SERIAL: true fails with the write time-out that Cassandra answers under load. */
  readonly serialFaults: boolean[] = [];
  /** Changes what a node says of itself. */
  settings: ReadonlyMap<string, string> = new Map();
  /** Every lightweight transaction's statements. */
  readonly swaps: number[] = [];
  /** Runs before a held request times out. */
  whileHeld: () => Promise<void> = async () => undefined;
  /** Runs once what loses its answer is carried out. */
  onAnswerLost: () => void = () => undefined;
  readonly #held: (readonly Statement[])[] = [];

  constructor(session: CassandraSession) {
    this.#session = session;
  }

  read: CassandraSession["read"] = (statement, settings) => {
    const isLost = settings.consistency === "serial" && this.serialFaults.shift() === true;
    return isLost ? Promise.reject(casTimeOut()) : this.#session.read(statement, settings);
  };
  write: CassandraSession["write"] = (statements, settings) => this.#session.write(statements, settings);
  writeLogged: CassandraSession["writeLogged"] = (statements, settings) => this.#session.writeLogged(statements, settings);
  compareAndSet: CassandraSession["compareAndSet"] = async (statements, settings) => {
    this.swaps.push(statements.length);
    const fault = this.swapFaults.shift();
    if (fault === "held") {
      this.#held.push(statements);
      await this.whileHeld();
    }
    if (fault === "request-lost" || fault === "held") throw casTimeOut();
    const answer = await this.#session.compareAndSet(statements, settings);
    if (fault !== "answer-lost") return answer;
    this.onAnswerLost();
    throw casTimeOut();
  };
  /** What was held arrives, in order; answers what was carried out. */
  async releaseHeld(): Promise<boolean[]> {
    const applied: boolean[] = [];
    for (const statements of this.#held.splice(0)) {
      applied.push((await this.#session.compareAndSet(statements, { timeoutMs: 5_000 })).isApplied);
    }
    return applied;
  }
  define: CassandraSession["define"] = (query) => this.#session.define(query);
  ask: CassandraSession["ask"] = async (address, query) => {
    const rows = await this.#session.ask(address, query);
    return rows.map((row): ResultRow => {
      const { name } = row;
      const changed = typeof name === "string" ? this.settings.get(name) : undefined;
      return changed === undefined ? row : { ...row, value: changed };
    });
  };
  avoid: CassandraSession["avoid"] = (addresses) => this.#session.avoid(addresses);
  nodes: CassandraSession["nodes"] = () => this.#session.nodes();
  close = async (): Promise<void> => undefined;
}

/** All that contention, a lost quorum and a lost answer look like (TXC2). */
function casTimeOut(): CassandraFailure {
  return new CassandraFailure("write-unacknowledged", "write time-out", { writeType: "CAS" });
}
