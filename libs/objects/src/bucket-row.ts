import { sameVersion } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { commitRepeatable, nextVersion, putRow } from "./commit-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import { decodeRowAs } from "./row-codec.ts";
import { afterKey, bucketKey, bucketSpan, SYSTEM_PARTITION } from "./row-keys.ts";
import type { BucketRow } from "./rows.ts";
import type { Versioned } from "./shard-view.ts";

const SCAN_ROWS = 100;

/** The row in whatever state. */
export async function findBucket(context: ObjectStoreContext, name: string): Promise<Versioned<BucketRow> | undefined> {
  const [found] = await context.metadata.read(SYSTEM_PARTITION, [bucketKey(name)]);
  return found === undefined ? undefined : { version: found.version, row: decodeRowAs("bucket", found.value) };
}

/** All bucket rows, removed ones too (garbage may be left in their shards). */
export async function* scanBuckets(context: ObjectStoreContext): AsyncGenerator<Versioned<BucketRow>, void, undefined> {
  const { to, from: start } = bucketSpan();
  let from = start;
  for (;;) {
    const rows = await context.metadata.range(SYSTEM_PARTITION, { from, to, limit: SCAN_ROWS });
    for (const found of rows) yield { version: found.version, row: decodeRowAs("bucket", found.value) };
    const last = rows.at(-1);
    if (last === undefined || rows.length < SCAN_ROWS) return;
    from = afterKey(last.key);
  }
}

/**
 * Puts the row in place of exactly `found`; undefined: it was another one by then. OUTCOME_UNKNOWN. A row in place of none might arrive twice;
 * it is "making" then, which no user sees and the next create or start resolves.
 */
export async function commitBucket(
  context: ObjectStoreContext,
  found: Versioned<BucketRow> | undefined,
  row: BucketRow,
): Promise<Versioned<BucketRow> | undefined> {
  const version = nextVersion(found?.version, context.clock, await context.guids.next());
  const key = bucketKey(row.name);
  const outcome = await commitRepeatable(context, {
    partition: SYSTEM_PARTITION,
    conditions: [{ key, version: found?.version }],
    writes: [putRow(key, version, row)],
  });
  context.buckets.forget(row.name);
  if (outcome.kind === "unknown") {
    throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the bucket was changed", { cause: outcome.cause });
  }
  // A repeated commit may conflict with its own first attempt.
  const done = outcome.kind === "committed" || sameVersion(outcome.rows[0]?.version, version);
  return done ? { version, row } : undefined;
}
