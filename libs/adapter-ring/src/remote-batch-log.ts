import type { BatchLogReplica } from "@concord/logged-batch";
import { timeIdToBytes, type TimeId } from "@concord/runtime";
import type { PeerSession } from "./peer-session.ts";

/** A peer's batchlog. */
export class RemoteBatchLog implements BatchLogReplica {
  readonly #peer: PeerSession;

  constructor(peer: PeerSession) {
    this.#peer = peer;
  }

  async put(entries: readonly Uint8Array[], timeoutMs: number): Promise<void> {
    await this.#peer.call("batchLogPut", { entries }, timeoutMs);
  }

  async remove(ids: readonly TimeId[], timeoutMs: number): Promise<void> {
    await this.#peer.call("batchLogRemove", { batchIds: ids.map(timeIdToBytes) }, timeoutMs);
  }
}
