import type { Batches, GroupLog, ObjectMetadata, RowStore, StorageBackend, WriteMark } from "@concord/ports";
import { assert, ConcordError, StartWaits, type Environment, type TimestampUs } from "@concord/runtime";
import { batchlogCopies, checkBatchlogCopies } from "./batchlog-copies.ts";
import { cassandraBatches } from "./cassandra-batches.ts";
import { CheckedKeyspace } from "./checked-keyspace.ts";
import { CheckedNodes } from "./checked-nodes.ts";
import { CassandraGroupLog } from "./cassandra-group-log.ts";
import { CassandraMetadata } from "./cassandra-metadata.ts";
import { CassandraRowStore } from "./cassandra-row-store.ts";
import { cassandraWriteMark } from "./cassandra-write-mark.ts";
import { DeadRows } from "./dead-rows.ts";
import { CassandraFailure } from "./failure.ts";
import { purgeOutcomes } from "./purge-outcomes.ts";
import { checkSchema } from "./schema.ts";
import type { CassandraSession, OpenSession, SessionOptions } from "./session.ts";
import { checkKeyspaceName } from "./tables.ts";

export interface CassandraBackendOptions extends Omit<SessionOptions, "clock" | "log" | "onNodeUp"> {
  readonly openSession: OpenSession;
  readonly keyspace: string;
  readonly environment: Environment;
  readonly drawTimestampUs: () => TimestampUs;
  readonly writeTimeoutMs: number;
  /** So many nodes have settings that must not be that acknowledged data could be lost: the process must end. */
  readonly onFailed: (cause: ConcordError) => void;
}

interface Serving {
  readonly session: CassandraSession;
  readonly checked: CheckedNodes;
  readonly checkedKeyspace: CheckedKeyspace;
  readonly deadRows: DeadRows;
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  readonly batches: Batches;
  readonly objectMetadata: ObjectMetadata;
}

type State = { readonly kind: "opened" | "starting" | "stopped" } | ({ readonly kind: "serving" } & Serving);

/** A late answer leaves nothing to close. */
const abandon = (): void => undefined;

/** Rows, group log and batches on a Cassandra cluster; keeps nothing itself. */
export class CassandraBackend implements StorageBackend {
  readonly #options: CassandraBackendOptions;
  #state: State = { kind: "opened" };
  #stopped: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  readonly #stopping = new AbortController();

  constructor(options: CassandraBackendOptions) {
    checkKeyspaceName(options.keyspace);
    this.#options = options;
  }

  get rows(): RowStore {
    return this.#serving().rows;
  }

  get groupLog(): GroupLog {
    return this.#serving().groupLog;
  }

  get batches(): Batches {
    return this.#serving().batches;
  }

  get objectMetadata(): ObjectMetadata {
    return this.#serving().objectMetadata;
  }

