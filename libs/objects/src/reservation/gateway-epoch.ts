import { oidOf, parseOid, type Oid } from "@concord/ports";
import { assert, ConcordError, every, sleep, Task, toConcordError, type Log, type Metrics, type Tasks, type Timer } from "@concord/runtime";
import { acquireEpoch, putEpoch, readEpoch, type EpochStores, type HeldEpoch } from "./epoch-row.ts";
import {
  BLOCK_FETCH_SHARE,
  BLOCK_NAMES,
  EPOCH_HEARTBEAT_MS,
  RESERVE_RETRY_MS,
  TAKERS_WAITING_MAX,
  TAKE_WAIT_MS,
  UNRESOLVED_NAMES_MAX,
} from "./limits.ts";
import { EpochNames, type NameBlock } from "./names.ts";

export interface EpochOptions extends EpochStores {
  /** The owner's name: the same after a restart. */
  readonly instance: string;
  /**
   * `blocks`: every name is reserved before its use, in the epoch's row and by `record` (OGD6). `free`: the epoch's number alone makes
   * names unique; a mode that must remember them records them elsewhere.
   */
  readonly names:
    | { readonly kind: "blocks"; readonly record: (epoch: number, block: NameBlock) => Promise<void> }
    | { readonly kind: "free" };
  /** Names of one block: BLOCK_NAMES when not given. */
  readonly blockNames?: number;
  readonly heartbeatMs?: number;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly failpoint: (name: string) => void;
  /** The epoch was closed by another gateway: it yields no more names. Called once. */
  readonly onFenced: (epoch: number) => void;
}

interface Taker {
  readonly resolve: (sequence: number) => void;
  readonly reject: (cause: ConcordError) => void;
  readonly timer: Timer;
}

type EpochState = "open" | "fenced" | "stopped";

/** Acquires the next epoch and reserves its first block; resolves when names can be taken. */
export async function openEpoch(options: EpochOptions): Promise<GatewayEpoch> {
  const blockNames = blockNamesOf(options);
  const held = await acquireEpoch(options, options.instance, options.names.kind === "blocks" ? blockNames : 0);
  options.failpoint("object:after-epoch-claimed");
  if (options.names.kind === "blocks") await options.names.record(held.row.epoch, { from: 0, to: blockNames });
  return new GatewayEpoch(options, held);
}

/**
 * One epoch of this gateway: names, the low-water mark of the unresolved ones, and the row that shares both. The row is written at an
 * interval, so that others see that its gateway lives, and with every block.
 */
export class GatewayEpoch {
  readonly epoch: number;
  readonly #options: EpochOptions;
  readonly #blockNames: number;
  readonly #names = new EpochNames();
  readonly #takers = new Set<Taker>();
  readonly #stopping = new AbortController();
  #held: HeldEpoch;
  #state: EpochState = "open";
  /** Writes of the row go one at a time. */
  #rowWrite: Promise<unknown> = Promise.resolve();
  #fetching: Promise<void> | undefined;
  readonly #heartbeat: Task;

  constructor(options: EpochOptions, held: HeldEpoch) {
    assert(!held.row.closed, "OGD3: names are taken from an epoch that is open");
    this.#options = options;
    this.#blockNames = blockNamesOf(options);
    this.#held = held;
    this.epoch = held.row.epoch;
    this.#names.add({ from: 0, to: options.names.kind === "free" ? 2 ** 48 - 1 : held.row.reservedTo });
    const { heartbeatMs = EPOCH_HEARTBEAT_MS } = options;
    this.#heartbeat = new Task({
      ...options,
      name: `objects: heartbeat of epoch ${this.epoch}`,
      firstAfterMs: heartbeatMs,
      ...every(heartbeatMs, () => this.beat()),
      failed: ({ message }) => options.log.warn("the epoch's row could not be written", { epoch: this.epoch, reason: message }),
      progress: () => ({ unresolvedNames: this.#names.unresolvedCount }),
    });
    this.#heartbeat.start();
  }

  get state(): EpochState {
    return this.#state;
  }

  get lowWater(): number {
    return this.#names.lowWater;
  }

