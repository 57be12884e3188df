// The request target: which bucket, which key, which parameters. Nothing is normalised: "a//b", ".." and "%252F" are keys like others.
import { percentDecode, utf8Bytes } from "./encoding.ts";
import { S3Error } from "./errors.ts";
import { fieldsOf, type Fields } from "./fields.ts";
import { KEY_BYTES_MAX, QUERY_PARAMETERS_MAX, TARGET_CHARS_MAX } from "./limits.ts";

export interface Target {
  /** The decoded path as sent, with its leading "/": what is signed. */
  readonly path: string;
  /** Undefined: the service itself. Its name is not checked here. */
  readonly bucket: string | undefined;
  /** Undefined: the bucket itself. At most KEY_BYTES_MAX. */
  readonly key: string | undefined;
  /** Decoded; a parameter without "=" has the value "". */
  readonly query: Fields;
}

/**
 * Path style ("/bucket/key"), or virtual-host style when `domain` is given and the host is a name below it ("bucket.domain").
 * Refuses with InvalidURI, KeyTooLongError.
 */
export function parseTarget(target: string, host: string | undefined, domain?: string): Target {
  if (target.length > TARGET_CHARS_MAX) throw new S3Error("InvalidURI", "The request target is too long.");
  if (!target.startsWith("/")) throw new S3Error("InvalidURI", "The request target must be a path.");
  if (target.includes("#")) throw new S3Error("InvalidURI", "A request target has no fragment.");
  const mark = target.indexOf("?");
  const path = percentDecode(mark < 0 ? target : target.slice(0, mark));
  const query = parseQuery(mark < 0 ? "" : target.slice(mark + 1));
  const hosted = bucketOfHost(host, domain);
  const { bucket, key } = hosted === undefined ? splitPath(path) : { bucket: hosted, key: path.slice(1) };
  if (utf8Bytes(key) > KEY_BYTES_MAX) {
    throw new S3Error("KeyTooLongError", undefined, { elements: { Size: String(utf8Bytes(key)), MaxSizeAllowed: String(KEY_BYTES_MAX) } });
  }
  return { path, bucket: bucket === "" ? undefined : bucket, key: key === "" ? undefined : key, query };
}

function splitPath(path: string): { bucket: string; key: string } {
  const slash = path.indexOf("/", 1);
  if (slash < 0) return { bucket: path.slice(1), key: "" };
  if (slash === 1) throw new S3Error("InvalidURI", "The bucket is missing in the request target.");
  return { bucket: path.slice(1, slash), key: path.slice(slash + 1) };
}

/** "photos" for host "photos.s3.example:9000" and domain "s3.example". */
export function bucketOfHost(host: string | undefined, domain: string | undefined): string | undefined {
  if (host === undefined || domain === undefined) return undefined;
  const name = host.replace(/:\d*$/, "").toLowerCase();
  const suffix = `.${domain.toLowerCase()}`;
  return name.endsWith(suffix) && name.length > suffix.length ? name.slice(0, -suffix.length) : undefined;
}

/** A plus sign is a space, as S3 has it. */
export function parseQuery(text: string): Fields {
  const parts = text.split("&").filter((part) => part !== "");
  if (parts.length > QUERY_PARAMETERS_MAX) throw new S3Error("InvalidURI", "The request has too many query parameters.");
  return fieldsOf(
    parts.map((part) => {
      const equals = part.indexOf("=");
      const [name, value] = equals < 0 ? [part, ""] : [part.slice(0, equals), part.slice(equals + 1)];
      return [percentDecode(name, "space"), percentDecode(value, "space")] as const;
    }),
  );
}
