import type { Oid } from "@concord/ports";
import { assert, ConcordError, toConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import { isRecovered, putEpoch, readEpoch, type HeldEpoch } from "../reservation/epoch-row.ts";
import { parseOid } from "@concord/ports";
import { decideBlobs, GarbageIndex, type OpenBlob } from "./decide-blobs.ts";
import { RECOVERY_INSPECTIONS, RECOVERY_PAGE_BLOBS } from "./limits.ts";

/** What became of the names of an epoch that were not resolved. */
export interface EpochReport {
  readonly epoch: number;
  /** Blobs that a row names. */
  readonly referenced: number;
  /** Blobs that are garbage now. */
  readonly collected: number;
  /** Reserved names without a blob. */
  readonly absent: number;
  /** Blobs left to the next run. */
  readonly undecided: number;
  /** This epoch needs no further recovery. */
  readonly finished: boolean;
}

const COUNTED = { referenced: 0, collected: 0, undecided: 0 };

/**
 * Recovers one epoch (OGD6), online and without a lock (OG9): closes it in its row, then at the data store, decides every blob at or above
 * the low-water mark, and says in the row that it is done. Any number of gateways may do this at once, and after a crash at any point it is
 * done again; the result is the same. The epoch's gateway may be alive: it is fenced and goes on with another epoch (OGD3).
 */
export async function recoverEpoch(context: ObjectStoreContext, epoch: number, signal?: AbortSignal): Promise<EpochReport> {
  const closed = await closeEpoch(context, epoch);
  if (closed === undefined || isRecovered(closed.row)) return { ...COUNTED, epoch, absent: 0, finished: true };
  assert(closed.row.closed, "I12: recovery closes an epoch before it reads a row");
  const { lowWater, reservedTo } = closed.row;
  const garbage = new GarbageIndex(context);
  const counts = { ...COUNTED };
  let from = lowWater;
  for (;;) {
    if (signal?.aborted === true) return { ...counts, epoch, absent: 0, finished: false };
    const oids = await context.data.list({ epoch, fromSequence: from, limit: RECOVERY_PAGE_BLOBS });
    const { blobs, damaged } = await describe(context, oids);
    assert(
      oids.every((oid) => isAtOrAbove(oid, epoch, lowWater)),
      "I11: what is below the low-water mark is resolved, and left alone",
    );
    const fates = await decideBlobs(context, blobs, garbage);
    for (const fate of fates.values()) counts[fate] += 1;
    counts.undecided += damaged;
    context.failpoint("recovery:after-page");
    if (oids.length < RECOVERY_PAGE_BLOBS) break;
    const next = parseOid(oids.at(-1)!).sequence + 1;
    assert(next > from, "OGD6: a page of names begins behind the one before it");
    from = next;
  }
  const found = counts.referenced + counts.collected + counts.undecided;
  const finished = counts.undecided === 0 && (await markRecovered(context, closed, counts.undecided));
  return { ...counts, epoch, absent: Math.max(0, reservedTo - lowWater - found), finished };
}

function isAtOrAbove(oid: Oid, epoch: number, lowWater: number): boolean {
  const parsed = parseOid(oid);
  return parsed.epoch === epoch && parsed.sequence >= lowWater;
}

/**
 * Closes the epoch in its row first, so that a writer that looks whether its epoch is open is refused from now on, then at the data store.
 * Undefined: there is no such epoch. STORE_FAILED when the answer stays lost.
 */
export async function closeEpoch(context: ObjectStoreContext, epoch: number): Promise<HeldEpoch | undefined> {
  let held = await readEpoch(context.metadata, epoch);
  while (held !== undefined && !held.row.closed) {
    // A free epoch has no reservation: closed is all there is to say of it.
    const written = await putEpoch(context, held, { ...held.row, closed: true });
    if (written.kind === "unknown") throw new ConcordError("STORE_FAILED", "the epoch may be closed or not", { cause: written.cause });
    held = written.held;
  }
  context.failpoint("recovery:after-close-row");
  assert(held === undefined || held.row.closed, "I12: an epoch is closed in its row before the data store closes it");
  await context.data.closeEpoch(epoch);
  context.failpoint("recovery:after-close-epoch");
  return held;
}

async function markRecovered(context: ObjectStoreContext, closed: HeldEpoch, undecided: number): Promise<boolean> {
  const { row } = closed;
  assert(row.closed, "OGD3: only a closed epoch is recovered");
  assert(undecided === 0, "OGD6: an epoch is recovered once all its blobs are decided");
  const written = await putEpoch(context, closed, { ...row, lowWater: row.reservedTo });
  context.failpoint("recovery:after-mark");
  // Another gateway recovered it at the same time: only recoveries write the row of a closed epoch.
  return written.kind === "written" || (written.kind === "changed" && written.held !== undefined && isRecovered(written.held.row));
}

interface Described {
  /** Those that are still there, with what they say of themselves. */
  readonly blobs: readonly OpenBlob[];
  /** How many cannot be read now: they stay, and so does their epoch. */
  readonly damaged: number;
}

async function describe(context: ObjectStoreContext, oids: readonly Oid[]): Promise<Described> {
  const waiting = [...oids];
  const blobs: OpenBlob[] = [];
  let damaged = 0;
  const worker = async (): Promise<void> => {
    for (let oid = waiting.shift(); oid !== undefined; oid = waiting.shift()) {
      try {
        const state = await context.data.inspect(oid);
        if (state.kind !== "absent") blobs.push({ oid, description: state.description });
      } catch (thrown) {
        damaged += 1;
        context.log.error("a blob cannot be read; it stays undecided", { oid, reason: toConcordError(thrown).message });
      }
    }
  };
  await Promise.all(Array.from({ length: RECOVERY_INSPECTIONS }, worker));
  assert(blobs.length + damaged <= oids.length, "OGD6: each blob of a page is looked at once");
  return { blobs, damaged };
}