  /** `load` is a step of the program's start, and waits as the others do. */
  get writeMark(): WriteMark {
    const { environment, writeTimeoutMs } = this.#options;
    const { startWaits = new StartWaits(environment) } = environment;
    const mark = cassandraWriteMark(this.rows, writeTimeoutMs);
    const load = () =>
      startWaits.until("the mark of timestamps in Cassandra", () => mark.load(), { signal: this.#stopping.signal, abandon });
    return { ...mark, load };
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.checkedKeyspace.isRight;
  }

  /**
   * Waits for a first node; then every node that is up is checked (TXC3), the schema and the keyspace; says when batches have one copy of their log
   * (LBC1). A step that fails because nodes do not answer, or too few do, is repeated until the stop.
   */
  start(signal: AbortSignal): Promise<void> {
    assert(this.#starting === undefined, "a backend starts once");
    return (this.#starting = this.#start(AbortSignal.any([signal, this.#stopping.signal])));
  }

  async #start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#state = { kind: "starting" };
    const { environment, keyspace } = this.#options;
    const { clock, log, metrics, startWaits = new StartWaits(environment) } = environment;
    const session = await this.#connect(startWaits, signal);
    const checked = new CheckedNodes({ session, clock, tasks: environment.tasks, log, metrics, onFailed: this.#options.onFailed });
    const checkedKeyspace = new CheckedKeyspace({ session, keyspace, clock, tasks: environment.tasks, log, metrics });
    try {
      await startWaits.until("the settings of Cassandra's nodes", () => checked.checkAll(), { signal, abandon });
      await startWaits.until(`Concord's tables in the keyspace ${keyspace}`, () => checkSchema(session, keyspace), { signal, abandon });
      await startWaits.until(`the settings of the keyspace ${keyspace}`, () => checkedKeyspace.checkAtStart(), {
        signal,
        abandon: () => checkedKeyspace.stop(),
      });
      checkBatchlogCopies(session, this.#options.datacenter, log);
      signal.throwIfAborted();
    } catch (thrown) {
      checkedKeyspace.stop();
      const closed = session.close();
      // Nodes that are silent do not keep the stop.
      signal.throwIfAborted();
      await closed;
      throw thrown;
    }
    const serving: Serving = { ...this.#open(session, checked), checkedKeyspace };
    this.#state = { kind: "serving", ...serving };
    serving.deadRows.start();
  }

  async purge(beforeMs: number): Promise<number> {
    const { session } = this.#serving();
    const { keyspace, environment, writeTimeoutMs } = this.#options;
    return purgeOutcomes({ session, keyspace, clock: environment.clock, beforeMs, timeoutMs: writeTimeoutMs });
  }

  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the backend is stopped", { applied: "no" }));
    const state = this.#state;
    this.#state = { kind: "stopped" };
    if (state.kind === "serving") {
      state.checked.stop();
      state.checkedKeyspace.stop();
      await state.deadRows.stop();
      await state.session.close();
    }
    await this.#starting?.catch(() => undefined);
  }

  /** Tries until a node answers; a refusal (credentials, datacenter) is for the operator. */
  async #connect(startWaits: StartWaits, signal: AbortSignal): Promise<CassandraSession> {
    const { openSession, environment, contactPoints } = this.#options;
    const { clock, log } = environment;
    const open = (): Promise<CassandraSession> =>
      openSession({ ...this.#options, clock, log, onNodeUp: (address) => void this.#onNodeUp(address) });
    const again = (thrown: unknown): boolean => !isRefusal(thrown);
    try {
      return await startWaits.until(`Cassandra at ${contactPoints.join(", ")}`, open, {
        signal,
        again,
        abandon: (session) => void session.close(),
      });
    } catch (thrown) {
      signal.throwIfAborted();
      if (!isRefusal(thrown)) throw thrown;
      throw new ConcordError("INTERNAL", `Cassandra refuses this node: ${thrown.message}`, { applied: "no", cause: thrown });
    }
  }

  async #onNodeUp(address: string): Promise<void> {
    if (this.#state.kind === "serving") await this.#state.checked.cameUp(address);
  }

  #open(session: CassandraSession, checked: CheckedNodes): Omit<Serving, "checkedKeyspace"> {
    const { keyspace, datacenter, environment, drawTimestampUs, writeTimeoutMs } = this.#options;
    const { clock, random, checksum, log, metrics, failpoint } = environment;
    const target = { session, keyspace, batchBytesMax: () => checked.batchBytesMax };
    const groupLog = new CassandraGroupLog({ session, keyspace, clock });
    const whenApplied = groupLog.whenApplied.bind(groupLog);
    // Cassandra does not say where it logs a batch: they are counted.
    const holders = (): readonly string[] =>
      Array.from({ length: batchlogCopies(session.nodes(), datacenter) }, (_, at) => `cassandra-${at + 1}`);
    return {
      session,
      checked,
      deadRows: new DeadRows({ ...environment, session, keyspace, timeoutMs: writeTimeoutMs, isAllowed: () => this.ready }),
      groupLog,
      objectMetadata: new CassandraMetadata({ session, keyspace, clock, random }),
      rows: new CassandraRowStore({ ...target, clock, whenApplied }),
      batches: cassandraBatches({ ...target, clock, checksum, log, metrics, drawTimestampUs, writeTimeoutMs, failpoint, holders }),
    };
  }

  #serving(): Serving {
    if (this.#state.kind === "serving") return this.#state;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "this node is not connected to Cassandra");
  }
}

function isRefusal(thrown: unknown): thrown is CassandraFailure {
  return thrown instanceof CassandraFailure && thrown.kind === "refused";
}
