/** Members of which no datagram came by UDP for so long are beaten to over gRPC as well. */
export const UDP_SILENT_MS = 2_000;

/** Which members' datagrams get through by UDP, as far as what was heard tells. Times are monotonic. */
export class Paths {
  readonly #udpAtMs: number[];
  /** When a member last said, over gRPC, that it hears no datagram of ours. */
  readonly #wantedAtMs: number[];

  constructor(members: number, startedAtMs: number) {
    this.#udpAtMs = Array.from({ length: members }, () => startedAtMs);
    this.#wantedAtMs = Array.from({ length: members }, () => Number.NEGATIVE_INFINITY);
  }

  /** Another member has the place. */
  begin(member: number, nowMs: number): void {
    this.#udpAtMs[member] = nowMs;
    this.#wantedAtMs[member] = Number.NEGATIVE_INFINITY;
  }

  heardByUdp(from: number, nowMs: number): void {
    this.#udpAtMs[from] = nowMs;
  }

  heardByStream(from: number, hearsNoUdp: boolean, nowMs: number): void {
    this.#wantedAtMs[from] = hearsNoUdp ? nowMs : Number.NEGATIVE_INFINITY;
  }

  /** No datagram of the member comes by UDP: what is sent over gRPC says so. */
  isSilent(member: number, nowMs: number): boolean {
    return nowMs - this.#udpAtMs[member]! > UDP_SILENT_MS;
  }

  /** One direction may be blocked alone: the one that misses datagrams asks for them. */
  needsStream(to: number, nowMs: number): boolean {
    return this.isSilent(to, nowMs) || nowMs - this.#wantedAtMs[to]! <= UDP_SILENT_MS;
  }
}
