import { assert, ConcordError, toConcordError, toHex, unreachable, type TimeId } from "@concord/runtime";
import type { GroupContext } from "./group-context.ts";
import { ServingMaster } from "./serving-master.ts";
import { takeOver } from "./takeover.ts";

const INCARNATION_BYTES = 8;

/** A master's life; what belongs to it lives on its state. Fenced and stopped are for ever: a new life is a new object (TXD1). */
export type GroupState =
  | { readonly kind: "starting" }
  | { readonly kind: "taking-over"; readonly stop: AbortController }
  | { readonly kind: "serving"; readonly master: ServingMaster }
  | { readonly kind: "fenced"; readonly error: ConcordError }
  | { readonly kind: "stopped" };

/**
 * One transaction group's master (TX2): takes the group over under a new epoch, then runs its transactions until it is fenced or drained.
 * Its operations are those of `serving()`.
 */
export class TransactionGroup {
  readonly #context: GroupContext;
  readonly #owner: string;
  readonly #ended = Promise.withResolvers<void>();
  #state: GroupState = { kind: "starting" };

  constructor(context: GroupContext) {
    this.#context = context;
    // One owner per epoch (TXR1): no two lives share it, not even of the same node.
    this.#owner = `${context.settings.nodeName}/${toHex(context.random.bytes(INCARNATION_BYTES))}`;
  }

  get group(): string {
    return this.#context.settings.group;
  }

  get owner(): string {
    return this.#owner;
  }

  get state(): GroupState {
    return this.#state;
  }

  /** Resolves when this life no longer serves nor takes over: fenced, failed or stopped. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Takes the group over (TXR3, TXD2); serving when it resolves. Rejects when that can never succeed, or after `stop`. */
  async start(): Promise<void> {
    const { log } = this.#context;
    assert(this.#state.kind === "starting", "TXD1: a life begins once");
    const stop = new AbortController();
    this.#state = { kind: "taking-over", stop };
    try {
      const taken = await takeOver(this.#context, this.#owner, stop.signal);
      if (stop.signal.aborted) throw new ConcordError("DRAINING", `group ${this.group} was stopped`);
      assert(this.#state.kind === "taking-over", "TXD1: only what took the group over serves it");
      this.#state = { kind: "serving", master: new ServingMaster(this.#context, taken, (error) => this.#fence(error)) };
      log.info("group taken over", { group: this.group, epoch: taken.epoch, lastSeq: taken.lastSeq, pending: taken.decided.length });
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (!stop.signal.aborted) this.#state = { kind: "fenced", error };
      this.#ended.resolve();
      throw error;
    }
  }

  /** Open transactions are aborted with DRAINING, commits are finished and applied; then stopped. */
  async drain(): Promise<void> {
    const state = this.#state;
    if (state.kind === "taking-over") state.stop.abort();
    if (state.kind === "serving") await state.master.drain(draining());
    this.#state = { kind: "stopped" };
    this.#ended.resolve();
  }

  /**
   * Planned hand-over (TX17): nothing new begins, what is open goes on for at most `graceMs`, then as `drain`. Another master may raise the epoch
   * when it resolves: nothing of this one is refused by it.
   */
  async handOver(graceMs: number): Promise<void> {
    const state = this.#state;
    if (state.kind === "serving") await state.master.finish(graceMs);
    await this.drain();
  }

  /** At once, as in a crash, but in order: commits in flight become OUTCOME_UNKNOWN. */
  stop(): void {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    if (state.kind === "taking-over") state.stop.abort();
    if (state.kind === "serving") state.master.stop(draining());
    this.#ended.resolve();
  }

  /** The log has a newer epoch: as when an append is refused for it. */
  overtaken(): void {
    this.#fence(new ConcordError("EPOCH_FENCED", "another master has raised the epoch"));
  }

  /**
   * The master that runs the group's transactions here. STARTING, EPOCH_FENCED or DRAINING when it does not serve; `applied` is what that
   * refusal claims: a repeated commit may have been applied by its first try, which only a serving master knows.
   */
  serving(applied: "no" | "unknown" = "no"): ServingMaster {
    const state = this.#state;
    switch (state.kind) {
      case "serving":
        return state.master;
      case "starting":
      case "taking-over":
        throw new ConcordError("STARTING", `group ${this.group} is being taken over; try again`, { applied });
      case "fenced":
        throw new ConcordError("EPOCH_FENCED", `group ${this.group} is no longer served here: ${state.error.message}`, { applied });
      case "stopped":
        throw draining(applied);
      default:
        return unreachable(state);
    }
  }

  /** Is a transaction of this caller open here under the id? False when this master does not serve. */
  hasOpen(id: TimeId, identity: string): boolean {
    return this.#state.kind === "serving" && this.#state.master.hasOpen(id, identity);
  }

  /** Is it remembered as committed, and this caller's? False when this master does not serve. */
  hasCommitted(id: TimeId, identity: string): boolean {
    return this.#state.kind === "serving" && this.#state.master.hasCommitted(id, identity);
  }

  /** Is the transaction open here, or remembered? False when this master does not serve. */
  knows(id: TimeId): boolean {
    return this.#state.kind === "serving" && this.#state.master.knows(id);
  }

  sessionEnded(sessionId: number): void {
    if (this.#state.kind === "serving") this.#state.master.sessionEnded(sessionId);
  }

  #fence(error: ConcordError): void {
    const state = this.#state;
    if (state.kind !== "serving") return;
    this.#context.log.warn("fenced: this master ends here", { group: this.group, epoch: state.master.epoch, reason: error.message });
    this.#context.metrics.count("txn_groups_fenced_total", 1, { group: this.group });
    this.#state = { kind: "fenced", error };
    state.master.stop(error);
    this.#ended.resolve();
  }
}

function draining(applied: "no" | "unknown" = "no"): ConcordError {
  return new ConcordError("DRAINING", "this coordinator hands the group over or is shutting down; repeat the transaction", { applied });
}
