import type { NewMessage } from "@concord/ports";
import { unreachable } from "@concord/runtime";
import type { IdSource, MissingIdPolicy } from "./api.ts";
import { findJsonText, jsonPath } from "./json-path.ts";
import { ID_BYTES_MAX } from "./limits.ts";

/** What the processing loop compares a message by. */
export type MessageId =
  | { readonly kind: "given"; readonly id: Uint8Array }
  | { readonly kind: "content" }
  /** It passes, never compared. */
  | { readonly kind: "none" }
  | { readonly kind: "dead-letter"; readonly reason: string };

export type ExtractId = (message: NewMessage) => MessageId;

type Found =
  | { readonly kind: "given"; readonly id: Uint8Array }
  | { readonly kind: "content" }
  | { readonly kind: "missing"; readonly reason: string };

/** The id of each message by a source's configuration (DDD8). Never throws: no message stalls its partition. */
export function idExtractor(source: IdSource, missing: MissingIdPolicy): ExtractId {
  const find = finder(source);
  return (message) => {
    const found = checked(find(message));
    if (found.kind !== "missing") return found;
    switch (missing) {
      case "pass":
        return { kind: "none" };
      case "hash":
        return { kind: "content" };
      case "dead-letter":
        return { kind: "dead-letter", reason: found.reason };
      default:
        return unreachable(missing);
    }
  };
}

function finder(source: IdSource): (message: NewMessage) => Found {
  switch (source.kind) {
    case "header":
      return (message) => {
        const header = message.headers.find((each) => each.name === source.name);
        return header === undefined ? { kind: "missing", reason: `no header ${source.name}` } : { kind: "given", id: header.value };
      };
    case "key":
      return (message) => ({ kind: "given", id: message.key });
    case "json": {
      const path = jsonPath(source.path);
      const name = source.path.join(".");
      return (message) => {
        const text = findJsonText(message.value, path);
        if (text.kind === "found") return { kind: "given", id: text.bytes };
        return { kind: "missing", reason: text.kind === "missing" ? `no text at ${name}` : "not JSON" };
      };
    }
    case "content":
      return () => ({ kind: "content" });
    default:
      return unreachable(source);
  }
}

function checked(found: Found): Found {
  if (found.kind !== "given") return found;
  if (found.id.length === 0) return { kind: "missing", reason: "the id is empty" };
  if (found.id.length > ID_BYTES_MAX) return { kind: "missing", reason: `the id has more than ${ID_BYTES_MAX} bytes` };
  return found;
}
