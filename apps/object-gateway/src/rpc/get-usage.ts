import type { UnaryHandler } from "@concord/rpc";
import type { ObjectAdmin } from "./object-admin.ts";

/** Objects and bytes of one bucket or all. */
export function getUsageHandler(admin: () => ObjectAdmin): UnaryHandler {
  return async ({ bucket }: { readonly bucket: string }) => {
    const buckets = await admin().usage(bucket === "" ? undefined : bucket);
    return { buckets: buckets.map((one) => ({ bucket: one.bucket, objects: one.objects, bytes: one.bytes })) };
  };
}
