// The aws-chunked encoding: "<hex size>[;chunk-signature=<hex>]\r\n<bytes>\r\n" until a size of 0, then perhaps a trailer, then "\r\n".
// Bytes pass before their chunk's signature is known to hold; what they are written to is not committed before the end (I3).
import { createHash, timingSafeEqual } from "node:crypto";
import { S3Error } from "../errors.ts";
import { CHUNK_HEADER_BYTES_MAX, CHUNK_SIZE_DIGITS_MAX, SIGNED_CHUNK_BYTES_MIN, TRAILER_BYTES_MAX, TRAILERS_MAX } from "../limits.ts";
import type { Payload, SignatureChain } from "../signature/payload.ts";
import type { ByteReader } from "./byte-reader.ts";

export type ChunkedPayload = Extract<Payload, { kind: "signed-chunks" | "unsigned-chunks" }>;

/** Trailers by name in lower case. */
export type Trailers = ReadonlyMap<string, string>;

interface Chain {
  /** Of the chunk before: what the next signature goes on from. */
  previous: string;
  readonly signing: SignatureChain;
}

interface ChunkHeader {
  readonly sizeBytes: number;
  readonly signature: string;
}

/** Yields the decoded bytes and returns the trailers. */
export async function* decodeChunks(
  reader: ByteReader,
  payload: ChunkedPayload,
  lengthBytes: number,
): AsyncGenerator<Uint8Array, Trailers, void> {
  const chain: Chain | undefined = payload.kind === "signed-chunks" ? { previous: payload.chain.seed, signing: payload.chain } : undefined;
  let decodedBytes = 0;
  let isSmall = false;
  for (;;) {
    const header = readHeader(await reader.line(CHUNK_HEADER_BYTES_MAX), chain !== undefined);
    if (header.sizeBytes === 0) {
      if (chain !== undefined) checkSignature(chain, chunkText(chain, EMPTY_SHA256), header.signature);
      break;
    }
    if (isSmall) throw new S3Error("InvalidChunkSizeError");
    isSmall = chain !== undefined && header.sizeBytes < SIGNED_CHUNK_BYTES_MIN;
    decodedBytes += header.sizeBytes;
    if (decodedBytes > lengthBytes) throw new S3Error("IncompleteBody", "The body is longer than x-amz-decoded-content-length.");
    yield* readChunk(reader, header, chain);
  }
  if (decodedBytes < lengthBytes) throw new S3Error("IncompleteBody", "The body is shorter than x-amz-decoded-content-length.");
  const trailers = await readTrailers(reader, payload, chain);
  await reader.end();
  return trailers;
}

async function* readChunk(reader: ByteReader, header: ChunkHeader, chain: Chain | undefined): AsyncGenerator<Uint8Array, void, void> {
  const hash = chain === undefined ? undefined : createHash("sha256");
  for (let left = header.sizeBytes; left > 0;) {
    const blob = await reader.some(left);
    hash?.update(blob);
    left -= blob.length;
    yield blob;
  }
  if ((await reader.line(0)) !== "") throw new S3Error("InvalidRequest", "A chunk is longer than it says.");
  if (chain !== undefined && hash !== undefined) checkSignature(chain, chunkText(chain, hash.digest("hex")), header.signature);
}

const EMPTY_SHA256 = createHash("sha256").digest("hex");
const UNSIGNED_HEADER = /^([0-9a-fA-F]+)$/;
const SIGNED_HEADER = /^([0-9a-fA-F]+);chunk-signature=([0-9a-f]{64})$/;

/** No other extension is known, so none is let through. */
function readHeader(line: string, isSigned: boolean): ChunkHeader {
  const match = (isSigned ? SIGNED_HEADER : UNSIGNED_HEADER).exec(line);
  if (match === null) {
    const form = isSigned ? "<hex size>;chunk-signature=<64 hex digits>" : "<hex size>";
    throw new S3Error(isSigned ? "SignatureDoesNotMatch" : "InvalidRequest", `A chunk must start with "${form}".`);
  }
  const [, size, signature = ""] = match;
  if (size!.length > CHUNK_SIZE_DIGITS_MAX) throw new S3Error("InvalidRequest", "The size of a chunk is too large.");
  return { sizeBytes: Number.parseInt(size!, 16), signature };
}

function chunkText({ previous, signing }: Chain, sha256Hex: string): string {
  return `AWS4-HMAC-SHA256-PAYLOAD\n${signing.timestamp}\n${signing.scope}\n${previous}\n${EMPTY_SHA256}\n${sha256Hex}`;
}

function checkSignature(chain: Chain, text: string, signature: string): void {
  if (!timingSafeEqual(chain.signing.sign(text), Buffer.from(signature, "hex"))) {
    throw new S3Error("SignatureDoesNotMatch", "The signature of a chunk or of the trailer does not match.");
  }
  chain.previous = signature;
}

async function readTrailers(reader: ByteReader, payload: ChunkedPayload, chain: Chain | undefined): Promise<Trailers> {
  const hasTrailer = payload.kind === "unsigned-chunks" || payload.trailer;
  const lines: string[] = [];
  for (let bytes = 0; ;) {
    const line = await reader.trailerLine(TRAILER_BYTES_MAX);
    if (line === "") break;
    lines.push(line);
    bytes += line.length;
    if (!hasTrailer) throw new S3Error("MalformedTrailerError", "A trailer was not announced.");
    if (bytes > TRAILER_BYTES_MAX || lines.length > TRAILERS_MAX + 1)
      throw new S3Error("MalformedTrailerError", "The trailer is too long.");
  }
  if (chain === undefined || !hasTrailer) return parseTrailers(lines);
  const signature = /^x-amz-trailer-signature: *([0-9a-f]{64})$/i.exec(lines.pop() ?? "")?.[1];
  if (signature === undefined) throw new S3Error("MalformedTrailerError", "The trailer must end in x-amz-trailer-signature.");
  const trailers = parseTrailers(lines);
  const text = [...trailers].map(([name, value]) => `${name}:${value}\n`).join("");
  const sha256Hex = createHash("sha256").update(text, "latin1").digest("hex");
  const { timestamp, scope } = chain.signing;
  checkSignature(chain, `AWS4-HMAC-SHA256-TRAILER\n${timestamp}\n${scope}\n${chain.previous}\n${sha256Hex}`, signature);
  return trailers;
}

function parseTrailers(lines: readonly string[]): Trailers {
  const trailers = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = /^([A-Za-z0-9-]+):[ \t]*([\x21-\x7e]*)[ \t]*$/.exec(line) ?? [];
    if (name === undefined || value === undefined || trailers.has(name.toLowerCase())) throw new S3Error("MalformedTrailerError");
    trailers.set(name.toLowerCase(), value);
  }
  return trailers;
}
