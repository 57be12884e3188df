import type { PlainTombstone, TombstonePeer } from "@concord/repair";
import { ConcordError } from "@concord/runtime";
import type { PeerSession } from "./peer-session.ts";

/** The tombstones of a peer's plain rows. INTERNAL: an answer that is none to the question. */
export class RemoteTombstones implements TombstonePeer {
  readonly name: string;
  readonly #peer: PeerSession;

  constructor(peer: PeerSession) {
    this.name = peer.name;
    this.#peer = peer;
  }

  get reachable(): boolean {
    return this.#peer.reachable;
  }

  async held(tombstones: readonly PlainTombstone[], timeoutMs: number): Promise<readonly boolean[]> {
    const { held } = await this.#peer.call("tombstones", { tombstones, drop: false }, timeoutMs);
    if (held.length !== tombstones.length) throw new ConcordError("INTERNAL", `${this.name} does not answer for each tombstone`);
    return held;
  }

  async drop(tombstones: readonly PlainTombstone[], timeoutMs: number): Promise<void> {
    await this.#peer.call("tombstones", { tombstones, drop: true }, timeoutMs);
  }
}
