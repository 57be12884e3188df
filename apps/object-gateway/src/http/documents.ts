import { readBody, XML_BODY_BYTES_MAX, type BodyOptions } from "@concord/s3";
import type { Context, S3Call } from "./call.ts";

/** The whole body of a request that is a document, checked; empty when there is none. It counts as an upload while it is read. */
export function readDocument(call: S3Call, { budget }: Context, options: BodyOptions = {}): Promise<Uint8Array> {
  return budget.during(XML_BODY_BYTES_MAX, () => readBody(call.request, call.verified, { maxBytes: XML_BODY_BYTES_MAX, ...options }));
}
