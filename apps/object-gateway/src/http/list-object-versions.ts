import { listVersionsXml, S3Error } from "@concord/s3";
import { withOwners } from "./acls.ts";
import type { Operation } from "./context.ts";
import { listPage } from "./list-page.ts";
import { xml } from "./responses.ts";

/** Objects and delete markers by key, then newest first. The next page's version marker says where a null version stands, too. */
export const listObjectVersions: Operation = async (call, { store }) => {
  const { bucket, query, access } = call;
  const page = listPage(call, "max-keys");
  const keyMarker = query.one("key-marker") ?? "";
  const versionIdMarker = query.one("version-id-marker") ?? "";
  if (keyMarker === "" && versionIdMarker !== "")
    throw new S3Error("InvalidArgument", "A version-id marker cannot be specified without a key marker.");
  const after = keyMarker === "" ? undefined : { key: keyMarker, versionId: versionIdMarker === "" ? undefined : versionIdMarker };
  const listing = await store.listVersions({ bucket, ...page, after });
  const versions = listing.versions.map((version) =>
    version.object === undefined ? version : { ...version, object: withOwners(access, [version.object])[0] },
  );
  return xml(
    listVersionsXml({
      ...page,
      ...listing,
      versions,
      bucket,
      keyMarker,
      versionIdMarker,
      maxKeys: page.limit,
      owner: { id: access.owner },
    }),
  );
};
