import { listUploadsXml, type Fields } from "@concord/s3";
import { guidToText } from "@concord/snowflake";
import type { Operation } from "./call.ts";
import { listPage } from "./list-page.ts";
import { uploadIdFrom } from "./parameters.ts";
import { xml } from "./responses.ts";

const NONE = { uploads: [], commonPrefixes: [], next: undefined } as const;

/** Uploads that are open, by key and then by id. */
export const listMultipartUploads: Operation = async (call, { store }) => {
  const { bucket, query, tenant } = call;
  const page = listPage(call, "max-uploads");
  const after = markerOf(query);
  const { uploads, commonPrefixes, next } = page.limit === 0 ? NONE : await store.listUploads({ bucket, ...page, after });
  const textOf = (id: bigint | undefined): string => (id === undefined ? "" : guidToText(id));
  return xml(
    listUploadsXml({
      ...page,
      bucket,
      keyMarker: after?.key ?? "",
      uploadIdMarker: textOf(after?.uploadId),
      maxUploads: page.limit,
      owner: { id: tenant },
      uploads: uploads.map((upload) => ({ ...upload, uploadId: guidToText(upload.uploadId) })),
      commonPrefixes,
      next: next === undefined ? undefined : { key: next.key, uploadId: textOf(next.uploadId) },
    }),
  );
};

/** An id without a key means nothing, as S3 has it. */
function markerOf(query: Fields): { key: string; uploadId: bigint | undefined } | undefined {
  const key = query.one("key-marker") ?? "";
  if (key === "") return undefined;
  const id = query.one("upload-id-marker") ?? "";
  return { key, uploadId: id === "" ? undefined : uploadIdFrom(id) };
}
