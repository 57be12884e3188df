// Lifecycle rules of a bucket: put, read, removed; and when what an answer is about expires.
import { expiryOf, lifecycleRulesOf, LIFECYCLE_DOCUMENT, type LifecycleRule, type StoredObject } from "@concord/objects";
import { formatHttpDate, lifecycleXml, percentEncode, readLifecycle, S3Error } from "@concord/s3";
import { readDocument } from "./bodies.ts";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { documentCache } from "./document-cache.ts";
import { empty, xml, type Header } from "./responses.ts";

/** There are no transitions; S3 says so of buckets that have none, too. */
const DEFAULT_SIZE: Header = ["x-amz-transition-default-minimum-object-size", "all_storage_classes_128K"];

/** NoSuchLifecycleConfiguration. */
export const getBucketLifecycleConfiguration: Operation = async ({ bucket }, { store }) => {
  const { [LIFECYCLE_DOCUMENT]: text } = (await store.headBucket(bucket)).settings.documents;
  if (text === undefined) throw new S3Error("NoSuchLifecycleConfiguration");
  return xml(lifecycleXml(JSON.parse(text) as readonly LifecycleRule[]), [DEFAULT_SIZE]);
};

/** MalformedXML, InvalidArgument, InvalidRequest; NotImplemented for transitions. */
export const putBucketLifecycleConfiguration: Operation = async (call, context) => {
  const size = call.headers.one(DEFAULT_SIZE[0]);
  if (size !== undefined && size !== DEFAULT_SIZE[1])
    throw new S3Error("NotImplemented", "Transitions to other storage classes are not implemented: there is one storage class.");
  const rules: readonly LifecycleRule[] = readLifecycle(await readDocument(call, context));
  await context.store.setBucketDocument({ bucket: call.bucket, name: LIFECYCLE_DOCUMENT, text: JSON.stringify(rules) });
  return empty(200, [DEFAULT_SIZE]);
};

/** Success also when there was none. Nothing expires by the former rules after the answer. */
export const deleteBucketLifecycle: Operation = async ({ bucket }, { store }) => {
  await store.setBucketDocument({ bucket, name: LIFECYCLE_DOCUMENT, text: undefined });
  return empty(204);
};

const parsed = documentCache((text) => lifecycleRulesOf({ number: 0n, documents: { [LIFECYCLE_DOCUMENT]: text } }));

/** Enabled ones. */
function rulesOf(settings: S3Call["settings"]): readonly LifecycleRule[] {
  const text = settings?.documents[LIFECYCLE_DOCUMENT];
  return text === undefined ? [] : parsed(text);
}

/** What an answer tells of a current object. */
type Expiring = Pick<StoredObject, "modifiedMs" | "sizeBytes" | "attributes">;

/** When the current object expires, and by which rule. Not of a version that was asked for by its id: it may be an earlier one. */
export function expirationHeader({ settings, key, query }: S3Call, { lifecycleDayMs }: Context, object: Expiring): readonly Header[] {
  const rules = rulesOf(settings);
  if (rules.length === 0 || query.has("versionId")) return [];
  const { modifiedMs, sizeBytes, attributes } = object;
  const judged = { key, modifiedMs, object: { sizeBytes, tags: attributes.tags }, place: { kind: "current", isOnly: true } } as const;
  const expiry = expiryOf(rules, judged, lifecycleDayMs);
  if (expiry === undefined || expiry.dueMs > LAST_DATE_MS) return [];
  return [["x-amz-expiration", `expiry-date="${formatHttpDate(expiry.dueMs)}", rule-id="${percentEncode(expiry.ruleId)}"`]];
}

/** Behind it there are no dates. */
const LAST_DATE_MS = 8_640_000_000_000_000;
