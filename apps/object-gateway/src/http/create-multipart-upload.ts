import { initiateMultipartUploadXml, readUploadChecksum } from "@concord/s3";
import { guidToText } from "@concord/snowflake";
import { attributesOf } from "./attributes.ts";
import type { Operation } from "./call.ts";
import { xml, type Header } from "./responses.ts";

/** Nothing is visible under the key before complete (OG14). */
export const createMultipartUpload: Operation = async ({ bucket, key, headers }, { store }) => {
  const checksum = readUploadChecksum(headers);
  const uploadId = guidToText(await store.createUpload({ bucket, key, attributes: attributesOf(headers), checksum }));
  const said: readonly Header[] =
    checksum === undefined
      ? []
      : [
          ["x-amz-checksum-algorithm", checksum.algorithm],
          ["x-amz-checksum-type", checksum.type],
        ];
  return xml(initiateMultipartUploadXml({ bucket, key, uploadId }), said);
};
