import { createHmac, timingSafeEqual } from "node:crypto";
import { BEAT_BYTES, GROUNDED_STATEMENT_BYTES, RING_BEAT_BYTES } from "@concord/failure-detection";

/** Of the HMAC-SHA256: enough that guessing one takes longer than any cluster lives. */
export const SEAL_BYTES = 16;
/** Of a sealed datagram of any kind. */
export const SEALED_BYTES_MAX = Math.max(BEAT_BYTES, RING_BEAT_BYTES, GROUNDED_STATEMENT_BYTES) + SEAL_BYTES;
const KEY_LABEL = "concord heartbeats 1";

export interface Seal {
  /** The payload, then its seal. */
  readonly seal: (payload: Uint8Array) => Uint8Array;
  /** The payload; undefined when no member of this cluster made it. */
  readonly open: (datagram: Uint8Array) => Uint8Array | undefined;
}

/** A key of its own from the cluster's secret: a datagram says nothing of what the secret is used for elsewhere. */
export function sealWith(secret: string): Seal {
  const key = createHmac("sha256", secret).update(KEY_LABEL).digest();
  const sealOf = (payload: Uint8Array): Buffer => createHmac("sha256", key).update(payload).digest().subarray(0, SEAL_BYTES);
  return {
    seal: (payload) => Buffer.concat([payload, sealOf(payload)]),
    open: (datagram) => {
      if (datagram.length <= SEAL_BYTES) return undefined;
      const payload = datagram.subarray(0, -SEAL_BYTES);
      return timingSafeEqual(sealOf(payload), datagram.subarray(-SEAL_BYTES)) ? payload : undefined;
    },
  };
}
