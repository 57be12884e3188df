// Which object is made of an upload's parts.
import type { MetadataRow, RowVersion } from "@concord/ports";
import type { ObjectStoreContext } from "../context.ts";
import { objectOf } from "../head-row.ts";
import { assertAnswered } from "../page-invariants.ts";
import { decodeRowAs } from "../row-codec.ts";
import { doneUploadKey, headKey, nullVersionKey, uploadKey, versionKey } from "../row-keys.ts";
import type { UploadRow } from "../rows.ts";

export interface UploadUse {
  readonly head: MetadataRow | undefined;
  /** Its own row, open or remembered as done; undefined: neither is there. */
  readonly upload: { readonly key: Uint8Array; readonly version: RowVersion; readonly row: UploadRow } | undefined;
  /** An object, current or not, is made of its parts. */
  readonly isNamed: boolean;
}

/** By one serial read of the key's rows, and one of the version that the upload made. CORRUPT_DATA: one of them cannot be read. */
export async function useOfUpload(context: ObjectStoreContext, partition: string, key: string, uploadId: bigint): Promise<UploadUse> {
  const keys = [headKey(key), nullVersionKey(key), uploadKey(key, uploadId), doneUploadKey(key, uploadId)];
  const rows = await context.metadata.read(partition, keys);
  assertAnswered(rows, keys);
  const [head, nullRow, openRow, doneRow] = rows;
  const uploadRow = openRow ?? doneRow;
  const upload =
    uploadRow === undefined ? undefined : { key: uploadRow.key, version: uploadRow.version, row: decodeRowAs("upload", uploadRow.value) };
  const versionRow = upload === undefined ? undefined : await versionOfUpload(context, partition, key, upload.row);
  const isNamedBy = (row: MetadataRow | undefined): boolean => {
    const content = objectOf(row)?.row.content;
    return content?.kind === "parts" && content.uploadId === uploadId;
  };
  return { head, upload, isNamed: [head, nullRow, versionRow].some(isNamedBy) };
}

/** The row of the version that the upload made, where it is not current. */
async function versionOfUpload(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  { state }: UploadRow,
): Promise<MetadataRow | undefined> {
  if (state.kind !== "done" || state.version === undefined) return undefined;
  const [row] = await context.metadata.read(partition, [versionKey(key, state.version)]);
  return row;
}
