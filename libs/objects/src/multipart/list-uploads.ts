import { compareBytes } from "@concord/codec";
import type { MetadataRow } from "@concord/ports";
import { assert } from "@concord/runtime";
import type { ListedPart, ListedUpload, ObjectStore } from "../api.ts";
import type { ObjectStoreContext } from "../context.ts";
import { decodeRowAs } from "../row-codec.ts";
import {
  afterKey,
  afterPrefix,
  bucketPartition,
  numberOfPart,
  partKey,
  partSpan,
  uploadKey,
  uploadOfKey,
  uploadsFrom,
  uploadsOfKeySpan,
  uploadSpan,
  type KeySpan,
} from "../row-keys.ts";
import type { DataKey } from "../encryption/data-keys.ts";
import { shownChecksum } from "../get-object.ts";
import { commonPrefixOf } from "../list-objects.ts";
import { mergeShards } from "../shard-cursor.ts";
import { readBucket } from "../shard-view.ts";
import { keyOfParts } from "./upload-key.ts";
import { uploadUnknown, viewUpload } from "./upload-view.ts";

type ListPartsRequest = Parameters<ObjectStore["listParts"]>[0];
type PartListing = Awaited<ReturnType<ObjectStore["listParts"]>>;
type ListUploadsRequest = Parameters<ObjectStore["listUploads"]>[0];
type UploadListing = Awaited<ReturnType<ObjectStore["listUploads"]>>;

/** Parts that arrived: what a client that was interrupted need not send again (OG1). UPLOAD_UNKNOWN, also when it is completed. */
export async function listParts(context: ObjectStoreContext, request: ListPartsRequest): Promise<PartListing> {
  const { view, upload } = await viewUpload(context, "read", request, []);
  request.judge?.(upload.row);
  const { state, initiatedMs, checksum, acl } = upload.row;
  const key = await keyOfParts(context, request, upload.row, request.customerKey);
  if (state.kind === "done") throw uploadUnknown(request.uploadId);
  const limit = Math.min(request.limit, context.limits.listLimitMax);
  const from = partKey(request.key, request.uploadId, request.after + 1);
  const { to } = partSpan(request.key, request.uploadId);
  const found = limit === 0 ? [] : await context.metadata.range(view.partition, { from, to, limit: limit + 1 });
  const parts = found.slice(0, limit).map((row) => listedPart(row, key));
  return { parts, next: found.length > limit ? parts.at(-1)!.number : undefined, initiatedMs, checksum, owner: acl?.owner };
}

function listedPart(found: MetadataRow, key: DataKey | undefined): ListedPart {
  const row = decodeRowAs("part", found.value);
  const { etag, lengthBytes, modifiedMs } = row;
  return { number: numberOfPart(found.key), etag, sizeBytes: lengthBytes, modifiedMs, checksum: shownChecksum(row, key) };
}

/** Uploads that are not done, by key and then by age, merged over the bucket's shards. */
export async function listUploads(context: ObjectStoreContext, request: ListUploadsRequest): Promise<UploadListing> {
  const { prefix, delimiter } = request;
  const limit = Math.min(request.limit, context.limits.listLimitMax);
  const uploads: ListedUpload[] = [];
  const commonPrefixes: string[] = [];
  const { row: bucket } = await readBucket(context, request.bucket);
  const partitions = Array.from({ length: bucket.shards }, (_, shard) => bucketPartition(bucket.name, shard));
  const rows = mergeShards(context, partitions, startOf(request));
  let last: UploadListing["next"];
  for (let row = limit === 0 ? undefined : await rows.peek(); row !== undefined; row = await rows.peek()) {
    const { key, uploadId } = uploadOfKey(row.key);
    if (!key.startsWith(prefix)) break;
    const { state, initiatedMs, acl } = decodeRowAs("upload", row.value);
    const common = commonPrefixOf(key, prefix, delimiter);
    if (state.kind === "done") {
      // Of a version that left them here.
      rows.take();
      continue;
    }
    assertPage(uploads.length + commonPrefixes.length, limit);
    if (uploads.length + commonPrefixes.length === limit) return { uploads, commonPrefixes, next: last };
    if (common === undefined) {
      uploads.push({ key, uploadId, initiatedMs, owner: acl?.owner });
      rows.take();
      last = { key, uploadId };
    } else {
      assert(commonPrefixes.at(-1) !== common, "a listing of uploads has each common prefix once");
      commonPrefixes.push(common);
      rows.seek(afterPrefix(uploadsFrom(common)));
      last = { key: common, uploadId: undefined };
    }
  }
  assertPage(uploads.length + commonPrefixes.length, limit);
  return { uploads, commonPrefixes, next: undefined };
}

function assertPage(listed: number, limit: number): void {
  assert(listed <= limit, "a page of uploads has at most what was asked for");
}

/** The first upload that may count: with the prefix, and behind `after` and all that rolls up to the same common prefix. */
function startOf({ prefix, delimiter, after }: ListUploadsRequest): KeySpan {
  const { to } = uploadSpan();
  const from = uploadsFrom(prefix);
  if (after === undefined) return { from, to };
  const common = after.key.startsWith(prefix) ? commonPrefixOf(after.key, prefix, delimiter) : undefined;
  const behindKey = after.uploadId === undefined ? uploadsOfKeySpan(after.key).to : afterKey(uploadKey(after.key, after.uploadId));
  const behind = common === undefined ? behindKey : afterPrefix(uploadsFrom(common));
  return { from: compareBytes(behind, from) > 0 ? behind : from, to };
}
