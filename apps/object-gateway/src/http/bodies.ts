// Bodies of requests, checked and within the budget: uploads as a stream, documents whole.
import type { UploadBody } from "@concord/objects";
import type { SpaceGuard } from "@concord/runtime";
import { checkedBody, readBody, XML_BODY_BYTES_MAX, type BodyOptions, type ChecksumAlgorithm } from "@concord/s3";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";

/** Runs `action` with the request's checked body when there is room for another upload. */
export function withUpload<Result>(
  call: S3Call,
  context: Context,
  options: { readonly algorithm?: ChecksumAlgorithm | undefined; readonly becomes: "object" | "part" },
  action: (body: UploadBody) => Promise<Result>,
): Promise<Result> {
  const { partBytesMax, uploads, receiving, metrics, space, quotas, digestThread: thread } = context;
  const body = checkedBody(call.request, call.verified, { ...options, maxBytes: partBytesMax, thread });
  const counted = counting(body.chunks, (bytes) => metrics.count("s3_received_bytes_total", bytes));
  // A part is no object yet: only that it would fit.
  const amount = { objects: options.becomes === "object" ? 1 : 0, bytes: body.lengthBytes };
  return receiving.during(call, body.lengthBytes, (pacing) =>
    uploads.during(call.tenant, body.lengthBytes, async () => {
      await space.admit();
      const chunks = whileAdmitted(pacing.chunks(counted), space);
      return await quotas.during(call.access.owner, amount, () => action({ ...body, chunks }));
    }),
  );
}

/** Runs `action` with the checked file of a form when there is room for another upload. */
export function withFile<Result>(
  call: S3Call,
  { uploads, receiving, metrics, space, quotas, partBytesMax }: Context,
  file: Omit<UploadBody, "lengthBytes">,
  action: (body: UploadBody) => Promise<Result>,
): Promise<Result> {
  const counted = counting(file.chunks, (bytes) => metrics.count("s3_received_bytes_total", bytes));
  // The file ends where the form says: at most all of it.
  const length = call.request.headers.find(([name]) => name === "content-length")?.[1];
  const bytes = length === undefined ? partBytesMax : Number(length);
  return receiving.during(call, bytes, (pacing) =>
    uploads.during(call.tenant, UPLOAD_SHARE_BYTES, async () => {
      await space.admit();
      const body = { lengthBytes: undefined, chunks: whileAdmitted(pacing.chunks(counted), space), finish: () => file.finish() };
      return await quotas.during(call.access.owner, { objects: 1, bytes }, () => action(body));
    }),
  );
}

/** A long upload ends when the disk fills under it: STORAGE_FULL. */
async function* whileAdmitted(chunks: AsyncIterable<Uint8Array>, space: SpaceGuard): AsyncGenerator<Uint8Array, void, void> {
  for await (const chunk of chunks) {
    await space.admit();
    yield chunk;
  }
}

/** The whole body of a request that is a document, checked; empty when there is none. It counts as an upload while it is read. */
export function readDocument(call: S3Call, { uploads }: Context, options: BodyOptions = {}): Promise<Uint8Array> {
  return uploads.during(call.tenant, XML_BODY_BYTES_MAX, () =>
    readBody(call.request, call.verified, { maxBytes: XML_BODY_BYTES_MAX, ...options }),
  );
}

/** Counts once, however it ends. */
export async function* counting(chunks: AsyncIterable<Uint8Array>, count: (bytes: number) => void): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0;
  try {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      yield chunk;
    }
  } finally {
    count(bytes);
  }
}
