import { HeartbeatService } from "@concord/protos-cluster";
import { bearer, defineService, SessionClient, type Authenticator, type Role, type Service } from "@concord/rpc";
import { assert, ConcordError, type Channel, type Clock, type Log, type Metrics, type Transport } from "@concord/runtime";
import { SEALED_BYTES_MAX } from "./sealed-datagram.ts";

/** The seal tells members from others, so all that may call the server may call this. */
const ROLES: readonly Role[] = ["client", "coordinator", "peer", "operator"];
const DATAGRAMS_MAX = 16;
/** All callers together in one window of this length: more than any cluster sends, and little enough that beats never wait for it. */
const WINDOW_MS = 100;
const WINDOW_DATAGRAMS_MAX = 512;
/** As late as this a beat is of no use. */
const DELIVER_TIMEOUT_MS = 200;
/** To one member at a time; what is more is lost, as datagrams may be. */
const CALLS_MAX = 8;

export interface BeatStreamsOptions {
  /** gRPC addresses, in the order of the configured members, or by place of a list that changes. */
  readonly addresses: readonly (string | undefined)[];
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly authenticator: Authenticator;
  /** Credentials for the members' servers. */
  readonly token: string | undefined;
  /** What a member sent. */
  readonly onDatagrams: (datagrams: readonly Uint8Array[], hearsNoUdp: boolean) => void;
}

interface Stream {
  readonly channel: Channel;
  readonly session: SessionClient<HeartbeatService>;
  calls: number;
}

/** Sealed datagrams over the members' gRPC ports, for members that UDP does not reach (TX13). May lose each, as UDP may. */
export class BeatStreams {
  /** To be mounted on this member's server. Serves from the start. */
  readonly service: Service;
  readonly #options: BeatStreamsOptions;
  readonly #streams = new Map<number, Stream>();
  #addresses: readonly (string | undefined)[];
  #window = { endsAtMs: Number.NEGATIVE_INFINITY, datagrams: 0 };

  constructor(options: BeatStreamsOptions) {
    this.#options = options;
    this.#addresses = options.addresses;
    const { clock, log, metrics, authenticator, onDatagrams } = options;
    this.service = defineService(
      {
        contract: HeartbeatService,
        unary: {
          Deliver: ({ datagrams, hearsNoUdp }) => {
            if (datagrams.length > DATAGRAMS_MAX || datagrams.some(({ length }) => length > SEALED_BYTES_MAX)) throw tooMuch();
            if (this.#hasRoomFor(datagrams.length)) onDatagrams(datagrams, hearsNoUdp);
            return {};
          },
        },
        roles: ROLES,
      },
      { clock, log, metrics, authenticator },
    );
    this.service.setState("serving");
  }

  /** `hearsNoUdp`: no datagram of that member comes here by UDP, so it should send them this way. */
  send(to: number, datagram: Uint8Array, hearsNoUdp: boolean): void {
    const stream = this.#streamTo(to);
    // The member was removed while its datagram was on its way from the thread.
    if (stream === undefined) return;
    if (stream.calls >= CALLS_MAX) return;
    stream.calls += 1;
    const ended = (): void => {
      assert(stream.calls > 0, "a call ends once");
      stream.calls -= 1;
    };
    stream.session.call("deliver", { datagrams: [datagram], hearsNoUdp }, { timeoutMs: DELIVER_TIMEOUT_MS }).then(ended, ended);
  }

  /** Other members from now on. */
  change(addresses: readonly (string | undefined)[]): void {
    const before = this.#addresses;
    this.#addresses = addresses;
    for (const member of this.#streams.keys()) if (addresses[member] !== before[member]) this.#closeTo(member);
  }

  close(): void {
    for (const member of this.#streams.keys()) this.#closeTo(member);
  }

  #closeTo(member: number): void {
    const { channel, session } = this.#streams.get(member)!;
    this.#streams.delete(member);
    session.close();
    channel.close();
  }

  /** A caller that floods the server loses datagrams, as with UDP. */
  #hasRoomFor(datagrams: number): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs >= this.#window.endsAtMs) this.#window = { endsAtMs: nowMs + WINDOW_MS, datagrams: 0 };
    this.#window.datagrams += datagrams;
    return this.#window.datagrams <= WINDOW_DATAGRAMS_MAX;
  }

  #streamTo(to: number): Stream | undefined {
    const known = this.#streams.get(to);
    if (known !== undefined) return known;
    const address = this.#addresses[to];
    if (address === undefined) return undefined;
    const { transport, clock, token } = this.#options;
    const channel = transport.connect(address);
    const session = new SessionClient({ channel, contract: HeartbeatService, clock, metadata: bearer(token) });
    const stream = { channel, session, calls: 0 };
    this.#streams.set(to, stream);
    return stream;
  }
}

function tooMuch(): ConcordError {
  return new ConcordError("LIMIT_EXCEEDED", `at most ${DATAGRAMS_MAX} datagrams of ${SEALED_BYTES_MAX} bytes`, {
    applied: "no",
    metadata: { limit: "datagramsMax" },
  });
}
