// XML as the bodies of S3 need it, and not a bit more: elements, attributes (which mean nothing), text, CDATA, comments, five entities and numeric
// characters. No DOCTYPE, no processing instruction, no namespace prefix of an element. Time and memory are linear in the input.
import { decodeUtf8 } from "../encoding.ts";
import { S3Error } from "../errors.ts";
import { XML_ATTRIBUTES_MAX, XML_DEPTH_MAX, XML_ELEMENTS_MAX, XML_TEXT_CHARS_MAX } from "../limits.ts";

export interface XmlElement {
  readonly name: string;
  readonly children: readonly XmlElement[];
  /** Unescaped; of an element with children it is only white space, and "" here. */
  readonly text: string;
}

export const S3_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/";

const DECLARATION =
  /<\?xml[ \t\n]+version=(?:"1\.[01]"|'1\.[01]')(?:[ \t\n]+encoding=(?:"utf-8"|'utf-8'))?(?:[ \t\n]+standalone=(?:"(?:yes|no)"|'(?:yes|no)'))?[ \t\n]*\?>/iy;
const NAME = /[A-Za-z_][A-Za-z0-9_.-]*/y;
const ATTRIBUTE = /[ \t\n]+([A-Za-z_][A-Za-z0-9_.:-]*)[ \t\n]*=[ \t\n]*(?:"([^"<]*)"|'([^'<]*)')/y;
const SPACE = /[ \t\n]*/y;
/** What XML 1.0 has no place for, escaped or not; escaped control characters are let through, since keys have them. */
// eslint-disable-next-line no-control-regex
const REFUSED_RAW = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["amp", "&"],
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["apos", "'"],
]);

interface Cursor {
  readonly text: string;
  at: number;
  elements: number;
}

/** MalformedXML for everything that is not one well-formed element. */
export function parseXml(bytes: Uint8Array): XmlElement {
  const decoded = decodeUtf8(bytes);
  if (decoded === undefined) throw malformed("it is not UTF-8");
  const text = decoded.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n");
  if (REFUSED_RAW.test(text)) throw malformed("it has characters that XML does not allow");
  const cursor: Cursor = { text, at: 0, elements: 0 };
  match(cursor, DECLARATION);
  skipBetween(cursor);
  const root = readElement(cursor, 1);
  skipBetween(cursor);
  if (cursor.at !== text.length) throw malformed("there is something behind its root element");
  return root;
}

export function malformed(what: string): S3Error {
  return new S3Error("MalformedXML", `The XML you provided was not well-formed or did not validate against our published schema: ${what}.`);
}

function match(cursor: Cursor, pattern: RegExp): RegExpExecArray | undefined {
  pattern.lastIndex = cursor.at;
  const found = pattern.exec(cursor.text);
  if (found === null) return undefined;
  cursor.at = pattern.lastIndex;
  return found;
}

function skip(cursor: Cursor, text: string): boolean {
  if (!cursor.text.startsWith(text, cursor.at)) return false;
  cursor.at += text.length;
  return true;
}

/** White space and comments around the root element. */
function skipBetween(cursor: Cursor): void {
  do match(cursor, SPACE);
  while (skipComment(cursor));
}

function skipComment(cursor: Cursor): boolean {
  if (!skip(cursor, "<!--")) return false;
  const end = cursor.text.indexOf("--", cursor.at);
  if (end < 0 || cursor.text[end + 2] !== ">") throw malformed("a comment does not end, or has -- in it");
  cursor.at = end + 3;
  return true;
}

/** Undefined where no CDATA section begins. */
function readCdata(cursor: Cursor): string | undefined {
  if (!skip(cursor, "<![CDATA[")) return undefined;
  const end = cursor.text.indexOf("]]>", cursor.at);
  if (end < 0) throw malformed("a CDATA section does not end");
  const text = cursor.text.slice(cursor.at, end);
  cursor.at = end + 3;
  return text;
}

function readElement(cursor: Cursor, depth: number): XmlElement {
  if (depth > XML_DEPTH_MAX) throw malformed("it is nested too deeply");
  cursor.elements += 1;
  if (cursor.elements > XML_ELEMENTS_MAX) throw malformed("it has too many elements");
  if (!skip(cursor, "<")) throw malformed("an element is expected");
  const name = match(cursor, NAME)?.[0];
  if (name === undefined) throw malformed("it has markup that is not allowed here");
  readAttributes(cursor);
  match(cursor, SPACE);
  if (skip(cursor, "/>")) return { name, children: [], text: "" };
  if (!skip(cursor, ">")) throw malformed(`the tag ${name} is not closed`);
  const { children, text } = readContent(cursor, depth);
  if (!skip(cursor, `</${name}`)) throw malformed(`the element ${name} is not closed`);
  match(cursor, SPACE);
  if (!skip(cursor, ">")) throw malformed(`the element ${name} is not closed`);
  return { name, children, text };
}

/** Only the namespace means something to us. */
function readAttributes(cursor: Cursor): void {
  const seen = new Set<string>();
  for (let found = match(cursor, ATTRIBUTE); found !== undefined; found = match(cursor, ATTRIBUTE)) {
    const [, name = "", double, single] = found;
    if (seen.has(name) || seen.size >= XML_ATTRIBUTES_MAX) throw malformed("an element has too many attributes or one twice");
    seen.add(name);
    const value = unescape(double ?? single ?? "");
    if (name === "xmlns" && value !== S3_NAMESPACE && value !== "") throw malformed("its namespace is not that of S3");
  }
}

function readContent(cursor: Cursor, depth: number): { children: XmlElement[]; text: string } {
  const children: XmlElement[] = [];
  const texts: string[] = [];
  let textChars = 0;
  const keep = (sentChars: number, text: string): void => {
    textChars += sentChars;
    if (textChars > XML_TEXT_CHARS_MAX) throw malformed("a text is too long");
    texts.push(text);
  };
  for (;;) {
    const end = cursor.text.indexOf("<", cursor.at);
    if (end < 0) throw malformed("it ends within an element");
    keep(end - cursor.at, unescape(cursor.text.slice(cursor.at, end)));
    cursor.at = end;
    if (cursor.text.startsWith("</", end)) break;
    if (skipComment(cursor)) continue;
    const cdata = readCdata(cursor);
    if (cdata !== undefined) {
      keep(cdata.length, cdata);
      continue;
    }
    children.push(readElement(cursor, depth + 1));
    textChars = 0;
  }
  const text = texts.join("");
  if (children.length === 0) return { children, text };
  if (/[^ \t\n]/.test(text)) throw malformed("it has text between elements");
  return { children, text: "" };
}

function unescape(text: string): string {
  if (!text.includes("&")) {
    if (text.includes("]]>")) throw malformed("it has ]]> in a text");
    return text;
  }
  return text.replace(/&([^;&]{0,10};)?/g, (_, body: string | undefined) => {
    const character = body === undefined ? undefined : entity(body.slice(0, -1));
    if (character === undefined) throw malformed("it has an unknown entity");
    return character;
  });
}

function entity(name: string): string | undefined {
  const [, hex, decimal] = /^#(?:x([0-9A-Fa-f]{1,6})|([0-9]{1,7}))$/.exec(name) ?? [];
  if (hex === undefined && decimal === undefined) return ENTITIES.get(name);
  const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
  const isCharacter = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return isCharacter ? String.fromCodePoint(code) : undefined;
}
