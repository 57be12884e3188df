// Limits of the S3 surface. Each is tested below, at and above it.

/** A request's time may be this far from ours, in both directions. */
export const CLOCK_SKEW_MS_MAX = 15 * 60 * 1000;
/** X-Amz-Expires of a presigned request. */
export const PRESIGNED_SECONDS_MAX = 604_800;
export const AUTHORIZATION_CHARS_MAX = 8 * 1024;
export const SIGNED_HEADERS_MAX = 100;
/** Derived signing keys kept, one per access key, day and region. */
export const SIGNING_KEYS_MAX = 1024;

/** An object in one put, and one part. */
export const BODY_BYTES_MAX = 5 * 1024 * 1024 * 1024;
/** A shorter body is hashed by the calling thread: handing it over would cost as much. */
export const THREAD_BODY_BYTES_MIN = 4 * 1024 * 1024;
/** Bodies that are read as a whole: the XML ones. 10 000 parts with a checksum each are about 2.5 MB. */
export const XML_BODY_BYTES_MAX = 4 * 1024 * 1024;
/** The line before a chunk: size, extension, CRLF. */
export const CHUNK_HEADER_BYTES_MAX = 256;
/** Hex digits of a chunk's size: more than a body may have. */
export const CHUNK_SIZE_DIGITS_MAX = 10;
/** Signed chunks but the last are at least this long (S3's rule): a signature per byte would be ours to pay. */
export const SIGNED_CHUNK_BYTES_MIN = 8192;
export const TRAILER_BYTES_MAX = 4096;
export const TRAILERS_MAX = 4;

/** S3's limits of a key, in UTF-8 bytes, and of all user metadata together. */
export const KEY_BYTES_MAX = 1024;
export const METADATA_BYTES_MAX = 2048;
export const TAGS_PER_OBJECT_MAX = 10;
export const TAGS_PER_BUCKET_MAX = 50;
export const TAG_KEY_CHARS_MAX = 128;
export const TAG_VALUE_CHARS_MAX = 256;
export const TARGET_CHARS_MAX = 16 * 1024;
export const QUERY_PARAMETERS_MAX = 128;
export const ETAGS_PER_CONDITION_MAX = 64;

export const XML_DEPTH_MAX = 8;
export const XML_ATTRIBUTES_MAX = 16;
/** Elements of one document: 10 000 parts of three elements, with room. */
export const XML_ELEMENTS_MAX = 50_000;
export const XML_TEXT_CHARS_MAX = 8 * 1024;
export const PARTS_MAX = 10_000;
export const DELETE_KEYS_MAX = 1000;

/** S3's limit of a form without its file: names, headers and values of fields. */
export const FORM_FIELDS_BYTES_MAX = 20 * 1024;
export const FORM_FIELDS_MAX = 100;
/** Fields after the file, which mean nothing. */
export const FORM_AFTER_BYTES_MAX = 20 * 1024;
export const POST_CONDITIONS_MAX = 200;

/** S3's limits of a bucket's CORS rules. */
export const CORS_BYTES_MAX = 64 * 1024;
export const CORS_RULES_MAX = 100;
export const CORS_ID_CHARS_MAX = 255;
/** Origins, headers or methods of one rule. */
export const CORS_ENTRIES_MAX = 100;
/** Headers that one preflight may ask for. */
export const CORS_HEADERS_ASKED_MAX = 100;

/** S3's limits of a bucket's lifecycle rules, but for their bytes: they are read with the bucket's settings. */
export const LIFECYCLE_BYTES_MAX = 256 * 1024;
export const LIFECYCLE_RULES_MAX = 1000;
export const LIFECYCLE_ID_CHARS_MAX = 255;
export const LIFECYCLE_DAYS_MAX = 2 ** 31 - 1;
export const LIFECYCLE_NEWER_MAX = 100;

/** S3's limits of a bucket's default retention. */
export const LOCK_DEFAULT_DAYS_MAX = 36_500;
export const LOCK_DEFAULT_YEARS_MAX = 100;

/** Of the context that a client binds to a key of the key service. */
export const ENCRYPTION_CONTEXT_BYTES_MAX = 4096;
export const KMS_KEY_ID_CHARS_MAX = 2048;

/** S3's limit of the grants of an ACL. */
export const ACL_GRANTS_MAX = 100;

/** S3's limit of a bucket's policy. */
export const POLICY_BYTES_MAX = 20 * 1024;
export const POLICY_DEPTH_MAX = 8;
export const POLICY_STATEMENTS_MAX = 200;
/** Actions, resources or principals of one statement. */
export const POLICY_ENTRIES_MAX = 500;
export const POLICY_CONDITIONS_MAX = 100;
/** Characters of a policy between two stars together with a `?`: each is compared at every place of a key. */
export const POLICY_SLOW_CHARS_MAX = 512;

/** S3's limits of a bucket's event rules. */
export const EVENT_RULES_MAX = 100;
export const EVENT_ID_CHARS_MAX = 255;
/** Settings of a website. */
export const WEBSITE_BYTES_MAX = 64 * 1024;
export const WEBSITE_RULES_MAX = 50;
/** Of an object: x-amz-website-redirect-location. */
export const REDIRECT_BYTES_MAX = 2048;
