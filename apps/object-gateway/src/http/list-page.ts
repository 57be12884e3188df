// The parameters of a page that all list operations share.
import type { Listing } from "@concord/objects";
import type { S3Call } from "./call.ts";
import { encodingOf, pageSizeOf } from "./parameters.ts";

export interface ListPage {
  readonly prefix: string;
  readonly delimiter: string | undefined;
  readonly limit: number;
  readonly encoding: "url" | undefined;
}

export function listPage(call: S3Call, size: "max-keys" | "max-uploads"): ListPage {
  const { query } = call;
  const delimiter = query.one("delimiter");
  return {
    prefix: query.one("prefix") ?? "",
    // S3 takes a delimiter of no letters for none.
    delimiter: delimiter === "" ? undefined : delimiter,
    limit: pageSizeOf(call, size),
    encoding: encodingOf(call),
  };
}

/** A page of no entries, which is never followed by another. */
export const NO_ENTRIES: Listing = { objects: [], commonPrefixes: [], next: undefined };
