import { answerToWire, changeFromWire, checkKind, fixedList, listToWire, WORKER_LIST } from "@concord/member-lists";
import { stepList, type ListedMember } from "@concord/ownership";
import type { MemberListService } from "@concord/protos-cluster";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";
import { LIST_TIMEOUT_MS, WORKERS_MAX } from "../limits.ts";

/** GetList (TX32): as this worker read it last. */
export function getListHandler({ list }: Context): Handler<MemberListService, "GetList"> {
  return ({ kind }) => {
    checkKind(WORKER_LIST, kind);
    return listToWire(list().lists.current);
  };
}

/** ChangeList (TX32): one step. PRECONDITION_FAILED: as things are it cannot be done. */
export function changeListHandler({ list, partitions, peers }: Context): Handler<MemberListService, "ChangeList"> {
  return async (request) => {
    const { lists, owners, versions } = list();
    if (lists.isFixed || versions === undefined) throw fixedList(WORKER_LIST);
    const own = partitions();
    const servesNothing = async ({ name, address }: ListedMember): Promise<boolean> =>
      (name === owners.self ? own.served : await peers.served(address, LIST_TIMEOUT_MS)) === 0;
    const change = changeFromWire(WORKER_LIST, request);
    const { step, list: now } = await stepList(change, { versions, owners, placesMax: WORKERS_MAX, servesNothing });
    return answerToWire(step, now);
  };
}