  /** Names taken and not resolved, ascending. */
  unresolved(): readonly number[] {
    return this.#names.unresolved();
  }

  /** EPOCH_FENCED, OVERLOADED when no block is reserved in time or too many names are unresolved. */
  async take(): Promise<Oid> {
    this.#assertOpen();
    if (this.#names.unresolvedCount >= UNRESOLVED_NAMES_MAX) throw overloaded("too many uploads are undecided");
    const sequence = this.#takers.size === 0 ? this.#names.take() : undefined;
    if (this.#isBlockDue) this.#fetch();
    const name = sequence ?? (await this.#waitForName());
    const { names } = this.#options;
    assert(names.kind === "free" || name < this.#held.row.reservedTo, "I10: a name is used once its block is in the epoch's row");
    return oidOf(this.epoch, name);
  }

  resolve(oid: Oid): void {
    const { epoch, sequence } = parseOid(oid);
    assert(epoch === this.epoch, `blob ${oid} is of epoch ${this.epoch}`);
    this.#names.resolve(sequence);
  }

  /** Reads the row: EPOCH_FENCED when another gateway closed it (OGD3). */
  async confirmOpen(): Promise<void> {
    this.#assertOpen();
    const found = await readEpoch(this.#options.metadata, this.epoch);
    if (found === undefined || found.row.closed) this.fenced();
    this.#assertOpen();
  }

  /** Another gateway closed the epoch: here or at the data store it was refused. */
  fenced(): void {
    if (this.#state !== "open") return;
    this.#state = "fenced";
    this.#end(fencedError(this.epoch));
    this.#options.log.warn("the epoch of this gateway was closed by another", {
      epoch: this.epoch,
      unresolved: this.#names.unresolvedCount,
    });
    this.#options.onFenced(this.epoch);
  }

  /**
   * No further names. With nothing unresolved the epoch is closed as recovered and needs no further recovery; else the low-water
   * mark is written for its recovery. A failure is reported, not thrown: recovery does the same.
   */
  async stop(): Promise<void> {
    if (this.#state === "stopped") return;
    const wasOpen = this.#state === "open";
    this.#state = "stopped";
    this.#end(new ConcordError("DRAINING", "the gateway is stopping"));
    await this.#fetching;
    await this.#rowWrite;
    if (!wasOpen) return;
    try {
      if (this.#names.unresolvedCount === 0) await this.#closeClean();
      else await this.#writeRow((row) => ({ ...row, lowWater: this.#waterOf(row) }));
    } catch (thrown) {
      this.#options.log.warn("the epoch stays open; it will be recovered", { epoch: this.epoch, reason: toConcordError(thrown).message });
    }
  }

  /** Writes the low-water mark now, as the interval does. */
  async beat(): Promise<void> {
    if (this.#state !== "open") return;
    this.#options.metrics.gauge("objects_names_unresolved", this.#names.unresolvedCount);
    await this.#writeRow((row) => ({ ...row, lowWater: this.#waterOf(row) }));
  }

  async #closeClean(): Promise<void> {
    assert(this.#state === "stopped" && this.#takers.size === 0, "no name is taken from an epoch that closes");
    await this.#options.data.closeEpoch(this.epoch);
    assert(this.#names.unresolvedCount === 0, "I11: an epoch is recovered once its names are resolved");
    await this.#writeRow((row) => ({ ...row, lowWater: row.reservedTo, closed: true }));
  }

  /** Never beyond what is reserved, never back. */
  #waterOf(row: HeldEpoch["row"]): number {
    return Math.max(row.lowWater, Math.min(this.#names.lowWater, row.reservedTo));
  }

  #end(cause: ConcordError): void {
    this.#stopping.abort();
    void this.#heartbeat.stop();
    for (const taker of this.#takers) this.#refuse(taker, cause);
    assert(this.#takers.size === 0, "no upload waits for a name of an epoch that ended");
  }

  #refuse(taker: Taker, cause: ConcordError): void {
    taker.timer.cancel();
    const isWaiting = this.#takers.delete(taker);
    assert(isWaiting, "who waits for a name is answered once");
    taker.reject(cause);
  }

  #waitForName(): Promise<number> {
    if (this.#takers.size >= TAKERS_WAITING_MAX) throw overloaded("too many uploads wait for a name");
    return new Promise((resolve, reject) => {
      const late = (): void => this.#refuse(taker, overloaded("no block of names was reserved in time"));
      const taker: Taker = { resolve, reject, timer: this.#options.clock.setTimer(TAKE_WAIT_MS, late) };
      this.#takers.add(taker);
    });
  }

  get #isBlockDue(): boolean {
    return this.#names.available <= this.#blockNames * BLOCK_FETCH_SHARE;
  }

  #fetch(): void {
    if (this.#fetching !== undefined) return;
    this.#fetching = this.#fetchBlocks().finally(() => (this.#fetching = undefined));
  }

  /** Until enough names are reserved; never rejects. */
  async #fetchBlocks(): Promise<void> {
    while (this.#state === "open" && this.#isBlockDue) {
      try {
        const block = await this.#reserveBlock();
        if (block === undefined) return;
        this.#names.add(block);
        this.#serveTakers();
      } catch (thrown) {
        this.#options.log.warn("no block of names could be reserved", { epoch: this.epoch, reason: toConcordError(thrown).message });
        await sleep(this.#options.clock, RESERVE_RETRY_MS, this.#stopping.signal);
      }
    }
  }

  /** In the row, then in the journal; only then it is used (I10). A block that one of them may lack is never used: the next one is behind it. */
  async #reserveBlock(): Promise<NameBlock | undefined> {
    const { names } = this.#options;
    assert(names.kind === "blocks", "free names need no block");
    let from = 0;
    const held = await this.#writeRow((row) => {
      from = row.reservedTo;
      return { ...row, reservedTo: from + this.#blockNames, lowWater: this.#waterOf(row) };
    });
    if (held === undefined) return undefined;
    this.#options.failpoint("object:after-block-mirrored");
    const block = { from, to: from + this.#blockNames };
    assert(block.to <= held.row.reservedTo, "I10: a block is in the epoch's row before it is in the journal");
    await names.record(this.epoch, block);
    this.#options.failpoint("object:after-block-recorded");
    return block;
  }

  #serveTakers(): void {
    for (const taker of this.#takers) {
      const sequence = this.#names.take();
      if (sequence === undefined) return;
      taker.timer.cancel();
      this.#takers.delete(taker);
      taker.resolve(sequence);
    }
  }

  /**
   * Replaces the row by what `change` makes of it; undefined: the epoch was closed. What an earlier write with a lost answer made of it is
   * found by the conflict, and `change` runs again on that. STORE_FAILED when the answer stays lost.
   */
  #writeRow(change: (row: HeldEpoch["row"]) => HeldEpoch["row"]): Promise<HeldEpoch | undefined> {
    const write = async (): Promise<HeldEpoch | undefined> => {
      for (;;) {
        const written = await putEpoch(this.#options, this.#held, change(this.#held.row));
        if (written.kind === "unknown")
          throw new ConcordError("STORE_FAILED", "it is unknown whether the epoch's row was written", { cause: written.cause });
        if (written.kind === "changed" && (written.held === undefined || written.held.row.closed)) {
          this.fenced();
          return undefined;
        }
        if (written.held !== undefined) this.#held = written.held;
        if (written.kind === "written") return written.held;
      }
    };
    const turn = this.#rowWrite.then(write);
    this.#rowWrite = turn.catch(() => undefined);
    return turn;
  }

  #assertOpen(): void {
    if (this.#state === "fenced") throw fencedError(this.epoch);
    if (this.#state === "stopped") throw new ConcordError("DRAINING", "the gateway is stopping");
  }
}

function blockNamesOf({ blockNames = BLOCK_NAMES }: EpochOptions): number {
  assert(blockNames >= 1, "a block has names");
  return blockNames;
}

const overloaded = (what: string): ConcordError => new ConcordError("OVERLOADED", `${what}; try again`);
const fencedError = (epoch: number): ConcordError =>
  new ConcordError("EPOCH_FENCED", `epoch ${epoch} was closed: its gateway was taken for dead`, { metadata: { epoch: String(epoch) } });
