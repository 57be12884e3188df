// Lines and bytes out of a stream of chunks, without copying what passes through.
import { S3Error } from "../errors.ts";

const LF = 0x0a;

export interface ByteReader {
  /** A line without its CRLF; refuses (InvalidRequest) a CR or LF that is not CRLF, and a line of more than `max` bytes. */
  line(max: number): Promise<string>;
  /** The same, for a line that may also end in LF CRLF: so S3's documentation writes trailers, and MinIO's clients send them. */
  trailerLine(max: number): Promise<string>;
  /** At least one and at most `max` bytes, as they came; IncompleteBody at the end of the stream. */
  some(max: number): Promise<Uint8Array>;
  /** Refuses if there is one more byte. */
  end(): Promise<void>;
}

/** Closing the iterator is the caller's. */
export function byteReader(source: AsyncIterator<Uint8Array>): ByteReader {
  let current: Uint8Array = new Uint8Array(0);
  let offset = 0;

  /** False at the end of the stream. */
  const fill = async (): Promise<boolean> => {
    while (offset >= current.length) {
      const next = await source.next();
      if (next.done === true) return false;
      [current, offset] = [next.value, 0];
    }
    return true;
  };

  /** With its end. */
  const lineToEnd = async (max: number): Promise<string> => {
    let text = "";
    for (;;) {
      if (!(await fill())) throw new S3Error("IncompleteBody", "The body ended within a chunk header or trailer.");
      const at = current.indexOf(LF, offset);
      const end = at < 0 ? current.length : at + 1;
      if (text.length + (end - offset) > max + 2) throw new S3Error("InvalidRequest", "A chunk header or trailer is too long.");
      text += Buffer.from(current.buffer, current.byteOffset + offset, end - offset).toString("latin1");
      offset = end;
      if (at >= 0) return text;
    }
  };

  const line = async (max: number): Promise<string> => contentOf(await lineToEnd(max));

  const trailerLine = async (max: number): Promise<string> => {
    const text = await lineToEnd(max);
    if (text.endsWith(CRLF)) return contentOf(text);
    return contentOf(`${text.slice(0, -1)}${await lineToEnd(0)}`);
  };

  const some = async (max: number): Promise<Uint8Array> => {
    if (!(await fill())) throw new S3Error("IncompleteBody");
    const blob = offset === 0 && current.length <= max ? current : current.subarray(offset, Math.min(current.length, offset + max));
    offset += blob.length;
    return blob;
  };

  const end = async (): Promise<void> => {
    if (await fill()) throw new S3Error("InvalidRequest", "There are bytes behind the end of the body.");
  };
  return { line, trailerLine, some, end };
}

const CRLF = "\r\n";

function contentOf(line: string): string {
  const content = line.slice(0, -CRLF.length);
  if (!line.endsWith(CRLF) || content.includes("\r")) throw new S3Error("InvalidRequest", "Lines between chunks end in CRLF.");
  return content;
}
