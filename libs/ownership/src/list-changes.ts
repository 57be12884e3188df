// One step of a change of the list of members (TX32), as docs/design/membership.md describes it.
import { DETECTION_LIMITS } from "@concord/failure-detection";
import type { Owners } from "./owners.ts";
import { nextListStep, type ListChange, type ListedMember, type ListStep, type RecordedList } from "./recorded-list.ts";

/** Stored versions of the list, as one step reads and writes them. */
export interface ListVersions<L extends RecordedList> {
  /** The newest version, and the time since the writer of the next one found it stored for good; infinite: version 0. */
  read(): Promise<{ readonly list: L; readonly sinceWrittenMs: number }>;
  /**
   * Writes the version after `before`, which was read, once. False: another member wrote one first. With the list as it is now. Rejects when it is not
   * known whether it was written.
   */
  write(list: RecordedList, before: L): Promise<{ readonly isWritten: boolean; readonly list: L }>;
}

export interface ListChangeOptions<L extends RecordedList> {
  readonly versions: ListVersions<L>;
  readonly owners: Pick<Owners, "hears" | "member" | "works">;
  readonly placesMax: number;
  /** Whether the member reports that it serves nothing. Rejects when it does not answer. */
  readonly servesNothing: (member: ListedMember) => Promise<boolean>;
}

/** Takes the next step of the change if it may be taken now; with the list as it is then. The same step may be taken again. */
export async function stepList<L extends RecordedList>(
  change: ListChange,
  { versions, owners, placesMax, servesNothing }: ListChangeOptions<L>,
): Promise<{ readonly step: ListStep; readonly list: L }> {
  const member = change.kind === "remove" ? owners.member(change.name) : undefined;
  // One that does not answer serves nothing once a majority has lost it: its lease has ended.
  const hasEnded = (): boolean => owners.works && !owners.hears(change.name);
  const isFree = member !== undefined && (await servesNothing(member).catch(hasEnded));
  const { list, sinceWrittenMs } = await versions.read();
  const step = nextListStep(list, change, {
    sinceWrittenMs,
    nextListAfterMs: DETECTION_LIMITS.nextListAfterMs,
    placesMax,
    works: (name) => owners.hears(name),
    servesNothing: isFree,
  });
  if (step.kind !== "write") return { step, list };
  const written = await versions.write(step.list, list);
  const overtaken: ListStep = { kind: "wait", reason: `another member changed version ${list.version} of the list` };
  return { step: written.isWritten ? step : overtaken, list: written.list };
}
