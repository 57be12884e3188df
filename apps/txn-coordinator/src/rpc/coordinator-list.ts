import { MESH_MEMBERS_MAX } from "@concord/failure-detection";
import { answerToWire, COORDINATOR_LIST, listMethods } from "@concord/member-lists";
import { stepList, type ListedMember } from "@concord/ownership";
import { MemberListService } from "@concord/protos-cluster";
import type { Context } from "../context.ts";
import { writeStoredList } from "../groups/stored-list.ts";
import { LIST_TIMEOUT_MS } from "../limits.ts";
import { atSystemMaster } from "./system-master.ts";

/** GetList and ChangeList (TX32): the master of the system group takes a step. */
export function coordinatorListMethods(coordinator: Context): ReturnType<typeof listMethods> {
  const { environment, groups, peers, rows } = coordinator;
  const { lists, owners } = groups;
  const servesNothing = async ({ name, address }: ListedMember): Promise<boolean> =>
    name !== owners.self && !(await peers.serves(address, name, LIST_TIMEOUT_MS));
  return listMethods({
    kind: COORDINATOR_LIST,
    lists: () => lists,
    change: (change, request, context) => {
      const call = { method: MemberListService.methods.ChangeList, request };
      return atSystemMaster(coordinator, context, call, async (group) => {
        const master = { group, environment, rows, deadlineAtMs: context.deadlineAtMs };
        const options = { lists, owners, placesMax: MESH_MEMBERS_MAX, servesNothing };
        return answerToWire(await stepList(change, { ...options, write: (list, before) => writeStoredList(list, before, master) }));
      });
    },
  });
}
