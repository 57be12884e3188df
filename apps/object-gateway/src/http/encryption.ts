// Encryption of objects: what uploads ask for, or else their bucket's default; the keys that clients send; the headers of answers.
import type { EncryptionRequest, ShownEncryption, StoredObject } from "@concord/objects";
import {
  encryptionConfigurationXml,
  encryptionHeaders,
  readCustomerKey,
  readEncryption,
  readEncryptionConfiguration,
  S3Error,
  type DefaultEncryption,
} from "@concord/s3";
import { isSecureChannel } from "./access.ts";
import { readDocument } from "./bodies.ts";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { empty, xml, type Header } from "./responses.ts";

/** Name of the document in a bucket's settings. */
const ENCRYPTION = "encryption";

/** ServerSideEncryptionConfigurationNotFoundError: what uploads do not ask for is stored as it came. */
export const getBucketEncryption: Operation = async ({ bucket }, { store }) => {
  const applied = defaultOf((await store.headBucket(bucket)).settings);
  if (applied === undefined) throw new S3Error("ServerSideEncryptionConfigurationNotFoundError");
  return xml(encryptionConfigurationXml(applied));
};

/** In effect for every upload that commits after the answer. NotImplemented, KMS.NotFoundException: there is no key for it. */
export const putBucketEncryption: Operation = async (call, context) => {
  const applied = readEncryptionConfiguration(await readDocument(call, context));
  checkConfigured(applied, context);
  await context.store.setBucketDocument({ bucket: call.bucket, name: ENCRYPTION, text: JSON.stringify(applied) });
  return empty(200);
};

/** Success also when there was none. Objects stay as they are. */
export const deleteBucketEncryption: Operation = async ({ bucket }, { store }) => {
  await store.setBucketDocument({ bucket, name: ENCRYPTION, text: undefined });
  return empty(204);
};

const defaultOf = (settings: S3Call["settings"]): DefaultEncryption | undefined => {
  const text = settings?.documents[ENCRYPTION];
  return text === undefined ? undefined : (JSON.parse(text) as DefaultEncryption);
};

/** Nothing is stored in plaintext where its key is missing: refused. */
function checkConfigured(asked: DefaultEncryption, { keys }: Context): void {
  const isConfigured = asked.kind === "managed" ? keys.managed === "configured" : keys.service.length > 0;
  if (!isConfigured) throw new S3Error("NotImplemented", "Server side encryption was asked for, and no key for it is configured.");
  if (asked.kind === "service" && asked.keyId !== undefined && !keys.service.includes(asked.keyId))
    throw new S3Error("KMS.NotFoundException", `There is no key ${asked.keyId}.`);
}

/** Of what a request stores: as it asks, or as its bucket does. Undefined: neither does. */
export function encryptionOfNew(call: S3Call, context: Context): EncryptionRequest | undefined {
  const asked = readEncryption(call.headers);
  if (asked?.kind === "customer") {
    demandSecure(call, context);
    return asked;
  }
  const standard = defaultOf(call.settings);
  const used = asked ?? (standard?.kind === "service" ? { ...standard, context: "" } : standard);
  if (used === undefined) return undefined;
  checkConfigured(used, context);
  return used.kind === "service" ? { ...used, keyId: used.keyId ?? context.keys.service[0] } : used;
}

/** Whether the request itself asks for encryption. */
export const asksForEncryption = ({ headers }: S3Call): boolean => readEncryption(headers) !== undefined;

/** Of what the request reads or continues. */
export function customerKeyOf(call: S3Call, context: Context, of: "object" | "source" = "object"): Uint8Array | undefined {
  const key = readCustomerKey(call.headers, of);
  if (key !== undefined) demandSecure(call, context);
  return key;
}

/** The key itself is in the request. */
function demandSecure({ request, headers }: S3Call, { access }: Context): void {
  if (isSecureChannel({ peer: request.peer, headers }, access.options)) return;
  const what = "Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.";
  throw new S3Error("InvalidRequest", what);
}

/** Of the answer about what was stored. */
export function encryptionHeadersOf(used: ShownEncryption | EncryptionRequest | undefined, key?: Uint8Array): readonly Header[] {
  if (used?.kind === "customer") return encryptionHeaders(used, "key" in used ? used.key : key);
  if (used?.kind !== "service") return encryptionHeaders(used, undefined);
  return encryptionHeaders({ kind: "service", keyId: used.keyId ?? "" }, undefined);
}

/** Of the answer to a read. */
export const objectEncryptionHeaders = ({ encryption }: StoredObject, key: Uint8Array | undefined): readonly Header[] =>
  encryptionHeadersOf(encryption?.under, key);

/** For a request that stores something: `key` where the client gave one. */
export const keyOf = (encryption: EncryptionRequest | undefined): Uint8Array | undefined =>
  encryption?.kind === "customer" ? encryption.key : undefined;
