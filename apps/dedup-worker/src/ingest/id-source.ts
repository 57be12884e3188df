import type { IdSource } from "@concord/dedup";

export const ID_SOURCE_PATTERN = /^(none|key|content|header:[^\s:]{1,128}|json:[^.\s]{1,128}(\.[^.\s]{1,128}){0,15})$/;

/** The configuration's text as a source; undefined: messages without an id have none anywhere (DDD8). */
export function idSourceOf(text: string): IdSource | undefined {
  const at = text.indexOf(":");
  const [kind, rest] = at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  switch (kind) {
    case "key":
    case "content":
      return { kind };
    case "header":
      return { kind, name: rest };
    case "json":
      return { kind, path: rest.split(".") };
    default:
      return undefined;
  }
}
