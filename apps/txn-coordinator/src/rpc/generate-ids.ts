import type { IdService } from "@concord/protos-ids";
import type { Handler } from "@concord/rpc";
import { TAKE_COUNT_MAX } from "@concord/snowflake";
import type { Context } from "../context.ts";
import { checkCount } from "./wire.ts";

/** Generate (OG5, OGD5): ascending ids, unique over all workers, restarts and clock steps. */
export function generateIdsHandler({ ids }: Context): Handler<IdService, "Generate"> {
  return async (request, context) => {
    const count = request.count === 0 ? 1 : request.count;
    checkCount(count, 1, TAKE_COUNT_MAX, "ids");
    return ids.generate(count, context.signal);
  };
}
