// One step of a change of the list of members (TX32), as docs/design/membership.md describes it.
import { DETECTION_LIMITS } from "@concord/failure-detection";
import type { MemberLists } from "./member-lists.ts";
import type { Owners } from "./owners.ts";
import { nextListStep, type ListChange, type ListedMember, type ListStep, type RecordedList } from "./recorded-list.ts";

export interface ListChangeOptions<L extends RecordedList> {
  readonly lists: Pick<MemberLists<L>, "current" | "refresh" | "sinceReadMs">;
  /**
   * Writes the version after `before`, once. False: another member wrote one first. Resolves when each reading that begins finds it; rejects when it is
   * not known whether it was written.
   */
  readonly write: (list: RecordedList, before: L) => Promise<boolean>;
  readonly owners: Pick<Owners, "hears" | "member" | "works">;
  readonly placesMax: number;
  /** Whether the member reports that it serves nothing. Rejects when it does not answer. */
  readonly servesNothing: (member: ListedMember) => Promise<boolean>;
}

/** Takes the next step of the change if it may be taken now; with the list as it is then. The same step may be taken again. */
export async function stepList<L extends RecordedList>(
  change: ListChange,
  { lists, write, owners, placesMax, servesNothing }: ListChangeOptions<L>,
): Promise<{ readonly step: ListStep; readonly list: L }> {
  const member = change.kind === "remove" ? owners.member(change.name) : undefined;
  // One that does not answer serves nothing once a majority has lost it: its lease has ended.
  const hasEnded = (): boolean => owners.works && !owners.hears(change.name);
  const isFree = member !== undefined && (await servesNothing(member).catch(hasEnded));
  await lists.refresh();
  const before = lists.current;
  const step = nextListStep(before, change, {
    sinceWrittenMs: lists.sinceReadMs,
    nextListAfterMs: DETECTION_LIMITS.nextListAfterMs,
    placesMax,
    works: (name) => owners.hears(name),
    servesNothing: isFree,
  });
  if (step.kind !== "write") return { step, list: before };
  const isWritten = await write(step.list, before);
  await lists.refresh();
  const overtaken: ListStep = { kind: "wait", reason: `another member changed version ${before.version} of the list` };
  return { step: isWritten ? step : overtaken, list: lists.current };
}
