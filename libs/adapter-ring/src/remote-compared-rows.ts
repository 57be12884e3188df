import { compareBytes } from "@concord/codec";
import { keyOfStored } from "@concord/quorum";
import { SEGMENT_LEAVES, type ComparedPeer, type Segment, type SegmentRow } from "@concord/repair";
import { ConcordError } from "@concord/runtime";
import { withLeftOut } from "./large-values.ts";
import type { PeerSession } from "./peer-session.ts";
import { RemoteRowReplica } from "./remote-rows.ts";

const LEAF_BYTES = 8;

/** A peer's rows as anti-entropy compares them. INTERNAL: an answer that is none to the question. */
export class RemoteComparedRows implements ComparedPeer {
  readonly name: string;
  readonly #peer: PeerSession;
  readonly #rows: RemoteRowReplica;

  constructor(peer: PeerSession) {
    this.name = peer.name;
    this.#peer = peer;
    this.#rows = new RemoteRowReplica(peer);
  }

  get reachable(): boolean {
    return this.#peer.reachable;
  }

  async sums(segment: Segment, timeoutMs: number): Promise<{ readonly to: Uint8Array; readonly leaves: readonly number[] }> {
    const { toKey, leaves, collection } = await this.#peer.call("repairSums", { fromKey: segment.from, toKey: segment.to }, timeoutMs);
    this.#peer.collection = collection;
    if (leaves.length !== SEGMENT_LEAVES * LEAF_BYTES) throw this.#wrong("its sums are cut");
    return { to: this.#checkedEnd(segment, toKey), leaves: leavesFromWire(leaves) };
  }

  async rows(segment: Segment, leaves: readonly number[], timeoutMs: number): Promise<{ to: Uint8Array; rows: readonly SegmentRow[] }> {
    const request = { fromKey: segment.from, toKey: segment.to, leaves: Uint8Array.from(leaves) };
    const response = await this.#peer.call("repairRows", request, timeoutMs);
    const values = await withLeftOut(this.#peer, response.rows, response.leftOut, timeoutMs);
    const rows = values.filter(({ length }) => length > 0).map((value) => ({ key: keyOfStored(value), value }));
    return { to: this.#checkedEnd(segment, response.toKey), rows };
  }

  get collection(): string | undefined {
    return this.#peer.collection;
  }

  applyCopies(mutations: readonly Uint8Array[], collection: string | undefined, timeoutMs: number): Promise<boolean> {
    return this.#rows.applyCopies(mutations, collection, timeoutMs);
  }

  #checkedEnd({ from, to }: Segment, end: Uint8Array): Uint8Array {
    if (compareBytes(from, end) >= 0 || compareBytes(end, to) > 0) throw this.#wrong("it read another range");
    // A view would keep the whole frame for as long as the round stands here.
    return Uint8Array.from(end);
  }

  #wrong(what: string): ConcordError {
    return new ConcordError("INTERNAL", `${this.name} answered a comparison of rows wrongly: ${what}`);
  }
}

export function leavesToWire(leaves: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(leaves.length * LEAF_BYTES);
  const view = new DataView(bytes.buffer);
  leaves.forEach((sum, leaf) => view.setBigUint64(leaf * LEAF_BYTES, BigInt(sum)));
  return bytes;
}

function leavesFromWire(bytes: Uint8Array): readonly number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / LEAF_BYTES }, (_, leaf) => Number(view.getBigUint64(leaf * LEAF_BYTES)));
}
