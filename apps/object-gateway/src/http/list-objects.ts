import { listObjectsXml } from "@concord/s3";
import { withOwners } from "./acls.ts";
import type { Operation } from "./context.ts";
import { listPage, NO_ENTRIES } from "./list-page.ts";
import { xml } from "./responses.ts";

/** Version 1: pages go on by a key. */
export const listObjects: Operation = async (call, { store }) => {
  const { bucket, query, access } = call;
  const page = listPage(call, "max-keys");
  const marker = query.one("marker") ?? "";
  const after = marker === "" ? undefined : marker;
  const listing = page.limit === 0 ? NO_ENTRIES : await store.listObjects({ bucket, ...page, after });
  const { objects, commonPrefixes, next } = listing;
  return xml(
    listObjectsXml({
      ...page,
      bucket,
      marker,
      // Without a delimiter the next marker is the last key of the page, and S3 does not say it.
      nextMarker: page.delimiter === undefined ? undefined : next,
      maxKeys: page.limit,
      objects: withOwners(access, objects),
      commonPrefixes,
      truncated: next !== undefined,
      owner: { id: access.owner },
    }),
  );
};
