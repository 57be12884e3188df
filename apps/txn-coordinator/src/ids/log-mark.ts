import { ByteWriter } from "@concord/codec";
import type { AppendRequest, DecidedMark, GroupLog, GroupOwner } from "@concord/ports";
import {
  assert,
  ConcordError,
  nextSeq,
  seqOf,
  timestampUsOf,
  toConcordError,
  type Epoch,
  type Seq,
  type TimestampUs,
} from "@concord/runtime";
import type { HighWaterMark } from "@concord/snowflake";
import { ID_MARK_TRIM_EVERY } from "../limits.ts";

/** Content of an entry: the mark is its timestamp ceiling, which a log keeps when it drops its entries; this is for people who look. */
const MARK_FORMAT = 1;
const US_PER_MS = 1_000n;

/** A worker id's group under our epoch. */
export interface OwnedMark extends GroupOwner {
  readonly lastSeq: Seq;
  readonly lastEpoch: Epoch;
  readonly ceilingUs: TimestampUs;
}

/**
 * The high-water mark of a worker id, appended to its log under the epoch of the lease (I6): who took the id over raised a newer epoch
 * first and starts above the last mark that could still be appended under ours. So ids are unique without trusting time.
 */
export class LogMark implements HighWaterMark {
  readonly #log: GroupLog;
  readonly #owned: OwnedMark;
  readonly #timeoutMs: number;
  readonly #floorMs: number;
  #seq: Seq;
  #previousEpoch: Epoch;
  /** Sent and undecided: only the identical append may come next. */
  #undecided: AppendRequest | undefined;

  constructor(log: GroupLog, owned: OwnedMark, timeoutMs: number) {
    this.#log = log;
    this.#owned = owned;
    this.#timeoutMs = timeoutMs;
    this.#floorMs = markMs(owned.ceilingUs);
    this.#seq = nextSeq(owned.lastSeq);
    this.#previousEpoch = owned.lastEpoch;
  }

  async load(): Promise<number | undefined> {
    return this.#floorMs === 0 ? undefined : this.#floorMs;
  }

  async raise(toMs: number): Promise<void> {
    if (this.#undecided !== undefined && (await this.#append(this.#undecided)) >= toMs) return;
    const { group, epoch, owner } = this.#owned;
    const bytes = new ByteWriter().u8(MARK_FORMAT).u64(BigInt(toMs)).finish();
    const timestampCeilingUs = timestampUsOf(BigInt(toMs) * US_PER_MS);
    const previousEpoch = this.#previousEpoch;
    const decided: DecidedMark = { seq: seqOf(this.#seq - 1n), epoch: previousEpoch };
    await this.#append({ group, epoch, owner, seq: this.#seq, previousEpoch, timestampCeilingUs, bytes, rows: new Uint8Array(), decided });
  }

  /** Answers the mark that is durable now. */
  async #append(request: AppendRequest): Promise<number> {
    this.#undecided = request;
    const outcome = await this.#log.append(request, this.#timeoutMs).catch((thrown: unknown) => refused(request.group, thrown));
    if (outcome.kind === "unknown") throw new ConcordError("REPLICAS_UNAVAILABLE", "the high-water mark of the ids may not be durable yet");
    if (outcome.kind === "fenced") throw fenced(request.group);
    assert(request.seq === this.#seq, "one append at a time");
    this.#undecided = undefined;
    this.#seq = nextSeq(this.#seq);
    this.#previousEpoch = request.epoch;
    if (request.seq % ID_MARK_TRIM_EVERY === 0n) this.#trim({ seq: request.seq, epoch: request.epoch });
    return markMs(request.timestampCeilingUs);
  }

  /** Best effort: the next one repeats it. The ceiling stays. */
  #trim(decided: DecidedMark): void {
    const { group, epoch, owner } = this.#owned;
    this.#log.advance({ group, epoch, owner, decided }, this.#timeoutMs).catch(toConcordError);
  }
}

export function markMs(ceilingUs: TimestampUs): number {
  return Number((ceilingUs + US_PER_MS - 1n) / US_PER_MS);
}

/** A call that failed on the way says nothing about the entry: it stays undecided. One that was refused cannot be ours any more. */
function refused(group: string, thrown: unknown): never {
  const error = toConcordError(thrown);
  throw error.kind === "rejected" ? fenced(group, error) : error;
}

function fenced(group: string, cause?: ConcordError): ConcordError {
  return new ConcordError("EPOCH_FENCED", `the log ${group} of this worker id belongs to another process`, { cause });
}
