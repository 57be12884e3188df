import { MemoryGroupLog } from "@concord/port-contracts";
import type { AppendOutcome, AppendRequest, GroupLog, GroupOwner, RaiseOutcome } from "@concord/ports";
import { ConcordError } from "@concord/runtime";

/** What happens to the next calls: they work, answer "unknown" with the entry written or not, or fail before or after the write. */
export type LogFault = "works" | "unknown-written" | "unknown-lost" | "throws-written" | "throws-lost";

/** The log in memory behind a network that fails as the test says. */
export class FaultyLog implements GroupLog {
  readonly memory: GroupLog;
  fault: LogFault = "works";
  appends: AppendRequest[] = [];
  /** Called before every raise. */
  beforeRaise: (group: string, owner: string) => Promise<void> = () => Promise.resolve();

  constructor(memory: GroupLog = new MemoryGroupLog()) {
    this.memory = memory;
  }

  get exchangesMax(): number {
    return this.memory.exchangesMax;
  }

  status(group: string, timeoutMs: number): ReturnType<GroupLog["status"]> {
    return this.memory.status(group, timeoutMs);
  }

  async raise(owner: GroupOwner, timeoutMs: number): Promise<RaiseOutcome> {
    await this.beforeRaise(owner.group, owner.owner);
    return this.memory.raise(owner, timeoutMs);
  }

  async append(request: AppendRequest, timeoutMs: number): Promise<AppendOutcome> {
    this.appends.push(request);
    const isWritten = this.fault === "works" || this.fault.endsWith("written");
    const outcome: AppendOutcome = isWritten ? await this.memory.append(request, timeoutMs) : { kind: "unknown" };
    if (this.fault === "works") return outcome;
    if (this.fault.startsWith("throws")) throw new ConcordError("CONNECTION_LOST", "the answer was lost");
    return { kind: "unknown" };
  }

  verify(...call: Parameters<GroupLog["verify"]>): ReturnType<GroupLog["verify"]> {
    return this.memory.verify(...call);
  }

  advance(...call: Parameters<GroupLog["advance"]>): ReturnType<GroupLog["advance"]> {
    return this.memory.advance(...call);
  }
}
