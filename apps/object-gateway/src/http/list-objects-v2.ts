import { listObjectsV2Xml, S3Error } from "@concord/s3";
import { withOwners } from "./acls.ts";
import type { Operation } from "./context.ts";
import { listPage, NO_ENTRIES } from "./list-page.ts";
import { afterOfToken, pageTokenOf } from "./page-token.ts";
import { xml } from "./responses.ts";

/** Version 2: pages go on by an opaque token. */
export const listObjectsV2: Operation = async (call, { store }) => {
  const { bucket, query, access } = call;
  if (query.one("list-type") !== "2") throw new S3Error("InvalidArgument", "list-type is 2");
  const page = listPage(call, "max-keys");
  const token = query.one("continuation-token");
  const startAfter = query.one("start-after");
  // An empty token is none: some clients send it with the first page.
  const after = token === undefined || token === "" ? (startAfter === "" ? undefined : startAfter) : afterOfToken(token);
  const listing = page.limit === 0 ? NO_ENTRIES : await store.listObjects({ bucket, ...page, after });
  const { objects, commonPrefixes, next } = listing;
  return xml(
    listObjectsV2Xml({
      ...page,
      bucket,
      // The token that was sent, an empty one too.
      continuationToken: token,
      nextContinuationToken: next === undefined ? undefined : pageTokenOf(next),
      startAfter,
      maxKeys: page.limit,
      objects: withOwners(access, objects),
      commonPrefixes,
      truncated: next !== undefined,
      owner: query.one("fetch-owner") === "true" ? { id: access.owner } : undefined,
    }),
  );
};
