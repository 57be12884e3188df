import { compareBytes } from "@concord/codec";
import { assert, ConcordError } from "@concord/runtime";
import type { Copied, CopyDigest, CopySource, ObjectStore, Stored } from "../api.ts";
import { commitOrResolve, confirmNames, abandonBlobs, putGarbage } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { copyBody, openCopySource, sourceVersion } from "../copy-object.ts";
import { encryptedPart, checkUploadKey, keyOfUpload } from "./upload-key.ts";
import { decodeRowAs } from "../row-codec.ts";
import { partKey } from "../row-keys.ts";
import type { PartRow } from "../rows.ts";
import { storeBody, type StoredBody } from "../store-body.ts";
import { PART_NUMBER_MAX } from "./limits.ts";
import { openUpload, uploadCondition, type UploadName, type UploadView } from "./upload-view.ts";

interface ArrivedPart {
  readonly name: UploadName;
  readonly number: number;
  readonly guid: bigint;
  readonly body: StoredBody;
  readonly isEncrypted: boolean;
}

/**
 * Stores a part, or replaces it; nothing is visible under the key before complete (OG14). It is durable when this resolves, and a crash
 * costs only parts that did not arrive yet (OG15). UPLOAD_UNKNOWN, UPLOAD_STATE while another request completes the upload.
 */
export async function putPart(
  context: ObjectStoreContext,
  { body, number, customerKey, ...name }: Parameters<ObjectStore["putPart"]>[0],
): Promise<Stored> {
  checkNumber(number);
  const guid = await context.guids.next();
  const seen = await openUpload(context, name, [partKey(name.key, name.uploadId, number)]);
  const blob = { bucket: name.bucket, key: name.key, part: { uploadId: name.uploadId, number }, guid, replaces: seen.rows[0] };
  // Parts are blobs whatever their size: complete names them, and moves no bytes.
  const dataKey = await keyOfUpload(context, name, seen.upload.row, customerKey);
  assert(dataKey === undefined || dataKey.encryption.guid === name.uploadId, "OGD24: parts are encrypted under the key of their upload");
  const target = { view: seen.view, blob, inlineBytesMax: -1 };
  const stored = await storeBody(context, body, { ...target, key: dataKey && { key: dataKey, part: number, guid } });
  context.failpoint("multipart:after-part-data");
  const answer = await commitPart(context, seen, { name, number, guid, body: stored, isEncrypted: dataKey !== undefined });
  return { ...answer, ...(dataKey === undefined ? {} : { encryption: dataKey.encryption.under }) };
}

/** A part with the bytes of an object, or of a range of one. */
export async function copyPart(
  context: ObjectStoreContext,
  request: UploadName & {
    readonly number: number;
    readonly source: CopySource;
    readonly digest: CopyDigest;
    readonly customerKey?: Uint8Array | undefined;
  },
): Promise<Copied> {
  const { source, digest, ...name } = request;
  checkNumber(request.number);
  // An upload that cannot take the part is refused before bytes are read.
  const { upload } = await openUpload(context, name, []);
  checkUploadKey(upload.row, request.customerKey);
  const found = await openCopySource(context, source);
  return { ...(await putPart(context, { ...name, body: copyBody(found, digest) })), ...sourceVersion(found) };
}

async function commitPart(context: ObjectStoreContext, first: UploadView, part: ArrivedPart): Promise<Stored> {
  const { guid, body } = part;
  let seen = first;
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const row = partRowOf(context, part);
    const result = await tryCommit(context, seen, part, row);
    context.failpoint("multipart:after-part-commit");
    switch (result.kind) {
      case "committed":
        return { etag: row.etag, checksum: body.checksum, modifiedMs: row.modifiedMs };
      case "conflict":
        seen = await lookAgain(context, seen, part);
        break;
      case "fenced":
        throw new ConcordError("OUTCOME_UNKNOWN", "the store did not say whether the part was stored; it is not there now", {
          applied: result.applied,
        });
      case "unresolved":
        throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the part was stored", { cause: result.cause });
    }
  }
  await abandonBlobs(context, { view: seen.view, guid, names: body.names });
  throw new ConcordError("WRITE_CONFLICT", "too many others write this part");
}

/** The part's row, and the blob of the one it replaces to garbage, in one commit, only while the upload is open as it was seen (OGD11). */
async function tryCommit(context: ObjectStoreContext, { view, upload, rows }: UploadView, part: ArrivedPart, row: PartRow) {
  const { name, number, guid, body } = part;
  const [old] = rows;
  const key = partKey(name.key, name.uploadId, number);
  assert(old === undefined || compareBytes(old.key, key) === 0, "I5: a part replaces the one of its number");
  const replaced = old === undefined ? [] : [decodeRowAs("part", old.value).oid];
  assert(upload.row.state.kind === "open", "I14, OGD11: a part arrives while its upload is open");
  assert(!replaced.includes(row.oid), "I5: a part does not name the blob that it replaces");
  assert(body.names.length === 1 && body.names[0]!.oid === row.oid, "I1: a part names the blob that was sealed for it");
  const garbage = { bucket: name.bucket, key: name.key, what: { kind: "blobs", oids: replaced } } as const;
  try {
    return await commitOrResolve(context, {
      view,
      guid,
      deciding: { key, observed: old?.version },
      conditions: [uploadCondition(name, upload)],
      writes: [
        putRow(key, nextVersion(old?.version, context.clock, guid), row),
        ...(replaced.length === 0 ? [] : [putGarbage(context, guid, garbage)]),
      ],
      names: body.names,
    });
  } catch (error) {
    // The store rejects only what it did not do.
    await abandonBlobs(context, { view, guid, names: body.names });
    throw error;
  }
}

async function lookAgain(
  context: ObjectStoreContext,
  { view }: UploadView,
  { name, number, guid, body }: ArrivedPart,
): Promise<UploadView> {
  let seen: UploadView;
  try {
    seen = await openUpload(context, name, [partKey(name.key, name.uploadId, number)]);
  } catch (error) {
    await abandonBlobs(context, { view, guid, names: body.names });
    throw error;
  }
  await confirmNames(context, { view: seen.view, guid, names: body.names });
  return seen;
}

function partRowOf(context: ObjectStoreContext, { body, guid, isEncrypted }: ArrivedPart): PartRow {
  const { content, md5Hex, checksum } = body;
  assert(content.kind === "blob", "a part is a blob");
  const { oid, lengthBytes } = content;
  const row: PartRow = { kind: "part", oid, lengthBytes, etag: md5Hex, modifiedMs: context.clock.nowMs(), checksum };
  const stored = isEncrypted ? encryptedPart(row, guid, body.sealedChecksum) : row;
  assert(isEncrypted === (stored.encryption !== undefined), "OGD23: the row of an encrypted part says so");
  assert(body.sealedChecksum === undefined || stored.checksum === undefined, "OGD23: a checksum that is stored encrypted is so alone");
  return stored;
}

function checkNumber(number: number): void {
  if (Number.isSafeInteger(number) && number >= 1 && number <= PART_NUMBER_MAX) return;
  throw new ConcordError("PART_INVALID", `parts have numbers 1 to ${PART_NUMBER_MAX}`, { metadata: { number: String(number) } });
}
