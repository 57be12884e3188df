/** Numbers of the group log come as plain bigints: here they become epochs and positions. */
import type { GroupOwner, TrimRequest } from "@concord/ports";
import { epochOf, seqOf } from "@concord/runtime";

type Plain<Message> = { readonly [Field in keyof Message]: Message[Field] extends bigint ? bigint : Message[Field] };

export function ownerFromWire({ group, epoch, owner }: Plain<GroupOwner>): GroupOwner {
  return { group, epoch: epochOf(epoch), owner };
}

export function trimFromWire(request: Plain<TrimRequest>): TrimRequest {
  return { ...ownerFromWire(request), appliedSeq: seqOf(request.appliedSeq), appliedEpoch: epochOf(request.appliedEpoch) };
}
