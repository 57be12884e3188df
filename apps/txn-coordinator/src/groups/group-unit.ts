import type { Ended, Unit } from "@concord/ownership";
import type { GroupLog } from "@concord/ports";
import type { Log } from "@concord/runtime";
import type { TransactionGroup } from "@concord/transactions";
import { VERIFY_TIMEOUT_MS } from "../limits.ts";

export interface GroupUnitOptions {
  readonly group: TransactionGroup;
  /** Work of this tenure before the group counts as served; when it fails, the tenure ends. */
  readonly prepare: () => Promise<void>;
  readonly groupLog: GroupLog;
  readonly storageTimeoutMs: number;
  readonly log: Log;
}

/** One tenure of a transaction group in this process. */
export class GroupUnit implements Unit {
  readonly group: TransactionGroup;
  /** Whatever ended it: another try decides whether the group can be served. */
  readonly ended: Promise<Ended>;
  readonly #options: GroupUnitOptions;

  constructor(options: GroupUnitOptions) {
    this.#options = options;
    this.group = options.group;
    this.ended = this.group.ended.then(() => "fenced");
  }

  async open(): Promise<void> {
    await this.group.start();
    try {
      await this.#options.prepare();
    } catch (thrown) {
      this.group.stop();
      throw thrown;
    }
  }

  drain(graceMs: number): Promise<void> {
    return graceMs === 0 ? this.group.drain() : this.group.handOver(graceMs);
  }

  async stop(): Promise<void> {
    this.group.stop();
  }

  /** Each time without an answer doubles the next one's budget: a log that is slow is not asked for ever in vain. */
  async confirm(unanswered: number): Promise<boolean> {
    const { groupLog, storageTimeoutMs, log } = this.#options;
    const { group, owner, state } = this.group;
    if (state.kind !== "serving") return false;
    const timeoutMs = Math.min(storageTimeoutMs, VERIFY_TIMEOUT_MS * 2 ** unanswered);
    const verified = await groupLog.verify({ group, epoch: state.master.epoch, owner }, timeoutMs).catch(() => "unknown" as const);
    if (verified === "fenced") this.group.overtaken();
    if (verified === "unknown") log.debug("the log did not report whether the epoch holds", { group, timeoutMs });
    return verified === "current";
  }
}
