import type { ObjectAdminService } from "@concord/protos-object";
import type { Handler } from "@concord/rpc";
import { CONSISTENCY_NAMES_MAX } from "../limits.ts";
import type { ObjectAdmin } from "./object-admin.ts";

/** Compares blobs and rows; changes nothing. */
export function checkConsistencyHandler(admin: () => ObjectAdmin): Handler<ObjectAdminService, "CheckConsistency"> {
  return async () => {
    const found = await admin().checkConsistency();
    return {
      pieces: BigInt(found.blobs),
      referenced: BigInt(found.referenced),
      garbage: BigInt(found.garbage),
      leaked: found.leaked.slice(0, CONSISTENCY_NAMES_MAX),
      leakedBytes: BigInt(found.leakedBytes),
      dangling: found.dangling.slice(0, CONSISTENCY_NAMES_MAX),
      danglingRefs: BigInt(found.danglingRefs),
    };
  };
}
