// The data key of an encrypted upload: every part comes with the customer's key where there is one.
import { ConcordError } from "@concord/runtime";
import type { ObjectStore } from "../api.ts";
import type { ObjectStoreContext } from "../context.ts";
import { checkCustomerKey, openDataKey, type DataKey } from "../encryption/data-keys.ts";
import { shownChecksum } from "../get-object.ts";
import type { PartRow, UploadRow } from "../rows.ts";
import type { ArrivedPart } from "./select-parts.ts";
import type { UploadName } from "./upload-view.ts";

type CompleteRequest = Parameters<ObjectStore["completeUpload"]>[0];

const refusal = (message: string): ConcordError => new ConcordError("MALFORMED_REQUEST", message, { metadata: { field: "encryption" } });

/** MALFORMED_REQUEST: a part without the customer's key of its upload, or with one where there is none. */
export function checkUploadKey({ encryption }: UploadRow, customerKey: Uint8Array | undefined): void {
  const isCustomers = encryption?.under.kind === "customer";
  if (isCustomers && customerKey === undefined)
    throw refusal(
      "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.",
    );
  if (!isCustomers && customerKey !== undefined)
    throw refusal(
      "The multipart upload initiate did not request encryption. Please resend the request without sending encryption parameters.",
    );
}

/** Undefined: the upload is not encrypted. MALFORMED_REQUEST, also when the customer's key is another one than at its beginning. */
export async function keyOfUpload(
  context: ObjectStoreContext,
  name: UploadName,
  upload: UploadRow,
  customerKey: Uint8Array | undefined,
): Promise<DataKey | undefined> {
  checkUploadKey(upload, customerKey);
  const { encryption } = upload;
  if (encryption === undefined) return undefined;
  try {
    return await openDataKey(context, encryption, name, customerKey);
  } catch (thrown) {
    const isOther = thrown instanceof ConcordError && thrown.code === "PERMISSION_DENIED";
    throw isOther ? refusal("The provided encryption parameters did not match the ones used originally.") : thrown;
  }
}

/** To read what is stored of parts besides their bytes; undefined: nothing of it is encrypted, or the customer's key did not come. */
export async function keyOfParts(
  context: ObjectStoreContext,
  name: UploadName,
  upload: UploadRow,
  customerKey: Uint8Array | undefined,
): Promise<DataKey | undefined> {
  const { encryption } = upload;
  if (customerKey !== undefined) return await keyOfUpload(context, name, upload, customerKey);
  return encryption?.under.kind === "service" ? await keyOfUpload(context, name, upload, undefined) : undefined;
}

/**
 * To combine the checksums of parts. MALFORMED_REQUEST: the upload has a checksum, or parts are named by theirs, and the customer's key did not
 * come (S3 has it so).
 */
export async function keyToComplete(
  context: ObjectStoreContext,
  request: CompleteRequest,
  upload: UploadRow,
): Promise<DataKey | undefined> {
  const { encryption, checksum } = upload;
  const hasChecksums = checksum !== undefined || request.parts.some((part) => part.checksum !== undefined);
  if (hasChecksums && encryption?.under.kind === "customer") checkCustomerKey(encryption, request.customerKey);
  return await keyOfParts(context, request, upload, request.customerKey);
}

/** With the checksums of their plaintext. */
export function withChecksums(parts: readonly ArrivedPart[], key: DataKey | undefined): readonly ArrivedPart[] {
  if (key === undefined) return parts;
  return parts.map(({ number, row }) => ({ number, row: { ...row, checksum: shownChecksum(row, key) } }));
}

export function encryptedPart(row: PartRow, guid: bigint, sealedChecksum: Uint8Array | undefined): PartRow {
  if (sealedChecksum === undefined) return { ...row, encryption: { guid } };
  return { ...row, checksum: undefined, encryption: { guid, checksum: sealedChecksum } };
}
