import { answerToWire, changeFromWire, checkKind, fixedList, listToWire, WORKER_LIST } from "@concord/member-lists";
import type { MemberListService } from "@concord/protos-cluster";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";

/** GetList (TX32): as this worker read it last. */
export function getListHandler({ list }: Context): Handler<MemberListService, "GetList"> {
  return ({ kind }) => {
    checkKind(WORKER_LIST, kind);
    return listToWire(list().lists.current);
  };
}

/** ChangeList (TX32): one step. PRECONDITION_FAILED: as things are it cannot be done. */
export function changeListHandler({ list, partitions }: Context): Handler<MemberListService, "ChangeList"> {
  return async (request) => {
    const { lists, owners, changes } = list();
    if (lists.isFixed || changes === undefined) throw fixedList(WORKER_LIST);
    const { step, list: now } = await changes.step(changeFromWire(WORKER_LIST, request), owners, partitions().served);
    return answerToWire(step, now);
  };
}
