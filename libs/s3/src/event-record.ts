// The message of an event, as S3 writes it: consumers of S3's notifications read it unchanged.
import { formatIsoDate } from "./dates.ts";
import { percentEncode } from "./encoding.ts";

export interface EventRecord {
  readonly name: string;
  readonly region: string;
  readonly atMs: number;
  readonly cause: { readonly principal: string; readonly address: string; readonly requestId: string };
  readonly ruleId: string;
  readonly bucket: string;
  /** Whose the bucket is. */
  readonly tenant: string;
  readonly key: string;
  readonly object: { readonly sizeBytes: number; readonly etag: string } | undefined;
  readonly versionId: string | undefined;
  readonly sequencer: string;
}

/** JSON of one record. */
export function eventRecordJson(event: EventRecord): string {
  const { name, region, atMs, cause, ruleId, bucket, tenant, object, versionId, sequencer } = event;
  const record = {
    eventVersion: OLD_KINDS.test(name) ? "2.1" : "2.3",
    eventSource: "aws:s3",
    awsRegion: region,
    eventTime: formatIsoDate(atMs),
    eventName: name,
    userIdentity: { principalId: cause.principal },
    requestParameters: { sourceIPAddress: cause.address },
    responseElements: { "x-amz-request-id": cause.requestId },
    s3: {
      s3SchemaVersion: "1.0",
      configurationId: ruleId,
      bucket: { name: bucket, ownerIdentity: { principalId: tenant }, arn: `arn:aws:s3:::${bucket}` },
      object: {
        key: percentEncode(event.key, "kept").replaceAll("%20", "+"),
        ...(object === undefined ? {} : { size: object.sizeBytes, eTag: object.etag }),
        ...(versionId === undefined ? {} : { versionId }),
        sequencer,
      },
    },
  };
  return JSON.stringify({ Records: [record] });
}

/** What S3 sends to a target when a rule that names it is put. */
export function testEventJson({
  bucket,
  requestId,
  atMs,
}: {
  readonly bucket: string;
  readonly requestId: string;
  readonly atMs: number;
}): string {
  return JSON.stringify({ Service: "Amazon S3", Event: "s3:TestEvent", Time: formatIsoDate(atMs), Bucket: bucket, RequestId: requestId });
}

/** Kinds that S3 had before version 2.3 of its records. */
const OLD_KINDS = /^Object(?:Created|Removed):/;
