// Event rules of a bucket: which commits are announced, and to which target. Pure functions.
import { assert, BoundedCache } from "@concord/runtime";
import type { BucketRow, EventName, ShardEvents } from "../rows.ts";
import { EVENT_RULES_CACHED } from "./limits.ts";

/** Name of the document of a bucket's settings: JSON of its rules. It stays, without rules, once a bucket had some: events may still wait. */
export const EVENTS_DOCUMENT = "notification";

/** Append only: the position is what is stored. */
export const EVENT_NAMES = [
  "ObjectCreated:Put",
  "ObjectCreated:Post",
  "ObjectCreated:Copy",
  "ObjectCreated:CompleteMultipartUpload",
  "ObjectRemoved:Delete",
  "ObjectRemoved:DeleteMarkerCreated",
  "LifecycleExpiration:Delete",
  "LifecycleExpiration:DeleteMarkerCreated",
  "ObjectTagging:Put",
  "ObjectTagging:Delete",
  "ObjectAcl:Put",
] as const satisfies readonly EventName[];

export interface EventRule {
  readonly id: string;
  /** How its owner wrote it down. */
  readonly kind: "queue" | "topic";
  /** As its owner wrote it. */
  readonly arn: string;
  /** Name of the target in the gateway's configuration. */
  readonly target: string;
  /** As S3 names them, behind "s3:"; "ObjectCreated:*" is all of a kind. */
  readonly events: readonly string[];
  readonly prefix?: string | undefined;
  readonly suffix?: string | undefined;
}

/** They were checked when they were put: at most one fits an event. */
export function eventRulesOf(text: string | undefined): readonly EventRule[] {
  return text === undefined ? [] : cached.getOrMake(text, () => JSON.parse(text) as readonly EventRule[]);
}

const cached = new BoundedCache<string, readonly EventRule[]>(EVENT_RULES_CACHED);

/** For the headers of a bucket; undefined: it has no rules. */
export function shardEventsOf({ createdMs, tenant, region, settings }: BucketRow): ShardEvents | undefined {
  const rules = settings?.documents[EVENTS_DOCUMENT];
  if (rules === undefined || eventRulesOf(rules).length === 0) return undefined;
  return { createdMs, tenant, region, rules };
}

export interface FittingRule {
  readonly rule: EventRule;
  /** Its place among the bucket's. */
  readonly at: number;
}

export function fittingRule(rules: readonly EventRule[], name: EventName, key: string): FittingRule | undefined {
  const fits = (rule: EventRule): boolean => isAbout(rule, key) && rule.events.some((pattern) => covers(pattern, name));
  const at = rules.findIndex(fits);
  assert(at === rules.findLastIndex(fits), "OGD19: a change is announced once: one rule fits it");
  return at === -1 ? undefined : { rule: rules[at]!, at };
}

export const isAbout = ({ prefix = "", suffix = "" }: EventRule, key: string): boolean => key.startsWith(prefix) && key.endsWith(suffix);

function covers(pattern: string, name: EventName): boolean {
  return pattern.endsWith(":*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}

/** Whether one event could fit both: S3 refuses such rules, and so each change is announced once. */
export function overlap(one: EventRule, other: EventRule): boolean {
  const { prefix: oneStart = "", suffix: oneEnd = "" } = one;
  const { prefix: otherStart = "", suffix: otherEnd = "" } = other;
  if (!oneStart.startsWith(otherStart) && !otherStart.startsWith(oneStart)) return false;
  if (!oneEnd.endsWith(otherEnd) && !otherEnd.endsWith(oneEnd)) return false;
  return EVENT_NAMES.some((name) => [one, other].every(({ events }) => events.some((pattern) => covers(pattern, name))));
}
