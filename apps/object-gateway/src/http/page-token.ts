// The opaque tokens of lists: where the next page begins. They say nothing that the list did not; a forged one only begins elsewhere.
import { S3Error } from "@concord/s3";

const VERSION = "1";
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function pageTokenOf(after: string): string {
  return VERSION + Buffer.from(after).toString("base64url");
}

/** InvalidArgument for everything that `pageTokenOf` does not write. */
export function afterOfToken(token: string): string {
  try {
    const after = decoder.decode(Buffer.from(token.slice(VERSION.length), "base64url"));
    // Buffer skips over what is no base64.
    if (pageTokenOf(after) === token) return after;
  } catch {
    // Not UTF-8.
  }
  throw new S3Error("InvalidArgument", "The continuation token provided is incorrect");
}
