// The row of an epoch: acquired once, then replaced by its gateway, or closed by the gateway that recovers it. Every write is a compare-and-set, and
// every answer that was lost is looked up, so the caller always holds a row that certainly is, or was, the stored one.
import { compareBytes } from "@concord/codec";
import type { MetadataCommit, MetadataRow, ObjectData, ObjectMetadata, RowVersion } from "@concord/ports";
import { assert, ConcordError, type Clock } from "@concord/runtime";
import type { GuidSource } from "@concord/snowflake";
import { assertCommit } from "../commit-invariants.ts";
import { assertForward } from "../page-invariants.ts";
import { decodeRowAs, encodeRow } from "../row-codec.ts";
import { epochKey, epochSpan, SYSTEM_PARTITION } from "../row-keys.ts";
import type { EpochRow } from "../rows.ts";
import { ACQUIRE_ATTEMPTS, EPOCH_ROW_ATTEMPTS } from "./limits.ts";

export interface EpochStores {
  readonly metadata: ObjectMetadata;
  readonly data: ObjectData;
  readonly guids: GuidSource;
  readonly clock: Clock;
}

/** An epoch's row as it was stored at some time. */
export interface HeldEpoch {
  readonly version: RowVersion;
  readonly row: EpochRow;
}

export function heldEpoch({ key, version, value }: MetadataRow): HeldEpoch {
  const row = decodeRowAs("epoch", value);
  assert(compareBytes(key, epochKey(row.epoch)) === 0, "OGD3: the row of an epoch is at its number");
  return { version, row };
}

export async function readEpoch(metadata: ObjectMetadata, epoch: number): Promise<HeldEpoch | undefined> {
  const [found] = await metadata.read(SYSTEM_PARTITION, [epochKey(epoch)]);
  return found === undefined ? undefined : heldEpoch(found);
}

/** A closed epoch whose every blob was decided: what `lowWater` says of a finished recovery. */
export function isRecovered(row: EpochRow): boolean {
  return row.closed && row.lowWater >= row.reservedTo;
}

/**
 * The first number that neither a row nor a blob has, with its row durable. A lost answer is no reason for another number: the same row is
 * written again until it, or another gateway's row, is there. STORE_FAILED (applied: unknown) when the store does not answer: the number
 * is then never used.
 */
export async function acquireEpoch(stores: EpochStores, instance: string, reservedTo: number): Promise<HeldEpoch> {
  let epoch = (await highestEpoch(stores)) + 1;
  for (let attempt = 0; attempt < ACQUIRE_ATTEMPTS; attempt += 1, epoch += 1) {
    const row: EpochRow = { kind: "epoch", epoch, instance, reservedTo, lowWater: 0, closed: false };
    const acquired = await putEpoch(stores, undefined, row);
    if (acquired.kind === "written") return acquired.held;
    if (acquired.kind === "unknown") throw lostAnswer(acquired.cause);
  }
  throw new ConcordError("WRITE_CONFLICT", `no epoch could be acquired in ${ACQUIRE_ATTEMPTS} attempts: other gateways take them`);
}

export type EpochWrite =
  | { readonly kind: "written"; readonly held: HeldEpoch }
  /** Another gateway wrote the row; undefined: it is gone. */
  | { readonly kind: "changed"; readonly held: HeldEpoch | undefined }
  | { readonly kind: "unknown"; readonly cause: unknown };

/** Replaces exactly what was observed (undefined: no row). Repeating the same commit after a lost answer writes it once at most. */
export async function putEpoch(stores: EpochStores, observed: HeldEpoch | undefined, row: EpochRow): Promise<EpochWrite> {
  assertEpoch(observed?.row, row);
  const key = epochKey(row.epoch);
  const nowUs = stores.clock.nowUs();
  const floor = (observed?.version.commit ?? 0n) + 1n;
  const version: RowVersion = { commit: floor > nowUs ? floor : nowUs, guid: await stores.guids.next() };
  const commit: MetadataCommit = {
    partition: SYSTEM_PARTITION,
    conditions: [{ key, version: observed?.version }],
    writes: [{ kind: "put", row: { key, version, value: encodeRow(row) } }],
  };
  assertCommit(commit);
  let cause: unknown;
  for (let attempt = 0; attempt < EPOCH_ROW_ATTEMPTS; attempt += 1) {
    const outcome = await stores.metadata.commit(commit);
    if (outcome.kind === "committed") return { kind: "written", held: { version, row } };
    if (outcome.kind === "unknown") {
      cause = outcome.cause;
      continue;
    }
    const [found] = outcome.rows;
    // An earlier attempt whose answer was lost.
    if (found !== undefined && found.version.guid === version.guid) return { kind: "written", held: { version, row } };
    return { kind: "changed", held: found === undefined ? undefined : heldEpoch(found) };
  }
  return { kind: "unknown", cause };
}

/** A row says more with each write, never less. */
function assertEpoch(before: EpochRow | undefined, row: EpochRow): void {
  assert(row.lowWater <= row.reservedTo, "OGD7: a name that is resolved was reserved");
  if (before === undefined) return;
  assert(row.epoch === before.epoch && row.instance === before.instance, "OGD3: an epoch is one gateway's");
  assert(row.reservedTo >= before.reservedTo, "OGD6: what is reserved stays reserved");
  assert(row.lowWater >= before.lowWater, "OGD7: the low-water mark never goes back");
  assert(row.closed || !before.closed, "OGD3: a closed epoch is never opened again");
}

/** All epochs, ascending. */
export async function listEpochs(metadata: ObjectMetadata): Promise<readonly HeldEpoch[]> {
  const { to, from } = epochSpan();
  const all: HeldEpoch[] = [];
  let after = from;
  for (;;) {
    const page = await metadata.range(SYSTEM_PARTITION, { from: after, to, limit: EPOCH_PAGE });
    all.push(...page.map(heldEpoch));
    if (page.length < EPOCH_PAGE) return all;
    after = assertForward(after, epochKey(all.at(-1)!.row.epoch + 1));
  }
}

const EPOCH_PAGE = 1000;

/** Of rows and of blobs: metadata that were lost must not bring a number back (OG2). */
async function highestEpoch(stores: EpochStores): Promise<number> {
  const { from, to } = epochSpan();
  const [newest] = await stores.metadata.range(SYSTEM_PARTITION, { from, to, limit: 1, reverse: true });
  const ofBlobs = (await stores.data.epochs()).at(-1) ?? 0;
  return Math.max(ofBlobs, newest === undefined ? 0 : heldEpoch(newest).row.epoch);
}

const lostAnswer = (cause: unknown): ConcordError =>
  new ConcordError("STORE_FAILED", "it is unknown whether the epoch's row was written", { cause });
