import type { NewMessage } from "@concord/ports";
import { unreachable } from "@concord/runtime";
import type { IdSource, MissingIdPolicy } from "./api.ts";
import { findJsonText, jsonPath } from "./json-path.ts";
import { ID_BYTES_MAX } from "./limits.ts";

/** What the processing loop compares a message by. */
export type MessageId =
  | { readonly kind: "given"; readonly id: Uint8Array }
  | { readonly kind: "content" }
  /** It passes, never compared; `made` is the id that it gets (missing id: make). */
  | { readonly kind: "none"; readonly made?: Uint8Array }
  | { readonly kind: "dead-letter"; readonly reason: string };

export type ExtractId = (message: NewMessage) => MessageId;

type Found =
  | { readonly kind: "given"; readonly id: Uint8Array }
  | { readonly kind: "content" }
  /** `isAbsent`: the source has nothing at all, so the next source counts. A source with an unusable id decides: its id may differ from the next one's. */
  | { readonly kind: "missing"; readonly reason: string; readonly isAbsent: boolean };

/**
 * The id of each message by the first of the sources that has one (DDD8). Never throws: no message stalls its partition.
 */
export function idExtractor(sources: readonly IdSource[], missing: MissingIdPolicy): ExtractId {
  const finders = sources.map(finder);
  return (message) => {
    const found = firstFound(finders, message);
    if (found.kind !== "missing") return found;
    switch (missing) {
      case "make":
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

type Finder = (message: NewMessage) => Found;

function firstFound(finders: readonly Finder[], message: NewMessage): Found {
  const reasons: string[] = [];
  for (const find of finders) {
    const found = checked(find(message));
    if (found.kind !== "missing") return found;
    reasons.push(found.reason);
    if (!found.isAbsent) break;
  }
  return missing(reasons.join(", "), false);
}

const missing = (reason: string, isAbsent: boolean): Found => ({ kind: "missing", reason, isAbsent });

function finder(source: IdSource): Finder {
  switch (source.kind) {
    case "header":
      return (message) => {
        const header = message.headers.find((each) => each.name === source.name);
        if (header === undefined) return missing(`no header ${source.name}`, true);
        return header.value === null ? missing(`header ${source.name} is null`, false) : { kind: "given", id: header.value };
      };
    case "key":
      return (message) => (message.key === null ? missing("no key", true) : { kind: "given", id: message.key });
    case "json": {
      const path = jsonPath(source.path);
      const name = source.path.join(".");
      return (message) => {
        if (message.value === null) return missing("no value", true);
        const text = findJsonText(message.value, path);
        if (text.kind === "found") return { kind: "given", id: text.bytes };
        return missing(text.kind === "missing" ? `no text at ${name}` : "not JSON", true);
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
  if (found.id.length === 0) return missing("the id is empty", false);
  if (found.id.length > ID_BYTES_MAX) return missing(`the id has more than ${ID_BYTES_MAX} bytes`, false);
  return found;
}
