import { assert, ConcordError, spanOver, toConcordError } from "@concord/runtime";
import type { BlobWriter } from "@concord/ports";
import type { UploadBody } from "./api.ts";
import { abandonBlobs } from "./commit-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import type { Content, StoredChecksum } from "./rows.ts";
import type { ShardView } from "./shard-view.ts";
import type { NewBlob, BlobName } from "./upload-journal.ts";

export interface StoredBody {
  readonly content: Extract<Content, { readonly kind: "inline" | "blob" }>;
  /** The blob's name, which the commit resolves; none for inline bytes. */
  readonly names: readonly BlobName[];
  readonly sizeBytes: number;
  readonly md5Hex: string;
  readonly checksum: StoredChecksum | undefined;
}

interface OpenBlob {
  readonly name: BlobName;
  readonly writer: BlobWriter;
}

export interface BodyTarget {
  /** Read before the blob is made; where its GC entry goes when it cannot be removed. */
  readonly view: ShardView;
  readonly blob: NewBlob;
  /** Bodies up to this size come back as bytes; below 0: always a blob. */
  readonly inlineBytesMax: number;
}

const FIRST_BUFFER_BYTES = 64 * 1024;

/**
 * Takes a body in: bytes in memory or one sealed blob (I1). A body that breaks off or fails its checks leaves nothing (OG3), and rejects
 * with the body's own error.
 */
export async function storeBody(context: ObjectStoreContext, body: UploadBody, target: BodyTarget): Promise<StoredBody> {
  refuseLarge(context, body.lengthBytes ?? 0);
  const span = context.span?.child("object body");
  const inBody = span === undefined ? context : { ...context, span };
  const gathered = gather(context, body);
  try {
    const stored = storeGathered(inBody, body, gathered, target);
    return await (span === undefined ? stored : spanOver(span, stored));
  } finally {
    // Also when it was not asked for its end: a body that comes from a blob holds a file open.
    await gathered.return().catch(() => undefined);
  }
}

async function storeGathered(
  context: ObjectStoreContext,
  body: UploadBody,
  gathered: AsyncGenerator<Gathered, void, undefined>,
  target: BodyTarget,
): Promise<StoredBody> {
  const first = await gathered.next();
  const small = first.done === true ? new Uint8Array() : first.value.bytes;
  const whole = first.done === true || first.value.last;
  if (whole && small.length <= target.inlineBytesMax) {
    const { md5Hex, checksum } = body.finish();
    return { content: { kind: "inline", bytes: small }, names: [], sizeBytes: small.length, md5Hex, checksum };
  }
  const open = await createBlob(context, target);
  try {
    return await fillBlob(context, open, body, small, gathered);
  } catch (error) {
    await removeBlob(context, target, open, error);
    throw error;
  }
}

async function fillBlob(
  context: ObjectStoreContext,
  { name, writer }: OpenBlob,
  body: UploadBody,
  first: Uint8Array,
  rest: AsyncIterable<Gathered>,
): Promise<StoredBody> {
  let lengthBytes = first.length;
  if (first.length > 0) await writer.write(first);
  context.failpoint("object:after-first-write");
  for await (const { bytes } of rest) {
    await writer.write(bytes);
    lengthBytes += bytes.length;
  }
  // The client's promises are checked before the blob is sealed: what is sealed is whole (OG3).
  const { md5Hex, checksum } = body.finish();
  context.failpoint("object:before-seal");
  const span = context.span?.child("blob sync");
  const sealed = await (span === undefined ? writer.seal() : spanOver(span, writer.seal()));
  assert(sealed.lengthBytes === lengthBytes, "a sealed blob has the bytes that were written");
  context.failpoint("object:after-seal");
  return { content: { kind: "blob", oid: name.oid, lengthBytes }, names: [name], sizeBytes: lengthBytes, md5Hex, checksum };
}

/** A name that is refused is never tried again: another one (OGD3, OGD5). */
async function createBlob(context: ObjectStoreContext, target: BodyTarget): Promise<OpenBlob> {
  const { blob } = target;
  for (let attempt = 1; ; attempt += 1) {
    const name = await context.journal.begin(blob);
    context.failpoint("object:before-create");
    try {
      const writer = await context.data.create(name.oid, blob);
      context.failpoint("object:after-create");
      return { name, writer };
    } catch (error) {
      const { code } = toConcordError(error);
      if (code !== "EPOCH_FENCED" && code !== "PIECE_EXISTS") {
        await discardBlob(context, target, name);
        throw error;
      }
      // The name is not ours to remove or resolve: it belongs to a recovery or to another gateway.
      context.journal.fenced(name.oid);
      context.log.warn("a blob name was refused; taking another", { oid: name.oid, code });
      if (attempt >= context.limits.blobNamesMax) throw error;
    }
  }
}

async function removeBlob(context: ObjectStoreContext, target: BodyTarget, { name, writer }: OpenBlob, cause: unknown): Promise<void> {
  await writer.abandon().catch(() => undefined);
  context.failpoint("object:before-remove");
  if (toConcordError(cause).code === "EPOCH_FENCED") {
    context.journal.fenced(name.oid);
    return;
  }
  await discardBlob(context, target, name);
}

/** Removes a blob that no commit was sent for; what cannot be removed now is garbage. */
async function discardBlob(context: ObjectStoreContext, target: BodyTarget, name: BlobName): Promise<void> {
  try {
    await context.data.remove(name.oid);
  } catch (error) {
    context.log.warn("a blob of a failed upload could not be removed", { oid: name.oid, error: toConcordError(error).message });
    await abandonBlobs(context, { view: target.view, guid: target.blob.guid, names: [name] });
    return;
  }
  await name.resolve("absent");
}

interface Gathered {
  /** Valid until the next one is requested. */
  readonly bytes: Uint8Array;
  readonly last: boolean;
}

/** The body in chunks of `writeBytes`, the last one shorter. */
async function* gather(context: ObjectStoreContext, body: UploadBody): AsyncGenerator<Gathered, void, undefined> {
  const { clock, limits } = context;
  const endsAtMs = clock.monotonicMs() + limits.longestRequestMs;
  let buffer = new Uint8Array(Math.min(limits.writeBytes, body.lengthBytes ?? FIRST_BUFFER_BYTES));
  let filled = 0;
  let total = 0;
  for await (const chunk of body.chunks) {
    total += chunk.length;
    refuseLarge(context, total);
    if (clock.monotonicMs() > endsAtMs) throw new ConcordError("DEADLINE_EXCEEDED", "the upload took too long", { applied: "no" });
    for (let at = 0; at < chunk.length;) {
      if (filled === limits.writeBytes) {
        yield { bytes: buffer, last: false };
        filled = 0;
      }
      if (filled === buffer.length) buffer = grown(buffer, limits.writeBytes);
      const count = Math.min(chunk.length - at, buffer.length - filled);
      buffer.set(chunk.subarray(at, at + count), filled);
      filled += count;
      at += count;
    }
  }
  yield { bytes: buffer.subarray(0, filled), last: true };
}

function grown(buffer: Uint8Array<ArrayBuffer>, bytesMax: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.min(bytesMax, Math.max(FIRST_BUFFER_BYTES, buffer.length * 4)));
  larger.set(buffer);
  return larger;
}

function refuseLarge(context: ObjectStoreContext, lengthBytes: number): void {
  if (lengthBytes <= context.limits.blobBytesMax) return;
  throw new ConcordError("LIMIT_EXCEEDED", `one upload has at most ${context.limits.blobBytesMax} bytes`, {
    metadata: { limit: "pieceBytes" },
  });
}
