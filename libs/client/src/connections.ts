import type { ServiceContract } from "@concord/protos";
import { contract as dedup } from "@concord/protos-dedup";
import { contract as storage } from "@concord/protos-storage";
import { contract as txn } from "@concord/protos-txn";
import { bearer, SessionClient } from "@concord/rpc";
import type { Channel, Clock, Metadata, Transport } from "@concord/runtime";

/** Services that have a session stream; calls of the others are unary. */
export type SessionService =
  | "concord.txn.v1.TransactionService"
  | "concord.storage.v1.RowsService"
  | "concord.storage.v1.BatchService"
  | "concord.dedup.v1.IngestService"
  | "concord.dedup.v1.OutputService"
  | "concord.dedup.v1.WindowService";
export type UnaryService = "concord.txn.v1.TopologyService" | "concord.txn.v1.SchemaService" | "concord.storage.v1.SchemaService";

interface Peer {
  readonly channel: Channel;
  readonly sessions: Map<SessionService, SessionClient<ServiceContract>>;
}

/** One channel per address and one session per service and address, opened at their first call. */
export class Connections {
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #metadata: Metadata;
  readonly #peers = new Map<string, Peer>();

  constructor(transport: Transport, clock: Clock, token: string | undefined) {
    this.#transport = transport;
    this.#clock = clock;
    this.#metadata = bearer(token);
  }

  /** An operation of a session stream, by the name of its oneof case. */
  call<Response extends object>(
    address: string,
    service: SessionService,
    operation: string,
    request: object,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Response> {
    return this.#session(address, service).callByName(operation, request, options) as Promise<Response>;
  }

  async unary<Response extends object>(
    address: string,
    service: UnaryService,
    method: string,
    request: object,
    timeoutMs: number,
  ): Promise<Response> {
    const { methods } = contractOf(service);
    return (await this.#peer(address).channel.unary(methods[method]!, request, { timeoutMs, metadata: this.#metadata })) as Response;
  }

  close(): void {
    for (const peer of this.#peers.values()) {
      for (const session of peer.sessions.values()) session.close();
      peer.channel.close();
    }
    this.#peers.clear();
  }

  #session(address: string, service: SessionService): SessionClient<ServiceContract> {
    const peer = this.#peer(address);
    let session = peer.sessions.get(service);
    if (session === undefined) {
      session = new SessionClient({ channel: peer.channel, contract: contractOf(service), clock: this.#clock, metadata: this.#metadata });
      peer.sessions.set(service, session);
    }
    return session;
  }

  #peer(address: string): Peer {
    let peer = this.#peers.get(address);
    if (peer === undefined) {
      peer = { channel: this.#transport.connect(address), sessions: new Map() };
      this.#peers.set(address, peer);
    }
    return peer;
  }
}

const CONTRACTS = { dedup, storage, txn };

function contractOf(service: SessionService | UnaryService): ServiceContract {
  const [, owner, , name] = service.split(".");
  return CONTRACTS[owner as keyof typeof CONTRACTS].service(name!);
}
