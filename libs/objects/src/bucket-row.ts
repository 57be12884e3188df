import { compareBytes } from "@concord/codec";
import { sameVersion } from "@concord/ports";
import { assert, ConcordError } from "@concord/runtime";
import { commitRepeatable } from "./commit-rows.ts";
import { nextVersion, putRow } from "./row-writes.ts";
import type { ObjectStoreContext } from "./context.ts";
import { assertAnswered, assertForward } from "./page-invariants.ts";
import { decodeRowAs } from "./row-codec.ts";
import { afterKey, bucketKey, bucketSpan, SYSTEM_PARTITION } from "./row-keys.ts";
import type { BucketRow } from "./rows.ts";
import type { Versioned } from "./shard-view.ts";

const SCAN_ROWS = 100;

/** The row in whatever state. */
export async function findBucket(context: ObjectStoreContext, name: string): Promise<Versioned<BucketRow> | undefined> {
  const keys = [bucketKey(name)];
  const rows = await context.metadata.read(SYSTEM_PARTITION, keys);
  assertAnswered(rows, keys);
  const [found] = rows;
  return found === undefined ? undefined : { version: found.version, row: decodeRowAs("bucket", found.value) };
}

/** All bucket rows, removed ones too (garbage may be left in their shards). */
export async function* scanBuckets(context: ObjectStoreContext): AsyncGenerator<Versioned<BucketRow>, void, undefined> {
  const { to, from: start } = bucketSpan();
  let from = start;
  for (;;) {
    const rows = await context.metadata.range(SYSTEM_PARTITION, { from, to, limit: SCAN_ROWS });
    assert(rows.length === 0 || compareBytes(rows[0]!.key, from) >= 0, "a scan of buckets goes on where its last page ended");
    for (const found of rows) yield { version: found.version, row: decodeRowAs("bucket", found.value) };
    const last = rows.at(-1);
    if (last === undefined || rows.length < SCAN_ROWS) return;
    from = assertForward(from, afterKey(last.key));
  }
}

/** What may follow each state of a bucket's row (README, A bucket's states). */
const NEXT_STATES: Readonly<Record<BucketRow["state"], readonly BucketRow["state"][]>> = {
  making: ["making", "open"],
  open: ["open", "changing", "removing"],
  changing: ["changing", "open", "removing"],
  removing: ["removing", "removed", "open"],
  removed: ["making"],
};

function assertBucket(before: BucketRow | undefined, row: BucketRow): void {
  if (before === undefined) {
    assert(row.state === "making", "OGD17: a bucket begins with its headers");
    return;
  }
  assert(NEXT_STATES[before.state].includes(row.state), "OGD17: a bucket's states follow each other");
  assert(row.name === before.name && row.shards === before.shards, "OGD17: rows that are left are found in the shards where they are");
  const [formerly, now] = [before.settings?.number ?? 0n, row.settings?.number ?? 0n];
  assert(now >= formerly, "I17: the number of a bucket's settings never goes back");
  assert(now <= formerly + 1n, "I17: each change of a bucket's settings has the next number");
  const isAnothers = before.state === "removed" && (before.settings !== undefined || before.tenant !== row.tenant);
  assert(!isAnothers || now > formerly, "I17: what was judged for a bucket's former owner is older than what its next one has set");
  if (row.state === "making") return;
  assert(row.tenant === before.tenant, "OGD17: a bucket that is there keeps its owner");
  assert(row.createdMs === before.createdMs, "OGD17: a bucket that is there keeps the time of its making");
  assert(row.locking === undefined || row.versioning === "enabled", "OGD21: a bucket with locks keeps versions");
  assert(before.versioning === undefined || row.versioning !== undefined, "I16: a bucket that has versions knows of them");
  assert(before.locking === undefined || row.locking !== undefined, "OGD21: a bucket has locks for ever");
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
  assertBucket(found?.row, row);
  const isNewlyLocking = row.locking !== undefined && found?.row.locking === undefined;
  assert(!isNewlyLocking || context.lockTime.hasBegun, "OGD21: the time of locks is older than every lock");
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
