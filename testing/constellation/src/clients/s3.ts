// The S3 client of the AWS SDK, pointed at a gateway.
import { S3Client } from "@aws-sdk/client-s3";
import type { AccessKey } from "../data-folder.ts";

/** The SDK's own. */
const CONNECTIONS_MAX = 50;

/** `maxAttempts` 1: what fails is seen, not repeated by the SDK. */
export function s3Client(
  endpoint: string,
  { accessKeyId, secretAccessKey }: AccessKey,
  maxAttempts = 1,
  connectionsMax = CONNECTIONS_MAX,
): S3Client {
  const requestHandler = { httpAgent: { maxSockets: connectionsMax } };
  const credentials = { accessKeyId, secretAccessKey };
  return new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, maxAttempts, credentials, requestHandler });
}
