// Lifecycle rules of a bucket and what they say of one version or upload: pure functions, shared by the passes and by answers' headers.
import { assert, unreachable } from "@concord/runtime";
import type { BucketSettings } from "../rows.ts";

/** Name of the document of a bucket's settings: JSON of its rules. */
export const LIFECYCLE_DOCUMENT = "lifecycle";

export type ExpirationAction =
  | { readonly kind: "days"; readonly days: number }
  | { readonly kind: "date"; readonly dateMs: number }
  /** Delete markers that are all a key has. */
  | { readonly kind: "markers" };

/** What is left out asks for nothing. */
export interface LifecycleRule {
  readonly id: string;
  readonly isEnabled: boolean;
  /** How its owner wrote which keys it is for: with a filter, or with a prefix alone (S3 before 2016). */
  readonly form: "filter" | "prefix";
  readonly prefix?: string | undefined;
  /** All of them. */
  readonly tags: Readonly<Record<string, string>>;
  readonly sizeAboveBytes?: number | undefined;
  readonly sizeBelowBytes?: number | undefined;
  readonly expiration?: ExpirationAction | undefined;
  /** `newerKept`: so many non-current versions that are newer stay, whatever their age. */
  readonly nonCurrent?: { readonly days: number; readonly newerKept?: number | undefined } | undefined;
  readonly abortDays?: number | undefined;
}

/** A version as rules judge it. */
export interface JudgedVersion {
  readonly key: string;
  readonly modifiedMs: number;
  /** Undefined: a delete marker, which has neither size nor tags. */
  readonly object: { readonly sizeBytes: number; readonly tags: Readonly<Record<string, string>> } | undefined;
  readonly place:
    | { readonly kind: "current"; readonly isOnly: boolean }
    /** `sinceMs`: the time of the version after it; `newer`: how many non-current versions are newer. */
    | { readonly kind: "non-current"; readonly sinceMs: number; readonly newer: number };
}

export interface Expiry {
  readonly dueMs: number;
  readonly ruleId: string;
}

/** Those in force. They were checked when they were put. */
export function lifecycleRulesOf(settings: BucketSettings | undefined): readonly LifecycleRule[] {
  const text = settings?.documents[LIFECYCLE_DOCUMENT];
  return text === undefined ? [] : (JSON.parse(text) as readonly LifecycleRule[]).filter(({ isEnabled }) => isEnabled);
}

/** The first rule by which the version expires, and when; undefined: it stays. */
export function expiryOf(rules: readonly LifecycleRule[], version: JudgedVersion, dayMs: number): Expiry | undefined {
  return earliest(rules, (rule) => (matches(rule, version) ? dueOf(rule, version, dayMs) : undefined));
}

/** When an upload that is not completed is aborted. */
export function abortOf(
  rules: readonly LifecycleRule[],
  upload: { readonly key: string; readonly initiatedMs: number },
  dayMs: number,
): Expiry | undefined {
  return earliest(rules, ({ prefix = "", abortDays }) =>
    abortDays !== undefined && upload.key.startsWith(prefix) ? dayAfter(upload.initiatedMs, abortDays, dayMs) : undefined,
  );
}

/** Whether a key's versions that are not current have to be read. */
export function needsVersions(rules: readonly LifecycleRule[], key: string, isMarker: boolean): boolean {
  return rules.some(
    ({ prefix = "", nonCurrent, expiration }) =>
      key.startsWith(prefix) && (nonCurrent !== undefined || (isMarker && expiration !== undefined)),
  );
}

function earliest(rules: readonly LifecycleRule[], due: (rule: LifecycleRule) => number | undefined): Expiry | undefined {
  let first: Expiry | undefined;
  for (const rule of rules) {
    const dueMs = rule.isEnabled ? due(rule) : undefined;
    if (dueMs !== undefined && (first === undefined || dueMs < first.dueMs)) first = { dueMs, ruleId: rule.id };
  }
  return first;
}

function matches({ prefix = "", tags, sizeAboveBytes, sizeBelowBytes }: LifecycleRule, { key, object }: JudgedVersion): boolean {
  if (!key.startsWith(prefix)) return false;
  const wanted = Object.entries(tags);
  if (object === undefined) return wanted.length === 0 && sizeAboveBytes === undefined && sizeBelowBytes === undefined;
  if (sizeAboveBytes !== undefined && object.sizeBytes <= sizeAboveBytes) return false;
  if (sizeBelowBytes !== undefined && object.sizeBytes >= sizeBelowBytes) return false;
  return wanted.every(([name, value]) => Object.hasOwn(object.tags, name) && object.tags[name] === value);
}

function dueOf({ expiration, nonCurrent }: LifecycleRule, { place, object, modifiedMs }: JudgedVersion, dayMs: number): number | undefined {
  if (place.kind === "non-current") {
    if (nonCurrent === undefined || place.newer < (nonCurrent.newerKept ?? 0)) return undefined;
    return dayAfter(place.sinceMs, nonCurrent.days, dayMs);
  }
  // A delete marker with versions behind it keeps them from view.
  if (expiration === undefined || (object === undefined && !place.isOnly)) return undefined;
  switch (expiration.kind) {
    case "days":
      return dayAfter(modifiedMs, expiration.days, dayMs);
    case "date":
      return expiration.dateMs;
    case "markers":
      return object === undefined ? modifiedMs : undefined;
    default:
      return unreachable(expiration);
  }
}

/** So many days later, and then the next midnight (UTC), as S3 counts. */
function dayAfter(fromMs: number, days: number, dayMs: number): number {
  const earliestMs = fromMs + days * dayMs;
  const dueMs = Math.ceil(earliestMs / dayMs) * dayMs;
  // Beyond safe integers a due time is far away, and no more exact than they are.
  assert(dueMs >= earliestMs || !Number.isSafeInteger(earliestMs), "OGD18: a rule waits for all of its days");
  return dueMs;
}
