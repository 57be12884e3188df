// Settings of a bucket that cannot be made here yet (each Put is NotImplemented), so what S3 says where there are none is true. Clients that
// look at a whole bucket ask for all of them.
import { emptySettingXml, requestPaymentXml, S3Error, type S3ErrorCode } from "@concord/s3";
import type { Operation } from "./context.ts";
import { xml } from "./responses.ts";

/** The bucket is there and has no such setting. */
const absent =
  (code: S3ErrorCode): Operation =>
  async ({ bucket }, { store }) => {
    await store.headBucket(bucket);
    throw new S3Error(code);
  };

/** The bucket is there; the setting is what every bucket begins with. */
const standard =
  (document: string): Operation =>
  async ({ bucket }, { store }) => {
    await store.headBucket(bucket);
    return xml(document);
  };

export const getBucketReplication = absent("ReplicationConfigurationNotFoundError");
export const getBucketLogging = standard(emptySettingXml("BucketLoggingStatus"));
export const getBucketAccelerateConfiguration = standard(emptySettingXml("AccelerateConfiguration"));
export const getBucketRequestPayment = standard(requestPaymentXml());
