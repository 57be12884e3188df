import { bearer, callUnary, type HandlerContext } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { SYSTEM_GROUP } from "@concord/schema";
import type { TransactionGroup } from "@concord/transactions";
import type { Context } from "../context.ts";
import { FORWARD_TIMEOUT_MS_MAX } from "../limits.ts";

/** Does the work if this coordinator is the system group's master, or passes the call on to that one, once (TX3). */
export async function atSystemMaster<M extends Parameters<typeof callUnary>[1], Answer>(
  { config, environment, groups, coordinatorAt }: Context,
  { caller, deadlineAtMs }: HandlerContext,
  call: { readonly method: M; readonly request: Parameters<M["encodeRequest"]>[0] },
  work: (group: TransactionGroup) => Promise<Answer>,
): Promise<Answer | ReturnType<M["decodeResponse"]>> {
  const master = groups.masterOf(SYSTEM_GROUP);
  if (master.name === config.nodeName) return work(groups.groupById(SYSTEM_GROUP));
  const { name, address } = master;
  if (caller.role === "coordinator")
    throw new ConcordError("NOT_MASTER", `group ${SYSTEM_GROUP} is served by ${name} at ${address}`, {
      metadata: { group: SYSTEM_GROUP, master: name, address },
    });
  const timeoutMs = Math.min(FORWARD_TIMEOUT_MS_MAX, deadlineAtMs - environment.clock.monotonicMs());
  return callUnary(coordinatorAt(address), call.method, call.request, { timeoutMs, metadata: bearer(config.coordinatorToken) });
}
