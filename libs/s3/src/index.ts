export {
  bounded,
  checkGrantees,
  grantsOf,
  grantsText,
  hasAclHeaders,
  isPrivateAcl,
  isPublicGrant,
  OBJECT_OWNERSHIPS,
  parseGrants,
  readAclHeaders,
  type Acl,
  type AskedAcl,
  type Grant,
  type ObjectOwnership,
} from "./access/acl.ts";
export type { S3Action } from "./access/actions.ts";
export {
  authorize,
  type AccessRequest,
  type BucketAccess,
  type Decision,
  type KnownObject,
  type PublicAccessBlock,
} from "./access/authorize.ts";
export { clientAddress } from "./access/client-address.ts";
export { addressesWithin, subnetOf } from "./access/addresses.ts";
export type { ConditionFacts } from "./access/conditions.ts";
export { readPolicy, refuseIdleActions, type Caller, type Policy } from "./access/policy.ts";
export { combineDigests, type PartDigest } from "./body/combine-digests.ts";
export { checkedBody, checkedFile, readBody, refuseBody, type BodyOptions, type RequestBody } from "./body/checked-body.ts";
export { CHECKSUM_ALGORITHMS, checksumAlgorithm, checksumHeader, checksumStream, copyDigest, DEFAULT_CHECKSUM } from "./body/digests.ts";
export { S3_CODES, toS3Error } from "./concord-errors.ts";
export { CORS_METHODS, CORS_VARY, corsHeaders, readAskedHeaders, type CorsRequest, type CorsRule } from "./cors.ts";
export { formatHttpDate, formatIsoDate, parseHttpDate } from "./dates.ts";
export { percentDecode, percentEncode } from "./encoding.ts";
export { S3_ERRORS, S3Error, type S3ErrorCode, type S3ErrorOptions } from "./errors.ts";
export {
  CUSTOMER_KEY_HEADERS,
  ENCRYPTION_HEADERS,
  encryptionConfigurationXml,
  encryptionHeaders,
  readCustomerKey,
  readEncryption,
  readEncryptionConfiguration,
  SOURCE_KEY_HEADERS,
} from "./encryption.ts";
export { fieldsOf, type Fields } from "./fields.ts";
export { readForm, type Form } from "./form/form-data.ts";
export { checkForm, readPostPolicy, withFileName, withinBytes, type FileBytes } from "./form/post-policy.ts";
export * from "./limits.ts";
export {
  legalHoldXml,
  lockConfigurationXml,
  lockFacts,
  lockHeaders,
  readBypass,
  readLegalHold,
  readLockConfiguration,
  readLockEnabled,
  readLockHeaders,
  readRetention,
  retentionXml,
} from "./object-lock.ts";
export {
  readAttributes,
  readCompleteChecksum,
  readDeleteCondition,
  readCopySource,
  readDirective,
  readNumber,
  readOverrides,
  readPrecondition,
  readRange,
  readTagHeader,
  readUploadChecksum,
  type CopySourceName,
} from "./request.ts";
export { signRequest, type RequestToSign, type SigningKey } from "./signature/sign-request.ts";
export type { Payload, SignatureChain } from "./signature/payload.ts";
export {
  createVerifier,
  type Credential,
  type SignedRequest,
  unsignedRequest,
  type Received,
  type Unsigned,
  type Verified,
  type VerifiedForm,
  type Verifier,
  type VerifierOptions,
} from "./signature/verifier.ts";
export { checkTags } from "./tags.ts";
export { bucketOfHost, parseQuery, parseTarget, type Target } from "./target.ts";
export type {
  ByteRange,
  CheckedBody,
  ChecksumAlgorithm,
  ChecksumType,
  DefaultEncryption,
  Digests,
  ObjectAttributes,
  Precondition,
  StoredChecksum,
  UploadChecksum,
} from "./types.ts";
export { isApiField, isGuarded, isOfGuardedFamily, isSubresource } from "./api.ts";
export { API_FIELDS, API_SUBRESOURCES } from "./api-fields.ts";
export {
  aclXml,
  completeMultipartUploadXml,
  copyObjectXml,
  copyPartXml,
  corsXml,
  deleteResultXml,
  errorXml,
  initiateMultipartUploadXml,
  listBucketsXml,
  listObjectsV2Xml,
  listObjectsXml,
  listPartsXml,
  listUploadsXml,
  listVersionsXml,
  locationXml,
  objectAttributesXml,
  ownershipControlsXml,
  emptySettingXml,
  policyStatusXml,
  postResponseXml,
  publicAccessBlockXml,
  requestPaymentXml,
  taggingXml,
  versioningXml,
  type CopiedXml,
  type DeletedXml,
  type ListedObjectXml,
  type ListedPartXml,
  type Owner,
  type UploadNameXml,
} from "./xml/answers.ts";
export {
  readAcl,
  readCompleteMultipartUpload,
  readCorsRules,
  readCreateBucketConfiguration,
  readDelete,
  readOwnershipControls,
  readPublicAccessBlock,
  readTagging,
  readVersioning,
  type CompletedPart,
  type DeleteRequest,
} from "./xml/requests.ts";
export { escapeXml, type KeyEncoding } from "./xml/writer.ts";
export { eventRecordJson, testEventJson, type EventRecord } from "./event-record.ts";
export { notificationXml, readNotification, type NotificationRule } from "./xml/notification.ts";
export { lifecycleXml, readLifecycle } from "./xml/lifecycle.ts";
export { readWebsite, websiteXml } from "./xml/website.ts";
export { checkRedirectLocation, encodeKey, locationOf, routingRuleFor, type Redirect, type RoutingRule, type Website } from "./website.ts";
