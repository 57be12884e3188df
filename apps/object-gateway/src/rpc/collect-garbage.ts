import type { ObjectAdminService } from "@concord/protos-object";
import type { Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { COLLECT_AHEAD_MS_MAX } from "../limits.ts";
import type { ObjectAdmin } from "./object-admin.ts";

/** Collects now what is due, or will be `aheadMs` from now (OG12, OGD10). */
export function collectGarbageHandler(admin: () => ObjectAdmin): Handler<ObjectAdminService, "CollectGarbage"> {
  return async ({ aheadMs }) => {
    if (aheadMs > BigInt(COLLECT_AHEAD_MS_MAX)) {
      const metadata = { limit: "COLLECT_AHEAD_MS_MAX", value: String(COLLECT_AHEAD_MS_MAX) };
      throw new ConcordError("LIMIT_EXCEEDED", `ahead_ms is ${aheadMs}; at most ${COLLECT_AHEAD_MS_MAX}`, { metadata });
    }
    const { blobs, bytes, kept, pending } = await admin().collectGarbage(Number(aheadMs));
    return { pieces: BigInt(blobs), bytes: BigInt(bytes), kept: BigInt(kept), pending: BigInt(pending) };
  };
}
