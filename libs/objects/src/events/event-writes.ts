// The event of a change, written in the change's own commit under the rules of the header that the commit names (OGD19).
import type { MetadataCondition, MetadataRow, MetadataWrite, RowVersion } from "@concord/ports";
import { assert } from "@concord/runtime";
import { putGarbage } from "../commit-rows.ts";
import { putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { encodeRow } from "../row-codec.ts";
import { eventKey, lastNumberKey, usageKey } from "../row-keys.ts";
import type { EventCause, EventName, EventRow, ShardEvents, StoredObject } from "../rows.ts";
import type { ShardView } from "../shard-view.ts";
import { eventRulesOf, fittingRule, isAbout, type EventRule } from "./rules.ts";

export interface Change {
  readonly name: EventName;
  /** Number and GUID of the commit: what its head row, or the row that it changes, gets or would get. */
  readonly number: RowVersion;
  readonly versionId?: string | undefined;
  /** Undefined: what was removed is gone. */
  readonly object?: Pick<StoredObject, "sizeBytes" | "etag"> | undefined;
}

const UNKNOWN_CAUSE: EventCause = { principal: "", address: "", requestId: "" };

/** None where no rule fits. OVERLOADED: see Outbox. `view` must be the one whose header the commit names. */
export async function eventWrites(context: ObjectStoreContext, view: ShardView, change: Change): Promise<readonly MetadataWrite[]> {
  const { events, shards } = view.header.row;
  if (events === undefined) return [];
  const fitting = fittingRule(rulesOf(events), change.name, view.key);
  if (fitting === undefined) return [];
  await context.outbox.admit(context, view.partition, shards);
  const isThere = change.object !== undefined;
  assert(isThere || !change.name.startsWith("ObjectCreated:"), "OGD19: the event of a new object tells which it is");
  const { createdMs, tenant, region } = events;
  const row: EventRow = {
    kind: "event",
    name: change.name,
    bucket: view.bucket,
    bucketCreatedMs: createdMs,
    tenant,
    region,
    key: view.key,
    ruleId: fitting.rule.id,
    rule: fitting.at,
    atMs: context.clock.nowMs(),
    cause: context.cause ?? UNKNOWN_CAUSE,
    versionId: change.versionId,
    object: change.object === undefined ? undefined : { sizeBytes: change.object.sizeBytes, etag: change.object.etag },
  };
  const key = eventKey({ tenant, target: fitting.rule.target }, change.number);
  const value = encodeRow(row);
  const bytes = key.length + value.length;
  context.outbox.added(view.partition, bytes);
  return [{ kind: "put", row: { key, version: change.number, value } }, countEvents(1, bytes)];
}

/** A bucket without rules has headers without them, and writes nothing else than ever. */
function rulesOf({ rules }: ShardEvents): readonly EventRule[] {
  const all = eventRulesOf(rules);
  assert(all.length > 0, "a header that tells of events has rules");
  return all;
}

/** Before a body is read that would be refused after it. */
export async function admitEvent(context: ObjectStoreContext, view: ShardView, name: EventName): Promise<void> {
  const { events, shards } = view.header.row;
  if (events === undefined || fittingRule(rulesOf(events), name, view.key) === undefined) return;
  await context.outbox.admit(context, view.partition, shards);
}

/** In the commit that adds or removes them, so exact. */
export function countEvents(events: number, bytes: number): MetadataWrite {
  return { kind: "add", key: usageKey(), amounts: [0n, 0n, BigInt(events), BigInt(bytes)] };
}

/** Of a commit that leaves the key without a row: the key's next write goes on above its number. */
export function leaveNumber(context: ObjectStoreContext, view: ShardView, number: RowVersion): readonly MetadataWrite[] {
  if (!hasNumbers(view)) return [];
  const [head] = view.rows;
  assert(head === undefined || number.commit > head.version.commit, "OGD22: the last number of a key is above that of its last head");
  const { bucket, key } = view;
  return [
    putRow(lastNumberKey(key), number, { kind: "last number" }),
    putGarbage(context, number.guid, { bucket, key, what: { kind: "last number", guid: number.guid } }, LAST_NUMBER_ORDINAL),
  ];
}

/** Tells it apart from other GC entries of the same commit. */
const LAST_NUMBER_ORDINAL = 254;

/** What the first write of a key without a head goes on above, if something is left of an earlier one. */
export async function takeNumber(
  context: ObjectStoreContext,
  view: ShardView,
): Promise<{
  readonly last: RowVersion | undefined;
  readonly conditions: readonly MetadataCondition[];
  readonly writes: readonly MetadataWrite[];
}> {
  assert(view.rows[0] === undefined, "a head has the key's number");
  if (!hasNumbers(view)) return { last: undefined, conditions: [], writes: [] };
  const key = lastNumberKey(view.key);
  const [found] = await context.metadata.read(view.partition, [key]);
  return { last: found?.version, conditions: [{ key, version: found?.version }], writes: removalOfNumber(found) };
}

function removalOfNumber(found: MetadataRow | undefined): readonly MetadataWrite[] {
  return found === undefined ? [] : [{ kind: "delete", key: found.key }];
}

function hasNumbers({ header, key }: ShardView): boolean {
  const { events } = header.row;
  return events !== undefined && rulesOf(events).some((rule) => isAbout(rule, key));
}
