import { answerToWire, changeFromWire, checkKind, COORDINATOR_LIST, fixedList, listToWire } from "@concord/member-lists";
import { MemberListService } from "@concord/protos-cluster";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";
import { atSystemMaster } from "./system-master.ts";

/** GetList (TX32): as this coordinator read it last. */
export function getListHandler({ groups }: Context): Handler<MemberListService, "GetList"> {
  return ({ kind }) => {
    checkKind(COORDINATOR_LIST, kind);
    return listToWire(groups.lists.current);
  };
}

/** ChangeList (TX32): one step, at the master of the system group. PRECONDITION_FAILED: as things are it cannot be done. */
export function changeListHandler(coordinator: Context): Handler<MemberListService, "ChangeList"> {
  return async (request, context) => {
    const { groups, listChanges } = coordinator;
    if (groups.lists.isFixed) throw fixedList(COORDINATOR_LIST);
    const change = changeFromWire(COORDINATOR_LIST, request);
    const call = { method: MemberListService.methods.ChangeList, request };
    return atSystemMaster(coordinator, context, call, async (group) => {
      const { step, list } = await listChanges.step(change, group, context.deadlineAtMs);
      return answerToWire(step, list);
    });
  };
}
