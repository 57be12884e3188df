// Percent coding as S3 has it, UTF-8 and base64, all strict: what does not decode is refused, never repaired.
import { S3Error } from "./errors.ts";

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const PLAIN = /^[A-Za-z0-9\-._~]*$/;
const PLAIN_PATH = /^[A-Za-z0-9\-._~/]*$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Percent-decodes to UTF-8; InvalidURI for a broken escape, for bytes that are no UTF-8 and for what must have been escaped. */
export function percentDecode(text: string, plus: "kept" | "space" = "kept"): string {
  const spaced = plus === "space" ? text.replaceAll("+", " ") : text;
  if (/[^\x20-\x7e]/.test(spaced)) throw new S3Error("InvalidURI", "A request target has only ASCII characters.");
  if (!spaced.includes("%")) return spaced;
  if (/%(?![0-9A-Fa-f]{2})/.test(spaced)) throw new S3Error("InvalidURI", "A percent sign must be followed by two hex digits.");
  const bytes = Buffer.from(
    spaced.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  );
  return decodeUtf8(bytes) ?? refuseUri("The escaped bytes are not UTF-8.");
}

function refuseUri(message: string): never {
  throw new S3Error("InvalidURI", message);
}

/** Undefined when the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Percent-encodes everything but the unreserved characters (and "/"); upper-case hex, as signatures want it. */
export function percentEncode(text: string, slash: "kept" | "encoded" = "encoded"): string {
  if ((slash === "kept" ? PLAIN_PATH : PLAIN).test(text)) return text;
  const encoded = encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return slash === "kept" ? encoded.replaceAll("%2F", "/") : encoded;
}

/** Undefined when it is not base64 with padding, of exactly `length` bytes when given. */
export function decodeBase64(text: string, length?: number): Uint8Array | undefined {
  if (!BASE64.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64");
  return length === undefined || bytes.length === length ? bytes : undefined;
}

export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

export function encodeHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

export function utf8Bytes(text: string): number {
  return Buffer.byteLength(text, "utf8");
}
