import type { ListChange, ListStep, MemberLists, RecordedList } from "@concord/ownership";
import type { ChangeListRequest, ChangeListResponse, MemberListService } from "@concord/protos-cluster";
import type { Handler, HandlerContext } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { ListKind } from "./list-kind.ts";
import { changeFromWire, checkKind, listToWire } from "./list-wire.ts";

export interface ListMethodsOptions {
  readonly kind: ListKind;
  /** Lists as this member read them last. */
  readonly lists: () => Pick<MemberLists<RecordedList>, "current" | "isFixed">;
  /** One step of the change, here or at the member that the request is passed on to. */
  readonly change: (change: ListChange, request: ChangeListRequest, context: HandlerContext) => Promise<ChangeListResponse>;
}

/** The methods of MemberListService at one member (TX32). */
export function listMethods({ kind, lists, change }: ListMethodsOptions): {
  readonly GetList: Handler<MemberListService, "GetList">;
  readonly ChangeList: Handler<MemberListService, "ChangeList">;
} {
  return {
    GetList: (request) => {
      checkKind(kind, request.kind);
      return listToWire(lists().current);
    },
    ChangeList: async (request, context) => {
      if (lists().isFixed) throw fixedList(kind);
      return change(changeFromWire(kind, request), request, context);
    },
  };
}

/** PRECONDITION_FAILED: as things are it cannot be done. */
export function answerToWire({ step, list }: { readonly step: ListStep; readonly list: RecordedList }): ChangeListResponse {
  if (step.kind === "refused") throw new ConcordError("PRECONDITION_FAILED", step.reason);
  return { done: step.kind === "done", waitsFor: step.kind === "wait" ? step.reason : "", list: listToWire(list) };
}

/** UNIMPLEMENTED: the members are those of the configuration. */
function fixedList({ noun }: ListKind): ConcordError {
  return new ConcordError(
    "UNIMPLEMENTED",
    `these ${noun} are those of the configuration for as long as they run: change it and restart them`,
  );
}
