import type { LogPosition } from "@concord/ports";
import type { ExchangeTime, GroupRead, GroupReplica, GroupRows, ReplicaPage, ReplicaRange, RowReplica } from "@concord/quorum";
import { seqOf, timestampUsOf, type Seq, type TimestampUs } from "@concord/runtime";
import type { ReadRowRangeRequest } from "@concord/protos-storage";
import { withLeftOut } from "./large-values.ts";
import type { PeerSession } from "./peer-session.ts";

/** A peer's rows. Bytes go through as they are stored. */
export class RemoteRowReplica implements RowReplica, GroupReplica {
  readonly name: string;
  readonly #peer: PeerSession;

  constructor(peer: PeerSession) {
    this.name = peer.name;
    this.#peer = peer;
  }

  get reachable(): boolean {
    return this.#peer.reachable;
  }

  get collection(): string | undefined {
    return this.#peer.collection;
  }

  async applyRows(mutations: readonly Uint8Array[], timeoutMs: number): Promise<TimestampUs> {
    return timestampUsOf((await this.#peer.call("applyRows", { mutations }, timeoutMs)).supersededUs);
  }

  async applyCopies(mutations: readonly Uint8Array[], collection: string | undefined, timeoutMs: number): Promise<boolean> {
    const request = { mutations, copies: true, collection: collection ?? "" };
    const response = await this.#peer.call("applyRows", request, timeoutMs);
    this.#peer.collection = response.collection;
    return !response.stale;
  }

  async readRows(
    keys: readonly Uint8Array[],
    timeoutMs: number,
    after: readonly LogPosition[],
    time?: ExchangeTime,
  ): Promise<readonly Uint8Array[]> {
    const { images, leftOut } = await this.#peer.call("readRows", { keys, after }, timeoutMs, { time });
    return withLeftOut(this.#peer, images, leftOut, timeoutMs, time);
  }

  async readRowRange(range: ReplicaRange, timeoutMs: number, after: readonly LogPosition[], time?: ExchangeTime): Promise<ReplicaPage> {
    const { from, to, reverse, limit } = range;
    const request = { fromKey: from, toKey: to, reverse, limit, after };
    const { images, more, leftOut } = await this.#peer.call("readRowRange", request, timeoutMs, { time });
    const rows = await withLeftOut(this.#peer, images, leftOut, timeoutMs, time);
    // A row that was collected since is as one that was never there; a page is never empty and goes on.
    if (leftOut.length > 0 && more && rows.every(({ length }) => length === 0)) return this.readRowRange(range, timeoutMs, after, time);
    return { rows: leftOut.length === 0 ? rows : rows.filter(({ length }) => length > 0), more };
  }

  async readGroup({ group, seq, rows }: GroupRead, timeoutMs: number): Promise<GroupRows> {
    const request = rows.kind === "keys" ? { keys: rows.keys } : { range: rangeToWire(rows.range) };
    const { images, more, appliedSeq } = await this.#peer.call("readGroup", { group, seq, ...request }, timeoutMs);
    return { rows: images, more, appliedSeq: seqOf(appliedSeq) };
  }

  async catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    await this.#peer.call("logCatchUp", { group, seq }, timeoutMs);
  }
}

function rangeToWire({
  from,
  to,
  reverse,
  limit,
}: ReplicaRange): Pick<ReadRowRangeRequest, "fromKey" | "toKey" | "reverse" | "limit" | "after"> {
  return { fromKey: from, toKey: to, reverse, limit, after: [] };
}
