import { assert, ConcordError, spanOver, toConcordError } from "@concord/runtime";
import type { BlobWriter, Oid } from "@concord/ports";
import type { UploadBody } from "./api.ts";
import { abandonBlobs } from "./commit-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import { digestsBeside, sealerOf, type BodyKey } from "./encryption/body-key.ts";
import { FRAME_BYTES, sealedLength } from "./encryption/frames.ts";
import type { Content, StoredChecksum } from "./rows.ts";
import type { ShardView } from "./shard-view.ts";
import type { NewBlob, BlobName } from "./upload-journal.ts";

export interface StoredBody {
  readonly content: Extract<Content, { readonly kind: "inline" | "blob" }>;
  /** The blob's name, which the commit resolves; none for inline bytes. */
  readonly names: readonly BlobName[];
  readonly sizeBytes: number;
  /** Of the plaintext, or, where that would tell of it, 128 bits that do not. */
  readonly md5Hex: string;
  readonly checksum: StoredChecksum | undefined;
  /** Instead of the checksum this is stored: the same, encrypted. */
  readonly sealedChecksum?: Uint8Array;
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
  /** What is stored is encrypted with it. */
  readonly key?: BodyKey | undefined;
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
  const gathered = gather(context, body, writeBytesOf(context, target));
  try {
    const storing = storeGathered(inBody, body, gathered, target);
    const stored = await (span === undefined ? storing : spanOver(span, storing));
    assert(body.lengthBytes === undefined || stored.sizeBytes === body.lengthBytes, "OG3: an object is as long as its body was announced");
    return stored;
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
  const { key } = target;
  const next = await gathered.next();
  const first = next.done === true ? { bytes: new Uint8Array(), last: true } : next.value;
  const small = first.bytes;
  if (first.last && small.length <= target.inlineBytesMax) {
    const digests = digestsBeside(key, undefined, body.finish());
    const bytes = key === undefined ? small : sealerOf(key, undefined).seal(small, true);
    assert(bytes.length === (key === undefined ? small.length : sealedLength(small.length)), "OGD23: what is encrypted is stored sealed");
    return { content: { kind: "inline", bytes }, names: [], sizeBytes: small.length, ...digests };
  }
  const open = await createBlob(context, target);
  try {
    return await fillBlob(context, open, { body, first, rest: gathered, key });
  } catch (error) {
    await removeBlob(context, target, open, error);
    throw error;
  }
}

interface BlobBody {
  readonly body: UploadBody;
  readonly first: Gathered;
  readonly rest: AsyncIterable<Gathered>;
  readonly key: BodyKey | undefined;
}

async function fillBlob(
  context: ObjectStoreContext,
  { name, writer }: OpenBlob,
  { body, first, rest, key }: BlobBody,
): Promise<StoredBody> {
  const sealer = key === undefined ? undefined : sealerOf(key, name.oid);
  let hasEnded = false;
  const write = ({ bytes, last }: Gathered): Promise<void> => {
    assert(!hasEnded, "OG3: nothing of a body follows its end");
    hasEnded = last;
    assert(sealer === undefined || last || bytes.length % FRAME_BYTES === 0, "OGD24: each frame but the last is whole");
    return writer.write(sealer === undefined ? bytes : sealer.seal(bytes, last));
  };
  let lengthBytes = first.bytes.length;
  if (lengthBytes > 0 || sealer !== undefined) await write(first);
  context.failpoint("object:after-first-write");
  for await (const next of rest) {
    await write(next);
    lengthBytes += next.bytes.length;
  }
  assert(hasEnded || lengthBytes === 0, "OG3: a body is stored to its end");
  // The client's promises are checked before the blob is sealed: what is sealed is whole (OG3).
  const digests = digestsBeside(key, name.oid, body.finish());
  context.failpoint("object:before-seal");
  const span = context.span?.child("blob sync");
  const sealed = await (span === undefined ? writer.seal() : spanOver(span, writer.seal()));
  const storedBytes = sealer === undefined ? lengthBytes : sealedLength(lengthBytes);
  assert(sealed.lengthBytes === storedBytes, "a sealed blob has the bytes that were written");
  context.failpoint("object:after-seal");
  return { content: { kind: "blob", oid: name.oid, lengthBytes }, names: [name], sizeBytes: lengthBytes, ...digests };
}

/** A name that is refused is never tried again: another one (OGD3, OGD5). */
async function createBlob(context: ObjectStoreContext, target: BodyTarget): Promise<OpenBlob> {
  const { blob } = target;
  let refused: Oid | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const name = await context.journal.begin(blob);
    assert(name.oid !== refused, "OGD3, OGD5: a name that was refused is not tried again");
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
      refused = name.oid;
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

/** Encrypted bodies are written in whole frames. */
function writeBytesOf({ limits }: ObjectStoreContext, { key }: BodyTarget): number {
  if (key === undefined) return limits.writeBytes;
  return Math.max(1, Math.floor(limits.writeBytes / FRAME_BYTES)) * FRAME_BYTES;
}

/** The body in chunks of `writeBytes`, the last one shorter. What arrives as one of them, as of a copy, goes on without being copied. */
async function* gather(context: ObjectStoreContext, body: UploadBody, writeBytes: number): AsyncGenerator<Gathered, void, undefined> {
  const { clock, limits } = context;
  const endsAtMs = clock.monotonicMs() + limits.longestRequestMs;
  const firstBytes = Math.min(writeBytes, Math.max(1, body.lengthBytes ?? FIRST_BUFFER_BYTES));
  // Made when a chunk is not written as it came.
  let buffer = new Uint8Array();
  let filled = 0;
  let given = 0;
  let total = 0;
  for await (const chunk of body.chunks) {
    total += chunk.length;
    refuseLarge(context, total);
    if (clock.monotonicMs() > endsAtMs) throw new ConcordError("DEADLINE_EXCEEDED", "the upload took too long", { applied: "no" });
    // Only what was announced says that another one follows; the last one is kept until the body has ended, and so been checked.
    if (filled === 0 && chunk.length === writeBytes && total < (body.lengthBytes ?? 0)) {
      yield { bytes: chunk, last: false };
      given += chunk.length;
      continue;
    }
    for (let at = 0; at < chunk.length;) {
      if (filled === writeBytes) {
        yield { bytes: buffer, last: false };
        given += filled;
        filled = 0;
      }
      if (filled === buffer.length) buffer = filled === 0 ? new Uint8Array(firstBytes) : grown(buffer, writeBytes);
      const count = Math.min(chunk.length - at, buffer.length - filled);
      buffer.set(chunk.subarray(at, at + count), filled);
      filled += count;
      at += count;
    }
  }
  assert(given + filled === total, "OG3: what is stored of a body is what arrived");
  yield { bytes: buffer.subarray(0, filled), last: true };
}

function grown(buffer: Uint8Array<ArrayBuffer>, bytesMax: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.min(bytesMax, Math.max(FIRST_BUFFER_BYTES, buffer.length * 4)));
  assert(larger.length > buffer.length, "a buffer that is full grows");
  larger.set(buffer);
  return larger;
}

function refuseLarge(context: ObjectStoreContext, lengthBytes: number): void {
  if (lengthBytes <= context.limits.blobBytesMax) return;
  throw new ConcordError("LIMIT_EXCEEDED", `one upload has at most ${context.limits.blobBytesMax} bytes`, {
    metadata: { limit: "pieceBytes" },
  });
}
