// A browser's form (RFC 7578) as it arrives: its fields, then its file as a stream. Time is linear in the input, memory bounded: fields
// have FORM_FIELDS_BYTES_MAX together, of the file only a chunk is held.
import { decodeUtf8, percentDecode } from "../encoding.ts";
import { S3Error } from "../errors.ts";
import { fieldsOf, type Fields } from "../fields.ts";
import { FORM_AFTER_BYTES_MAX, FORM_FIELDS_BYTES_MAX, FORM_FIELDS_MAX } from "../limits.ts";

export interface Form {
  /** Before the file, each once; names in lower case. */
  readonly fields: Fields;
  /** As the browser says, without folders; "" when it says nothing. */
  readonly fileName: string;
  /** Read at most once. Ends only when the form did, too. */
  readonly file: AsyncIterable<Uint8Array>;
  /** Cancels what was not read. */
  close(): Promise<void>;
}

const BOUNDARY = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([\x20-\x7e]{1,70})"|([0-9A-Za-z'()+_,\-./:=?]{1,70}))\s*(?:;.*)?$/i;
const CRLF = Buffer.from("\r\n");
const HEADERS_END = Buffer.from("\r\n\r\n");

export function malformedForm(what: string): S3Error {
  return new S3Error("MalformedPOSTRequest", `The body of your POST request is not well-formed multipart/form-data: ${what}.`);
}

