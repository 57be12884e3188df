// XML out: escaped text, nothing else.
import { percentEncode } from "../encoding.ts";
import { S3_NAMESPACE } from "./reader.ts";

/** A blob of finished XML. */
export type Xml = string;

/** How keys are written: as text, or percent-encoded (encoding-type=url), since XML has no way to say some control characters. */
export type KeyEncoding = "url" | undefined;

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };

/** Control characters become numeric references, which S3 and its clients use although XML 1.0 knows only three of them. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"'\p{Cc}\p{Cs}\u2028\ufffe\uffff]/gu, (char) => {
    const code = char.charCodeAt(0);
    const isLoneSurrogate = code >= 0xd800 && code <= 0xdfff;
    return ESCAPES[char] ?? (isLoneSurrogate ? "\ufffd" : `&#x${code.toString(16).toUpperCase()};`);
  });
}

/** <Name>text</Name>; nothing for undefined. */
export function leaf(name: string, value: string | number | boolean | undefined): Xml {
  return value === undefined ? "" : `<${name}>${escapeXml(String(value))}</${name}>`;
}

export function group(name: string, ...content: readonly Xml[]): Xml {
  return `<${name}>${content.join("")}</${name}>`;
}

export function keyLeaf(name: string, key: string | undefined, encoding: KeyEncoding): Xml {
  return leaf(name, key === undefined || encoding === undefined ? key : percentEncode(key, "kept"));
}

export function xmlDocument(name: string, ...content: readonly Xml[]): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${name} xmlns="${S3_NAMESPACE}">${content.join("")}</${name}>`;
}
