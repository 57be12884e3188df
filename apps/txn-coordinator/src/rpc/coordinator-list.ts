import { CoordinatorListService, type GetListResponseInit, type ListedState as WireState } from "@concord/protos-txn";
import type { ListChange, ListedState, ListStep, RecordedList } from "@concord/ownership";
import type { AnswerOf, Handler, RequestOf } from "@concord/rpc";
import { malformed, required } from "@concord/rows-wire";
import { ConcordError } from "@concord/runtime";
import { coordinatorShape } from "../config.ts";
import type { Context } from "../context.ts";
import { atSystemMaster } from "./system-master.ts";

type Change = RequestOf<CoordinatorListService, "ChangeList">;
type Changed = AnswerOf<CoordinatorListService, "ChangeList">;

const STATES: Readonly<Record<ListedState, WireState>> = {
  arriving: "LISTED_STATE_ARRIVING",
  member: "LISTED_STATE_MEMBER",
  leaving: "LISTED_STATE_LEAVING",
};

/** GetList (TX32): as this coordinator read it last. */
export function getListHandler({ groups }: Context): Handler<CoordinatorListService, "GetList"> {
  return () => listToWire(groups.lists.current);
}

/** ChangeList (TX32): one step, at the master of the system group. PRECONDITION_FAILED: as things are it cannot be done. */
export function changeListHandler(coordinator: Context): Handler<CoordinatorListService, "ChangeList"> {
  return async (request, context) => {
    const { groups, listChanges } = coordinator;
    if (groups.lists.isFixed)
      throw new ConcordError(
        "UNIMPLEMENTED",
        "these coordinators are those of the configuration for as long as they run: change it and restart them",
      );
    const change = changeFromWire(request);
    const call = { method: CoordinatorListService.methods.ChangeList, request };
    return atSystemMaster(coordinator, context, call, async (group) => {
      const { step, list } = await listChanges.step(change, group, context.deadlineAtMs);
      return answerToWire(step, list);
    });
  };
}

function changeFromWire(given: Change): ListChange {
  if (given.change === "remove") return { kind: "remove", name: given.remove.name };
  const { success, data, error } = coordinatorShape.safeParse(required(given.add ?? null, "change"));
  if (!success)
    throw malformed(`the added coordinator: ${error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")}`);
  return { kind: "add", ...data };
}

function answerToWire(step: ListStep, list: RecordedList): Changed {
  if (step.kind === "refused") throw new ConcordError("PRECONDITION_FAILED", step.reason);
  return { done: step.kind === "done", waitsFor: step.kind === "wait" ? step.reason : "", list: listToWire(list) };
}

function listToWire({ version, members }: RecordedList): GetListResponseInit & AnswerOf<CoordinatorListService, "GetList"> {
  return {
    version,
    coordinators: members.map(({ name, address, datacenter, state }) => ({ name, address, datacenter, state: STATES[state] })),
  };
}
