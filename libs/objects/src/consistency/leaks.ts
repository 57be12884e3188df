// Blobs against rows: which of a page no row names and no collection or recovery looks at again.
import { parseOid, type BlobDescription, type Oid } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import { assertAnswered } from "../page-invariants.ts";
import { GarbageIndex, partitionOf } from "../recovery/decide-blobs.ts";
import { namedByOlder, names, rowKeyOf } from "../recovery/older-versions.ts";
import { isRecovered, listEpochs } from "../reservation/epoch-row.ts";
import { headerKey } from "../row-keys.ts";
import type { EpochRow } from "../rows.ts";
import { headerOf } from "../shard-view.ts";
import type { LeakedBlob } from "./part-findings.ts";
import { SCRUB_INSPECTIONS } from "./limits.ts";
import { inspectOrDamaged, isReadFailure } from "./row-findings.ts";

const ABSENT = { kind: "absent" } as const;

export interface DescribedLeak extends LeakedBlob {
  readonly description: BlobDescription;
}

/**
 * Leaked blobs among `oids`, which were listed before this is called: each is resolved, described, in no row and in no GC entry, and is still
 * there after that was seen. One without a whole description is none: which row could name it is unknown. One that its store cannot read
 * is none either and goes to `onUnreadable`; without it the call rejects.
 */
export async function leakedOf(
  context: ObjectStoreContext,
  oids: readonly Oid[],
  onUnreadable?: (oid: Oid) => void,
): Promise<readonly DescribedLeak[]> {
  // After the listing: the epoch of each blob had its row before the blob was made.
  const epochs = new Map((await listEpochs(context.metadata)).map(({ row }) => [row.epoch, resolvedTo(row)] as const));
  const isResolved = (oid: Oid): boolean => {
    const { epoch, sequence } = parseOid(oid);
    return sequence < (epochs.get(epoch) ?? Number.POSITIVE_INFINITY);
  };
  const resolved = oids.filter(isResolved);
  const unnamed: { readonly leak: DescribedLeak; readonly partition: string }[] = [];
  for (const [partition, leaks] of await byPartition(context, await inspectAll(context, resolved, onUnreadable))) {
    const rows = await readableRows(context, partition, leaks);
    const byHead = leaks.filter(({ oid }, at) => rows[at]?.(oid) !== true);
    const older = await namedByOlderOf(context, partition, byHead);
    for (const leak of byHead) if (!older.has(leak.oid)) unnamed.push({ leak, partition });
  }
  if (unnamed.length === 0) return [];
  // Read after the rows: what dropped the reference wrote the GC entry in the same commit (I4).
  const garbage = new GarbageIndex(context);
  const left: DescribedLeak[] = [];
  for (const { leak, partition } of unnamed) if (!(await garbage.has(partition, leak.oid)) && garbage.isWhole) left.push(leak);
  assert(
    left.every(({ oid }) => isResolved(oid)),
    "OGD7: a blob whose name is not resolved is no leak",
  );
  // Collected meanwhile, its GC entry with it.
  return await inspectAll(
    context,
    left.map(({ oid }) => oid),
    onUnreadable,
  );
}

/** Names below it are resolved, those of a recovered epoch all. Without a reservation only its own gateway's journal knows. */
function resolvedTo(row: EpochRow): number {
  if (row.reservedTo === 0) return 0;
  return isRecovered(row) ? Number.POSITIVE_INFINITY : row.lowWater;
}

async function inspectAll(
  context: ObjectStoreContext,
  oids: readonly Oid[],
  onUnreadable: ((oid: Oid) => void) | undefined,
): Promise<readonly DescribedLeak[]> {
  const waiting = [...oids];
  const found: DescribedLeak[] = [];
  const worker = async (): Promise<void> => {
    for (let oid = waiting.shift(); oid !== undefined; oid = waiting.shift()) {
      const state = await inspectOrDamaged(context, oid).catch((thrown: unknown) => {
        if (onUnreadable === undefined || !isReadFailure(thrown)) throw thrown;
        onUnreadable(oid);
        return ABSENT;
      });
      if (state.kind === "absent" || state.description === undefined) continue;
      const lengthBytes = state.kind === "sealed" ? state.sealed.lengthBytes : 0;
      found.push({ oid, lengthBytes, description: state.description });
    }
  };
  await Promise.all(Array.from({ length: Math.min(oids.length, SCRUB_INSPECTIONS) }, worker));
  assert(found.length <= oids.length, "OGD9: a blob is looked at once");
  return found;
}

async function byPartition(context: ObjectStoreContext, leaks: readonly DescribedLeak[]): Promise<ReadonlyMap<string, DescribedLeak[]>> {
  const grouped = new Map<string, DescribedLeak[]>();
  for (const leak of leaks) {
    const partition = await partitionOf(context, leak.description);
    const together = grouped.get(partition) ?? [];
    together.push(leak);
    grouped.set(partition, together);
  }
  return grouped;
}

/** Whether each leak's row may name it: a row that cannot be read may. */
async function readableRows(
  context: ObjectStoreContext,
  partition: string,
  leaks: readonly DescribedLeak[],
): Promise<readonly ((oid: Oid) => boolean)[]> {
  const keys = leaks.map(({ description }) => rowKeyOf(description));
  try {
    const rows = await context.metadata.read(partition, keys);
    assertAnswered(rows, keys);
    return rows.map((row) => (oid) => orTrue(() => names(row, oid)));
  } catch (thrown) {
    if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
    if (leaks.length === 1) return [() => true];
    const each: ((oid: Oid) => boolean)[] = [];
    for (const leak of leaks) each.push(...(await readableRows(context, partition, [leak])));
    return each;
  }
}

/** Those that earlier versions of their keys may name: one that cannot be read may. */
async function namedByOlderOf(context: ObjectStoreContext, partition: string, leaks: readonly DescribedLeak[]): Promise<ReadonlySet<Oid>> {
  const [headerRow] = await context.metadata.read(partition, [headerKey()]);
  const named = new Set<Oid>();
  if (headerOf(headerRow)?.row.versioning === undefined) return named;
  const ofObjects = leaks.filter(({ description }) => description.part === undefined);
  for (const [key, together] of Map.groupBy(ofObjects, ({ description }) => description.key)) {
    const wanted = new Set(together.map(({ oid }) => oid));
    const found = await namedByOlder(context, partition, key, wanted).catch((thrown: unknown) => {
      if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
      return wanted;
    });
    for (const oid of found) named.add(oid);
  }
  return named;
}

function orTrue(ask: () => boolean): boolean {
  try {
    return ask();
  } catch {
    return true;
  }
}
