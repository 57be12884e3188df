import type { BatchLogReplica, BatchLogWrite, BatchLogWritten, PutResult } from "@concord/logged-batch";
import type { BatchLogPutResult } from "@concord/protos-storage";
import { ConcordError, timeIdToBytes } from "@concord/runtime";
import type { PeerSession } from "./peer-session.ts";

const RESULTS: Readonly<Record<BatchLogPutResult, PutResult | undefined>> = {
  BATCH_LOG_PUT_RESULT_UNSPECIFIED: undefined,
  BATCH_LOG_PUT_RESULT_KEPT: "kept",
  BATCH_LOG_PUT_RESULT_MISMATCH: "mismatch",
  BATCH_LOG_PUT_RESULT_FULL: "full-entries",
  BATCH_LOG_PUT_RESULT_FULL_BYTES: "full-bytes",
  BATCH_LOG_PUT_RESULT_EXPIRED: "expired",
};

/** A peer's batchlog. */
export class RemoteBatchLog implements BatchLogReplica {
  readonly #peer: PeerSession;

  constructor(peer: PeerSession) {
    this.#peer = peer;
  }

  async write({ entries, decided, removed }: BatchLogWrite, timeoutMs: number): Promise<BatchLogWritten> {
    const request = { entries, decidedIds: decided.map(timeIdToBytes), removedIds: removed.map(timeIdToBytes) };
    const response = await this.#peer.call("batchLogPut", request, timeoutMs);
    const { applied } = response;
    const results = response.results.map((result) => RESULTS[result]).filter((result) => result !== undefined);
    // A node of the release before answers nothing: it would never merge what it keeps.
    if (results.length !== entries.length || applied.length !== decided.length)
      throw new ConcordError("INTERNAL", `${this.#peer.name} does not answer for each batch; upgrade it to the release of this node`);
    return { results, applied };
  }

  /** A reader here waits for the decision of a batch that the peer coordinates. */
  async want(timeoutMs: number): Promise<void> {
    await this.#peer.call("batchLogPut", { wanted: true }, timeoutMs);
  }
}
