import { fnv1a64 } from "@concord/codec";
import type { Clock, ConcordError, Timer } from "@concord/runtime";
import { toConcordError } from "@concord/runtime";
import { decodeMessage, encodeBeat, encodeStatement } from "./beat-format.ts";
import { leaseEndMs } from "./lease.ts";
import type { MemberList } from "./list.ts";
import type { MembershipChange } from "./membership.ts";
import { newDetector, type DetectorOptions, type DetectorState } from "./state.ts";
import { step, type DetectorEvent } from "./step.ts";

export interface DetectorLoopOptions extends Omit<DetectorOptions, "members"> {
  /** Names of the configured members, in order. */
  readonly members: readonly string[];
  readonly clock: Pick<Clock, "monotonicMs" | "setTimer">;
  /** How long the main loop has made no progress. */
  readonly loopStalledMs: () => number;
  /** May lose it. Must not throw. */
  readonly send: (to: number, datagram: Uint8Array) => void;
  readonly onChange: (change: MembershipChange) => void;
  /** Another member counts by this newer version of the list, which is therefore to be read. */
  readonly onNewerList?: (version: number) => void;
  /** After every step. */
  readonly onLease: (endMs: number) => void;
}

/** Runs `step`: a tick every `tickMs`, a beat or a statement per datagram. */
export class DetectorLoop {
  readonly #options: DetectorLoopOptions;
  readonly #state: DetectorState;
  readonly #cluster: number;
  #timer: Timer | undefined;

  constructor(options: DetectorLoopOptions) {
    this.#options = options;
    this.#state = newDetector({ ...options, members: options.members.length }, options.clock.monotonicMs());
    this.#cluster = clusterFingerprint(options.members);
    this.#tick();
  }

  /** An authenticated datagram. Its sender's place, though it may be one that does not count; or what it was refused for. */
  receive(datagram: Uint8Array): number | ConcordError {
    const { clock, limits } = this.#options;
    try {
      const message = decodeMessage(datagram, this.#cluster, this.#state.topology, this.#state.list.kind === "recorded");
      // After a sleep the tick comes first: it must know of the sleep before old datagrams are read.
      if (clock.monotonicMs() - this.#state.tickedAtMs >= 2 * limits.tickMs) this.#tick();
      this.#step(message);
      return message.kind === "beat" ? message.beat.from : message.statement.from;
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.code !== "CORRUPT_DATA") throw thrown;
      return error;
    }
  }

  /** The list of members, as it was read; the read began at `readAtMs` of the clock. */
  listRead(list: MemberList, readAtMs: number): void {
    this.#step({ kind: "list", list, readAtMs });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #tick(): void {
    const { clock, limits, loopStalledMs } = this.#options;
    this.#timer?.cancel();
    this.#timer = clock.setTimer(limits.tickMs, () => this.#tick());
    this.#step({ kind: "tick", loopStalledMs: loopStalledMs() });
  }

  #step(event: DetectorEvent): void {
    const { clock, send, onChange, onLease, onNewerList } = this.#options;
    const effects = step(this.#state, event, clock.monotonicMs());
    onLease(leaseEndMs(this.#state));
    for (const effect of effects) {
      if (effect.kind === "send") send(effect.to, encodeBeat(effect.beat, this.#cluster, this.#state.topology));
      else if (effect.kind === "tell") send(effect.to, encodeStatement(effect.statement, this.#cluster));
      else if (effect.kind === "self") onChange(effect);
      else if (effect.kind === "newer-list") onNewerList?.(effect.version);
      else onChange({ kind: "verdict", member: effect.member, verdict: effect.verdict });
    }
  }
}

/** Equal for equal lists in equal order. */
function clusterFingerprint(members: readonly string[]): number {
  return Number(fnv1a64(undefined, new TextEncoder().encode(JSON.stringify(members))) & 0xffff_ffffn);
}
