import type { BucketUsageInit, ObjectAdminService } from "@concord/protos-object";
import type { Handler } from "@concord/rpc";
import type { ObjectAdmin } from "./object-admin.ts";

/** Objects and bytes of one bucket or all. */
export function getUsageHandler(admin: () => ObjectAdmin): Handler<ObjectAdminService, "GetUsage"> {
  return async ({ bucket }) => {
    const buckets = await admin().usage(bucket === "" ? undefined : bucket);
    return { buckets: buckets.map((one): BucketUsageInit => ({ bucket: one.bucket, objects: one.objects, bytes: one.bytes })) };
  };
}