/** Reads up to the first byte of the file. MalformedPOSTRequest, MaxPostPreDataLengthExceeded, IncompleteBody, InvalidArgument. */
export async function readForm(body: AsyncIterable<Uint8Array>, contentType: string): Promise<Form> {
  const found = BOUNDARY.exec(contentType);
  const boundary = found?.[1] ?? found?.[2];
  if (boundary === undefined) throw malformedForm("its boundary is missing or not valid");
  const source = body[Symbol.asyncIterator]();
  const close = async (): Promise<void> => void (await source.return?.());
  try {
    const delimiter = Buffer.from(`\r\n--${boundary}`);
    const reader = fieldReader(source);
    const fields = new Map<string, string>();
    for (;;) {
      const part = await readPartHeader(reader, delimiter, fields.size === 0);
      if (part.name === "file") {
        const { fileName } = part;
        return { fields: fieldsOf([...fields]), fileName, file: fileOf(source, reader.rest(), delimiter), close };
      }
      if (fields.has(part.name)) throw new S3Error("InvalidArgument", `The field ${part.name} was sent more than once`);
      if (fields.size >= FORM_FIELDS_MAX) throw malformedForm(`it has more than ${FORM_FIELDS_MAX} fields`);
      fields.set(part.name, textOf(await reader.until(delimiter)));
    }
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

interface FieldReader {
  /** What is before the next `end`, which is taken, too. Valid until the next call. */
  until(end: Buffer): Promise<Uint8Array>;
  /** What was received and not taken. */
  rest(): Uint8Array;
}

/** All fields of a form go through one buffer, so that many small chunks cost no more than one. */
function fieldReader(source: AsyncIterator<Uint8Array>): FieldReader {
  const taken = Buffer.alloc(FORM_FIELDS_BYTES_MAX);
  let left = FORM_FIELDS_BYTES_MAX;
  // A form begins with a delimiter, whose line end is that of the headers.
  let rest: Uint8Array = CRLF;
  const until = async (end: Buffer): Promise<Uint8Array> => {
    let filled = 0;
    for (;;) {
      const room = Math.min(rest.length, left - filled);
      taken.set(rest.subarray(0, room), filled);
      const searched = Math.max(0, filled - end.length + 1);
      const at = taken.subarray(0, filled + room).indexOf(end, searched);
      if (at >= 0) {
        rest = rest.subarray(at + end.length - filled);
        left -= at + end.length;
        return taken.subarray(0, at);
      }
      filled += room;
      if (room < rest.length || filled === left) throw new S3Error("MaxPostPreDataLengthExceeded");
      const next = await source.next();
      if (next.done === true) throw new S3Error("IncompleteBody", "The form ended before its file.");
      rest = next.value;
    }
  };
  return { until, rest: () => rest };
}

async function readPartHeader(reader: FieldReader, delimiter: Buffer, isFirst: boolean): Promise<{ name: string; fileName: string }> {
  if (isFirst && (await reader.until(delimiter)).length > 0) throw malformedForm("it does not begin with its boundary");
  const end = textOf(await reader.until(CRLF));
  if (end.startsWith("--")) throw new S3Error("InvalidArgument", "POST requires exactly one file upload per request.");
  if (end !== "") throw malformedForm("a boundary is not followed by a new line");
  return readHeaders(textOf(await reader.until(HEADERS_END)));
}

function readHeaders(text: string): { name: string; fileName: string } {
  const headers = text.split("\r\n").map((line) => {
    const [, name, value] = /^([A-Za-z0-9-]+):[ \t]*(.*)$/s.exec(line) ?? [];
    if (name === undefined || value === undefined) throw malformedForm("a header of a field is not valid");
    return [name.toLowerCase(), value.trim()] as const;
  });
  const all = fieldsOf(headers);
  const encoding = all.one("content-transfer-encoding") ?? "binary";
  if (!/^(?:binary|7bit|8bit)$/i.test(encoding)) throw malformedForm("a Content-Transfer-Encoding is not known");
  const disposition = all.one("content-disposition") ?? "";
  if (!/^form-data\s*;/i.test(disposition)) throw malformedForm("a field has no Content-Disposition");
  const name = parameterOf(disposition, "name");
  if (name === undefined || name === "") throw malformedForm("a field has no name");
  const extended = /;\s*filename\*=utf-8''([^;\s]+)/i.exec(disposition)?.[1];
  const fileName = extended === undefined ? unescaped(parameterOf(disposition, "filename") ?? "") : percentDecode(extended);
  return {
    name: unescaped(name).toLowerCase(),
    fileName: fileName.slice(Math.max(fileName.lastIndexOf("/"), fileName.lastIndexOf("\\")) + 1),
  };
}

/** Quoted; a quote inside comes as %22, from older clients as \". */
function parameterOf(disposition: string, name: "name" | "filename"): string | undefined {
  for (const [, found, quoted, plain] of disposition.matchAll(/;\s*([a-z*]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/gi))
    if (found!.toLowerCase() === name) return quoted?.replaceAll('\\"', '"') ?? plain;
  return undefined;
}

/** The three characters that browsers escape. */
const unescaped = (text: string): string =>
  text.replace(/%(?:22|0D|0A)/gi, (one) => String.fromCharCode(Number.parseInt(one.slice(1), 16)));

function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw malformedForm("a field is not UTF-8");
  return text;
}

/** S3's rule: fields after the file mean nothing. That the form ended is seen before the file's last byte counts. */
async function* fileOf(source: AsyncIterator<Uint8Array>, first: Uint8Array, delimiter: Buffer): AsyncGenerator<Uint8Array, void, void> {
  let held = Buffer.from(first.buffer, first.byteOffset, first.length);
  let after: Buffer | undefined;
  while (after === undefined) {
    const at = held.indexOf(delimiter);
    const keptBytes = Math.min(held.length, delimiter.length - 1);
    const passing = held.subarray(0, at < 0 ? held.length - keptBytes : at);
    if (passing.length > 0) yield passing;
    if (at >= 0) after = held.subarray(at + delimiter.length);
    else held = Buffer.concat([held.subarray(held.length - keptBytes), await nextOf(source)]);
  }
  await readEnd(source, after, delimiter);
}

async function nextOf(source: AsyncIterator<Uint8Array>): Promise<Uint8Array> {
  const next = await source.next();
  if (next.done === true) throw new S3Error("IncompleteBody", "The form ended within its file.");
  return next.value;
}

async function readEnd(source: AsyncIterator<Uint8Array>, first: Buffer, delimiter: Buffer): Promise<void> {
  const after = Buffer.alloc(FORM_AFTER_BYTES_MAX);
  let filled = 0;
  for (let chunk: Uint8Array = first; ;) {
    if (filled + chunk.length > after.length) throw malformedForm("too much follows its file");
    after.set(chunk, filled);
    filled += chunk.length;
    const next = await source.next();
    if (next.done === true) break;
    chunk = next.value;
  }
  const text = after.subarray(0, filled);
  const isEnded =
    text.indexOf("--") === 0 || (text.indexOf(CRLF) === 0 && text.indexOf(Buffer.concat([delimiter, Buffer.from("--")])) >= 0);
  if (!isEnded) throw new S3Error("IncompleteBody", "The form has no end.");
}
