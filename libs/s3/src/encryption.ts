// Server side encryption: in the headers of requests and answers, and as the default of a bucket.
import { createHash } from "node:crypto";
import { decodeBase64, decodeUtf8, encodeBase64 } from "./encoding.ts";
import { S3Error } from "./errors.ts";
import type { Fields } from "./fields.ts";
import { ENCRYPTION_CONTEXT_BYTES_MAX, KMS_KEY_ID_CHARS_MAX } from "./limits.ts";
import type { DefaultEncryption, EncryptionRequest, UsedEncryption } from "./types.ts";
import { malformed, type XmlElement } from "./xml/reader.ts";
import { leaf as textOf, leaves, root } from "./xml/requests.ts";
import { group, leaf, xmlDocument } from "./xml/writer.ts";

const METHOD = "x-amz-server-side-encryption";
const KEY_ID = `${METHOD}-aws-kms-key-id`;
const CONTEXT = `${METHOD}-context`;
const BUCKET_KEY = `${METHOD}-bucket-key-enabled`;
const CUSTOMER = `${METHOD}-customer`;
const SOURCE_CUSTOMER = "x-amz-copy-source-server-side-encryption-customer";
const CUSTOMER_KEY_BYTES = 32;
const MD5_BYTES = 16;

/** A customer's key comes with every request that needs it; the first name also says that the server's keys are not asked for there. */
export const CUSTOMER_KEY_HEADERS = [METHOD, `${CUSTOMER}-algorithm`, `${CUSTOMER}-key`, `${CUSTOMER}-key-md5`];
export const SOURCE_KEY_HEADERS = [`${SOURCE_CUSTOMER}-algorithm`, `${SOURCE_CUSTOMER}-key`, `${SOURCE_CUSTOMER}-key-md5`];
/** Of requests that store something. */
export const ENCRYPTION_HEADERS = [...CUSTOMER_KEY_HEADERS, KEY_ID, CONTEXT, BUCKET_KEY];

/** What an upload asks for; undefined: nothing, so the bucket's default. Nothing of it is ever ignored. */
export function readEncryption(headers: Fields): EncryptionRequest | undefined {
  const method = headers.one(METHOD);
  const key = customerKey(headers, CUSTOMER);
  if (key !== undefined) {
    if (method !== undefined || headers.has(KEY_ID) || headers.has(CONTEXT))
      throw invalid("Server Side Encryption with Customer provided key is incompatible with the encryption method specified");
    return { kind: "customer", key };
  }
  refuseBucketKey(headers.one(BUCKET_KEY));
  if (method === "aws:kms") return { kind: "service", keyId: keyIdOf(headers.one(KEY_ID)), context: contextOf(headers.one(CONTEXT)) };
  if (headers.has(KEY_ID) || headers.has(CONTEXT))
    throw invalid("Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms");
  if (method === undefined) return undefined;
  if (method === "AES256") return { kind: "managed" };
  throw methodRefusal(method);
}

/** The key that an object, an upload or the source of a copy was stored with. */
export function readCustomerKey(headers: Fields, of: "object" | "source" = "object"): Uint8Array | undefined {
  if (of === "object" && headers.has(METHOD)) throw invalid("x-amz-server-side-encryption header is not supported for this operation.");
  return customerKey(headers, of === "object" ? CUSTOMER : SOURCE_CUSTOMER);
}

function customerKey(headers: Fields, prefix: string): Uint8Array | undefined {
  const [algorithm, text, md5] = [headers.one(`${prefix}-algorithm`), headers.one(`${prefix}-key`), headers.one(`${prefix}-key-md5`)];
  if (algorithm === undefined && text === undefined && md5 === undefined) return undefined;
  const who = "Requests specifying Server Side Encryption with Customer provided keys must provide";
  if (algorithm === undefined) throw invalid(`${who} a valid encryption algorithm.`);
  if (algorithm !== "AES256") throw new S3Error("InvalidEncryptionAlgorithmError");
  if (text === undefined) throw invalid(`${who} an appropriate secret key.`);
  if (md5 === undefined) throw invalid(`${who} the client calculated MD5 of the secret key.`);
  const key = decodeBase64(text, CUSTOMER_KEY_BYTES);
  if (key === undefined) throw invalid("The secret key was invalid for the specified algorithm.");
  if (decodeBase64(md5, MD5_BYTES) === undefined || md5 !== md5Of(key))
    throw invalid("The calculated MD5 hash of the key did not match the hash that was provided.");
  return key;
}

const md5Of = (key: Uint8Array): string => encodeBase64(createHash("md5").update(key).digest());

function refuseBucketKey(text: string | undefined): void {
  if (text === undefined || text.toLowerCase() === "false") return;
  if (text.toLowerCase() !== "true") throw invalid("x-amz-server-side-encryption-bucket-key-enabled must be true or false");
  throw new S3Error("NotImplemented", "Bucket keys are not implemented: every object has a data key of its own.");
}

