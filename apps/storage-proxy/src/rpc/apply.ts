import type { RowsService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { APPLY_MUTATIONS_MAX } from "../limits.ts";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { checkCount, checkKeyShape, checkMutationBytes } from "./checks.ts";
import { mutationFromWire } from "@concord/rows-wire";

/** Mutations of decided commits at their fixed timestamps, any table. Role coordinator. */
export function applyHandler(serving: Serving): Handler<RowsService, "Apply"> {
  return async (request, context) => {
    const { rows, config, clock } = serving();
    checkCount(request.mutations.length, APPLY_MUTATIONS_MAX, "APPLY_MUTATIONS_MAX", "mutations");
    const mutations = request.mutations.map(mutationFromWire);
    for (const mutation of mutations) {
      checkKeyShape(mutation.key);
      checkMutationBytes(mutation);
    }
    await rows.apply(mutations, { timeoutMs: budgetMs(context, clock, config.writeTimeoutMs) });
    return {};
  };
}
