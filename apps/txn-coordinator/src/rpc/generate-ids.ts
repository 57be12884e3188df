import type { UnaryHandler } from "@concord/rpc";
import { TAKE_COUNT_MAX } from "@concord/snowflake";
import type { Parts } from "../parts.ts";
import { checkCount } from "./wire.ts";

/** Generate (OG5, OGD5): ascending ids, unique over all workers, restarts and clock steps. */
export function generateIdsHandler({ ids }: Parts): UnaryHandler {
  return async (request: { readonly count: number }, context) => {
    const count = request.count === 0 ? 1 : request.count;
    checkCount(count, 1, TAKE_COUNT_MAX, "ids");
    return ids.generate(count, context.signal);
  };
}
