import type { AdvanceRequest, AppendOutcome, AppendRequest, GroupLog, GroupOwner, LogTail, RaiseOutcome } from "@concord/ports";
import { GroupLogService, type AppendRequest as WireAppend, type LogTail as WireTail } from "@concord/protos-storage";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import { epochOf, isTimestampUs, seqOf, type Epoch, type Span } from "@concord/runtime";
import { EXCHANGES_MAX } from "./limits.ts";
import { ProxyCalls, type ProxyChannels } from "./proxy-calls.ts";
import { malformedAnswer } from "./storage-proxy-rows.ts";

/**
 * A group's log through a storage-proxy. A call that fails on the way throws; for an append that says nothing about the entry, and the
 * identical append may be sent again.
 */
export class StorageProxyGroupLog implements GroupLog {
  readonly #calls: ProxyCalls<GroupLogService>;
  #exchangesMax = 1;

  constructor(channels: ProxyChannels) {
    this.#calls = new ProxyCalls(channels, GroupLogService);
  }

  /** As the last status said. */
  get exchangesMax(): number {
    return this.#exchangesMax;
  }

  async status(group: string, timeoutMs: number): Promise<{ readonly promisedEpoch: Epoch; readonly owner: string }> {
    const { promisedEpoch, owner, exchangesMax } = await this.#calls.call("status", { group }, timeoutMs);
    // 0: of a storage-proxy from before this field.
    this.#exchangesMax = Math.max(1, Math.min(exchangesMax, EXCHANGES_MAX));
    return { promisedEpoch: epochOf(promisedEpoch), owner };
  }

  async raise({ group, epoch, owner }: GroupOwner, timeoutMs: number): Promise<RaiseOutcome> {
    const response = await this.#calls.call("raise", { group, epoch, owner, protocol: GROUP_LOG_PROTOCOL }, timeoutMs);
    switch (response.result) {
      case "raised":
        return { kind: "raised", tail: tailFromWire(response.raised) };
      case "refused":
        return { kind: "refused", promisedEpoch: epochOf(response.refused.epoch), owner: response.refused.owner };
      case "unknown":
        return { kind: "unknown" };
      default:
        throw malformedAnswer("raise", "nothing");
    }
  }

  async append(request: AppendRequest, timeoutMs: number, span?: Span): Promise<AppendOutcome> {
    const { bytes, decided, ...rest } = request;
    const message: WireAppend = { ...rest, content: bytes, decidedSeq: decided.seq, decidedEpoch: decided.epoch };
    const response = await this.#calls.call("append", message, timeoutMs, span);
    switch (response.result) {
      case "logged":
        return { kind: "logged" };
      case "fenced":
        return { kind: "fenced", promisedEpoch: epochOf(response.fenced.epoch) };
      case "unknown":
        return { kind: "unknown" };
      default:
        throw malformedAnswer("append", "nothing");
    }
  }

  async verify({ group, epoch, owner }: GroupOwner, timeoutMs: number): Promise<"current" | "fenced" | "unknown"> {
    const { result } = await this.#calls.call("verify", { group, epoch, owner }, timeoutMs);
    if (result === "current" || result === "fenced" || result === "unknown") return result;
    throw malformedAnswer("verify", "nothing");
  }

  async advance({ decided, ...owner }: AdvanceRequest, timeoutMs: number): Promise<"advanced" | "unknown"> {
    const message = { ...owner, appliedSeq: decided.seq, appliedEpoch: decided.epoch };
    const { advanced } = await this.#calls.call("trim", message, timeoutMs);
    return advanced ? "advanced" : "unknown";
  }

  /** STORAGE_FULL, applied no, while the storage has too little space for new data. */
  async admit(timeoutMs: number): Promise<void> {
    await this.#calls.call("admit", {}, timeoutMs);
  }

  close(): void {
    this.#calls.close();
  }
}

function tailFromWire(tail: WireTail): LogTail {
  const { timestampCeilingUs } = tail;
  if (!isTimestampUs(timestampCeilingUs)) throw malformedAnswer("raise", `a ceiling of ${timestampCeilingUs} us`);
  const entries = tail.entries.map(({ seq, epoch, content, rows }) => ({
    seq: seqOf(seq),
    epoch: epochOf(epoch),
    bytes: Uint8Array.from(content),
    rows: Uint8Array.from(rows),
  }));
  return {
    appliesRows: tail.appliesRows,
    appliedSeq: seqOf(tail.appliedSeq),
    appliedEpoch: epochOf(tail.appliedEpoch),
    entries,
    timestampCeilingUs,
  };
}
