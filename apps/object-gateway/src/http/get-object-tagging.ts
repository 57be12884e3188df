import { taggingXml } from "@concord/s3";
import type { Operation } from "./call.ts";
import { xml } from "./responses.ts";

/** An empty set when there are none. */
export const getObjectTagging: Operation = async ({ bucket, key }, { store }) => xml(taggingXml(await store.objectTags(bucket, key)));
