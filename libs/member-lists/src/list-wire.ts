import { z } from "@concord/config";
import type { ListChange, ListedState, RecordedList } from "@concord/ownership";
import type {
  ChangeListRequest,
  ChangeListRequestInit,
  GetListResponse,
  ListedState as WireState,
  MemberKind,
} from "@concord/protos-cluster";
import { ConcordError } from "@concord/runtime";
import type { ListKind } from "./list-kind.ts";

/** A member as a configuration has it. */
export const memberShape = z.strictObject({
  name: z.string().min(1).max(64),
  address: z.string().regex(/^.+:\d+$/, "expected host:port"),
  datacenter: z.string().min(1).max(64).default("local"),
});

const STATES: Readonly<Record<ListedState, WireState>> = {
  arriving: "LISTED_STATE_ARRIVING",
  member: "LISTED_STATE_MEMBER",
  leaving: "LISTED_STATE_LEAVING",
};

/** A call that is meant for other servers changes nothing. MALFORMED_REQUEST. */
export function checkKind({ wire, noun }: ListKind, kind: MemberKind): void {
  if (kind !== wire) throw malformed(`this server has a list of ${noun}: ask one that has what you want (kind is ${kind})`);
}

/** MALFORMED_REQUEST when it is none, or of another kind. */
export function changeFromWire(list: ListKind, given: ChangeListRequest): ListChange {
  checkKind(list, given.kind);
  if (given.change === "remove") return { kind: "remove", name: given.remove.name };
  if (given.change !== "add") throw malformed("change is not set");
  const { success, data, error } = memberShape.safeParse(given.add);
  if (!success)
    throw malformed(`the added ${list.member}: ${error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")}`);
  return { kind: "add", ...data };
}

export function changeToWire(change: ListChange): ChangeListRequestInit {
  if (change.kind === "remove") return { remove: { name: change.name } };
  const { name, address, datacenter } = change;
  return { add: { name, address, datacenter } };
}

export function listToWire({ version, members }: RecordedList): GetListResponse {
  return {
    version,
    members: members.map(({ name, address, datacenter, state }) => ({ name, address, datacenter, state: STATES[state] })),
  };
}

function malformed(message: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", message);
}
