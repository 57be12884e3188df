// The S3 errors we answer with. What is not in this table is never sent.

interface Description {
  readonly status: number;
  /** What S3 says, when the thrower says nothing better. */
  readonly message: string;
}

const say = (status: number, message: string): Description => ({ status, message });

export const S3_ERRORS = {
  AccessDenied: say(403, "Access Denied"),
  AccessForbidden: say(403, "This CORS request is not allowed."),
  AccessControlListNotSupported: say(400, "The bucket does not allow ACLs."),
  AuthorizationHeaderMalformed: say(400, "The authorization header is malformed."),
  AuthorizationQueryParametersError: say(400, "The authorization query parameters are malformed."),
  BadDigest: say(400, "The digest you specified did not match what we received."),
  BadRequest: say(400, "Bad Request"),
  BucketAlreadyExists: say(409, "The requested bucket name is not available."),
  BucketAlreadyOwnedByYou: say(409, "Your previous request to create the named bucket succeeded and you already own it."),
  BucketNotEmpty: say(409, "The bucket you tried to delete is not empty."),
  ConditionalRequestConflict: say(409, "A conflicting operation occurred during the request. Try again."),
  EntityTooLarge: say(400, "Your proposed upload exceeds the maximum allowed size."),
  EntityTooSmall: say(400, "Your proposed upload is smaller than the minimum allowed size."),
  IllegalLocationConstraintException: say(400, "The location constraint is incompatible with this endpoint."),
  IllegalVersioningConfigurationException: say(400, "The versioning configuration specified in the request is invalid."),
  IncompleteBody: say(400, "You did not provide the number of bytes announced."),
  InternalError: say(500, "We encountered an internal error. Please try again."),
  InvalidAccessKeyId: say(403, "The access key id you provided does not exist in our records."),
  InvalidArgument: say(400, "Invalid Argument"),
  InvalidBucketAclWithObjectOwnership: say(400, "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"),
  InvalidBucketState: say(409, "The request is not valid with the current state of the bucket."),
  InvalidBucketName: say(400, "The specified bucket is not valid."),
  InvalidChunkSizeError: say(403, "Only the last chunk may be smaller than 8192 bytes."),
  InvalidDigest: say(400, "The digest you specified is not valid."),
  InvalidEncryptionAlgorithmError: say(400, "The encryption request you specified is not valid. The valid value is AES256."),
  InvalidLocationConstraint: say(400, "The specified location constraint is not valid."),
  InvalidPart: say(400, "One or more of the specified parts could not be found or did not match."),
  InvalidPartOrder: say(400, "The list of parts was not in ascending order."),
  InvalidPolicyDocument: say(400, "The content of the form does not meet the conditions specified in the policy document."),
  InvalidRange: say(416, "The requested range is not satisfiable."),
  InvalidRedirectLocation: say(400, "The website redirect location must have a prefix of 'http://' or 'https://' or '/'."),
  InvalidRequest: say(400, "Invalid Request"),
  InvalidTag: say(400, "The tag provided was not a valid tag."),
  InvalidToken: say(400, "The provided token is malformed or otherwise not valid."),
  InvalidURI: say(400, "The specified URI could not be parsed."),
  "KMS.NotFoundException": say(400, "The key of the key service does not exist."),
  KeyTooLongError: say(400, "Your key is too long."),
  MalformedACLError: say(400, "The XML you provided was not well-formed or did not validate against our published schema."),
  MalformedPOSTRequest: say(400, "The body of your POST request is not well-formed multipart/form-data."),
  MalformedPolicy: say(400, "The policy is not valid."),
  MalformedTrailerError: say(400, "The request contained trailing data that was not well-formed or did not conform to what was announced."),
  MalformedXML: say(400, "The XML you provided was not well-formed or did not validate."),
  MaxPostPreDataLengthExceeded: say(400, "Your POST request fields preceding the upload file were too large."),
  MetadataTooLarge: say(400, "Your metadata headers exceed the maximum allowed metadata size."),
  MethodNotAllowed: say(405, "The specified method is not allowed against this resource."),
  MissingContentLength: say(411, "You must provide the Content-Length HTTP header."),
  MissingSecurityHeader: say(400, "Your request was missing a required header."),
  MissingRequestBodyError: say(400, "Request body is empty."),
  NoSuchBucket: say(404, "The specified bucket does not exist."),
  NoSuchBucketPolicy: say(404, "The bucket policy does not exist."),
  NoSuchCORSConfiguration: say(404, "The CORS configuration does not exist."),
  NoSuchKey: say(404, "The specified key does not exist."),
  NoSuchLifecycleConfiguration: say(404, "The lifecycle configuration does not exist."),
  NoSuchObjectLockConfiguration: say(404, "The specified object does not have a ObjectLock configuration"),
  NoSuchPublicAccessBlockConfiguration: say(404, "The public access block configuration was not found."),
  NoSuchTagSet: say(404, "The TagSet does not exist."),
  NoSuchUpload: say(404, "The specified upload does not exist. It may have been aborted or completed."),
  NoSuchWebsiteConfiguration: say(404, "The specified bucket does not have a website configuration."),
  NoSuchVersion: say(404, "The specified version does not exist."),
  NotImplemented: say(501, "A header or parameter you provided implies functionality that is not implemented."),
  NotModified: say(304, "Not Modified"),
  ObjectLockConfigurationNotFoundError: say(404, "Object Lock configuration does not exist for this bucket."),
  OperationAborted: say(409, "A conflicting conditional operation is in progress against this resource. Try again."),
  PreconditionFailed: say(412, "At least one of the preconditions you specified did not hold."),
  ReplicationConfigurationNotFoundError: say(404, "The replication configuration was not found."),
  RequestTimeTooSkewed: say(403, "The difference between the request time and the current time is too large."),
  QuotaExceeded: say(403, "The quota of the bucket's owner would be exceeded."),
  RequestTimeout: say(400, "Your socket connection to the server was not read from or written to within the timeout period."),
  ServerSideEncryptionConfigurationNotFoundError: say(404, "The server side encryption configuration was not found."),
  ServiceUnavailable: say(503, "Please try again."),
  SignatureDoesNotMatch: say(
    403,
    "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
  ),
  SlowDown: say(503, "Please reduce your request rate."),
  StorageFull: say(507, "There is no room left to store the object."),
  TooManyBuckets: say(400, "You have attempted to create more buckets than allowed."),
  UnexpectedContent: say(400, "This request does not support content."),
  UnresolvableGrantByEmailAddress: say(400, "The email address you provided does not match any account on record."),
  UnsupportedMediaType: say(415, "The request's encoding is not supported."),
  XAmzContentSHA256Mismatch: say(400, "The provided 'x-amz-content-sha256' header does not match what was computed."),
} as const satisfies Record<string, Description>;

export type S3ErrorCode = keyof typeof S3_ERRORS;

export interface S3ErrorOptions {
  /** Extra elements of the error document, e.g. Region. Never a secret, never something derived from one. */
  readonly elements?: Readonly<Record<string, string>>;
  /** Sent as Retry-After. */
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/** The error as the client gets it. */
export class S3Error extends Error {
  readonly code: S3ErrorCode;
  readonly status: number;
  readonly elements: Readonly<Record<string, string>>;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: S3ErrorCode, message?: string, options: S3ErrorOptions = {}) {
    super(message ?? S3_ERRORS[code].message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "S3Error";
    this.code = code;
    this.status = S3_ERRORS[code].status;
    this.elements = options.elements ?? {};
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}
