// What keeps a version from being removed (OGD21): retention and legal hold, how they begin, change and end.
import { assert, ConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "./context.ts";
import type { VersionRow } from "./head-row.ts";
import { LOCK_UNTIL_MS_MAX } from "./limits.ts";
import type { BucketLocking, DefaultRetention, ObjectLock, Retention, ShardHeader, StoredObject } from "./rows.ts";

const DAY_MS = 86_400_000;

/** `bypass`: the caller may remove, shorten and change what governance mode keeps, and says so. */
export type Bypass = "governance" | undefined;

/** PERMISSION_DENIED (field "lock"): a lock keeps the row. Asked of exactly the row that the commit names, so none is set between. */
export async function checkRemovable(context: ObjectStoreContext, row: VersionRow | undefined, bypass: Bypass): Promise<void> {
  if (row?.kind !== "object" || row.lock === undefined) return;
  if (isKept(row.lock, await context.lockTime.judgeMs(), bypass)) throw kept();
}

/** By the lock alone; at this time of locks. */
export function isKept({ retention, legalHold }: ObjectLock, nowMs: number, bypass: Bypass): boolean {
  if (legalHold === "ON") return true;
  if (retention === undefined || retention.untilMs <= nowMs) return false;
  return retention.mode === "COMPLIANCE" || bypass !== "governance";
}

/** A legal hold has no time and no bypass: who gets as far as the commit missed a check. */
export function assertNotHeld(row: VersionRow | undefined): void {
  assert(row?.kind !== "object" || row.lock?.legalHold !== "ON", "I20, OGD21: a version under legal hold is not removed");
}

const kept = (): ConcordError =>
  new ConcordError("PERMISSION_DENIED", "Access Denied because object protected by object lock.", { metadata: { field: "lock" } });

/** What a client asks for: MALFORMED_REQUEST in a bucket without locks (field "unlockable"), and for a time that is not in the future (field "lock"). */
export async function checkAskedLock(context: ObjectStoreContext, header: ShardHeader, asked: ObjectLock | undefined): Promise<void> {
  if (asked === undefined) return;
  checkLocking(header);
  if (asked.retention !== undefined) checkFuture(asked.retention, await context.lockTime.judgeMs());
}

/** Of the new version that a commit on this header makes: what its client asked for, and the bucket's default where that has no retention. */
export async function lockOfNew(
  context: ObjectStoreContext,
  { locking }: ShardHeader,
  asked: ObjectLock | undefined,
): Promise<Pick<StoredObject, "lock">> {
  assert(asked === undefined || locking !== undefined, "OGD21: only a bucket with locks has locked versions");
  const rule = locking?.defaultRetention;
  if (rule === undefined || asked?.retention !== undefined) return asked === undefined ? {} : { lock: asked };
  const fromMs = await context.lockTime.promiseMs();
  const untilMs = endOf(rule, fromMs);
  assert(untilMs > fromMs, "OGD21: a default retention ends after it begins");
  return { lock: { ...asked, retention: { mode: rule.mode, untilMs } } };
}

/** Years are those of the calendar; 29 February ends on 1 March. */
function endOf({ unit, count }: DefaultRetention, fromMs: number): number {
  assert(count > 0, "a default retention has a length");
  if (unit === "days") return Math.min(fromMs + count * DAY_MS, LOCK_UNTIL_MS_MAX);
  const end = new Date(fromMs);
  end.setUTCFullYear(end.getUTCFullYear() + count);
  return Math.min(end.getTime(), LOCK_UNTIL_MS_MAX);
}

/** One test per row of the table in the README. */
export function checkRetentionChange(
  current: Retention | undefined,
  next: Retention | undefined,
  { nowMs, bypass }: { readonly nowMs: number; readonly bypass: Bypass },
): void {
  if (current === undefined || current.untilMs <= nowMs) return;
  const isLonger = next !== undefined && next.mode === current.mode && next.untilMs >= current.untilMs;
  if (isLonger) return;
  if (current.mode === "COMPLIANCE" || bypass !== "governance") throw kept();
}

/** What `checkRetentionChange` let through. */
export function assertRetentionChange(
  current: Retention | undefined,
  next: Retention | undefined,
  { nowMs, bypass }: { readonly nowMs: number; readonly bypass: Bypass },
): void {
  if (current === undefined || current.untilMs <= nowMs) return;
  const isAsLong = next?.mode === current.mode && next.untilMs >= current.untilMs;
  assert(current.mode !== "COMPLIANCE" || isAsLong, "OGD21: compliance is shortened by no request");
  assert(bypass === "governance" || isAsLong, "OGD21: governance is shortened by who bypasses it");
}

export function checkLocking({ locking }: { readonly locking?: BucketLocking }): void {
  if (locking === undefined)
    throw new ConcordError("MALFORMED_REQUEST", "Bucket is missing Object Lock Configuration", { metadata: { field: "unlockable" } });
}

export function checkFuture({ untilMs }: Retention, nowMs: number): void {
  if (untilMs <= nowMs) throw malformed("The retain until date must be in the future!");
  if (untilMs > LOCK_UNTIL_MS_MAX) throw malformed("The retain until date is too far in the future.");
}

const malformed = (message: string): ConcordError => new ConcordError("MALFORMED_REQUEST", message, { metadata: { field: "lock" } });
