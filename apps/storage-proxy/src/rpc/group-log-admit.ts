import type { GroupLogService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import type { Serving } from "../context.ts";

/** Is there space for what adds rows? */
export function admitHandler(serving: Serving): Handler<GroupLogService, "Admit"> {
  return async () => {
    await serving().admit();
    return {};
  };
}