function keyIdOf(text: string | undefined): string | undefined {
  if (text === undefined || text === "") return undefined;
  if (text.length > KMS_KEY_ID_CHARS_MAX) throw invalid(`A key id has at most ${KMS_KEY_ID_CHARS_MAX} characters.`);
  return text;
}

/** As JSON, its names in order: what is the same is stored as the same. */
function contextOf(text: string | undefined): string {
  if (text === undefined || text === "") return "";
  const bytes = decodeBase64(text);
  const json = bytes === undefined || bytes.length > ENCRYPTION_CONTEXT_BYTES_MAX ? undefined : decodeUtf8(bytes);
  const pairs = json === undefined ? undefined : pairsOf(json);
  if (pairs === undefined)
    throw invalid("The header x-amz-server-side-encryption-context shall be Base64-encoded UTF-8 string holding JSON.");
  return JSON.stringify(Object.fromEntries(pairs.toSorted(([one], [other]) => (one < other ? -1 : 1))));
}

function pairsOf(json: string): readonly (readonly [string, string])[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const pairs = Object.entries(value as Readonly<Record<string, unknown>>);
  return pairs.every((pair): pair is [string, string] => typeof pair[1] === "string") ? pairs : undefined;
}

/** Of the answer: how what it is about is encrypted, and by which of the client's keys. */
export function encryptionHeaders(
  used: UsedEncryption | undefined,
  key: Uint8Array | undefined,
): readonly (readonly [name: string, value: string])[] {
  switch (used?.kind) {
    case undefined:
      return [];
    case "managed":
      return [[METHOD, "AES256"]];
    case "service":
      return [
        [METHOD, "aws:kms"],
        [KEY_ID, used.keyId],
      ];
    case "customer":
      return [[`${CUSTOMER}-algorithm`, "AES256"], ...(key === undefined ? [] : [[`${CUSTOMER}-key-MD5`, md5Of(key)] as const])];
  }
}

/** MalformedXML, InvalidArgument; NotImplemented for what clients may ask for and is not there. */
export function readEncryptionConfiguration(bytes: Uint8Array): DefaultEncryption {
  const [rule, ...more] = root(bytes, "ServerSideEncryptionConfiguration").children;
  if (rule?.name !== "Rule" || more.length > 0) throw malformed("it must have one Rule");
  if (rule.text.trim() !== "") throw malformed("it has text between elements");
  let applied: XmlElement | undefined;
  const seen = new Set<string>();
  for (const child of rule.children) {
    if (seen.has(child.name)) throw malformed(`${child.name} is there twice`);
    seen.add(child.name);
    if (child.name === "ApplyServerSideEncryptionByDefault") applied = child;
    else if (child.name === "BucketKeyEnabled") refuseBucketKey(textOf(child).trim());
    else if (child.name === "BlockedEncryptionTypes")
      throw new S3Error("NotImplemented", "BlockedEncryptionTypes is not implemented: a bucket policy can refuse kinds of encryption.");
    else throw malformed(`${child.name} is not known here`);
  }
  if (applied === undefined) throw malformed("a Rule must have ApplyServerSideEncryptionByDefault");
  const fields = leaves(applied, ["SSEAlgorithm", "KMSMasterKeyID"]);
  const [algorithm, keyId] = [fields.get("SSEAlgorithm")?.trim(), keyIdOf(fields.get("KMSMasterKeyID")?.trim())];
  if (algorithm === "aws:kms") return { kind: "service", keyId };
  if (algorithm === undefined) throw malformed("an SSEAlgorithm is missing");
  if (algorithm === "aws:kms:dsse") throw methodRefusal(algorithm);
  if (algorithm !== "AES256") throw malformed("an SSEAlgorithm is not known");
  if (keyId !== undefined) throw invalid("a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms");
  return { kind: "managed" };
}

export function encryptionConfigurationXml(applied: DefaultEncryption): string {
  const said =
    applied.kind === "managed"
      ? leaf("SSEAlgorithm", "AES256")
      : [leaf("SSEAlgorithm", "aws:kms"), leaf("KMSMasterKeyID", applied.keyId)].join("");
  const rule = group("Rule", group("ApplyServerSideEncryptionByDefault", said), leaf("BucketKeyEnabled", false));
  return xmlDocument("ServerSideEncryptionConfiguration", rule);
}

function methodRefusal(method: string): S3Error {
  if (method === "aws:kms:dsse") return new S3Error("NotImplemented", "Encryption in two layers is not implemented.");
  return invalid("The encryption method specified is not supported");
}

/** A text without the keys of customers, for an answer or a log. */
export function withoutCustomerKeys(text: string): string {
  return text.replace(/(server-side-encryption-customer-key[:=])[^\n&]*/gi, "$1(hidden)");
}

const invalid = (message: string): S3Error => new S3Error("InvalidArgument", message);
