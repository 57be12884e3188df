// Reading a peer's log of a group page by page while its owner goes on (TXR4).
import assert from "node:assert/strict";
import { test } from "node:test";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import type { LogReadRequest, ReplicaLogState } from "@concord/group-log";
import { readWhole } from "./copy-store.ts";

const entry = (seq: number, epoch: number): ReplicaLogState["entries"][number] => ({
  seq: seqOf(BigInt(seq)),
  epoch: epochOf(BigInt(epoch)),
  bytes: Uint8Array.of(seq, epoch),
  rows: new Uint8Array(),
});

/** A peer that answers two entries at a time; before each read it may change. */
function peer(entries: ReplicaLogState["entries"][number][], before: (read: number) => void = () => undefined) {
  let reads = 0;
  return {
    logRead: ({ fromSeq }: LogReadRequest): Promise<ReplicaLogState> => {
      before((reads += 1));
      const last = entries.at(-1)!;
      return Promise.resolve({
        promisedEpoch: epochOf(3n),
        owner: "c",
        appliedSeq: seqOf(4n),
        appliedEpoch: epochOf(2n),
        lastSeq: last.seq,
        lastEpoch: last.epoch,
        timestampCeilingUs: timestampUsOf(0n),
        droppedSeq: seqOf(0n),
        entries: entries.filter(({ seq }) => seq >= fromSeq).slice(0, 2),
      });
    },
  };
}

const labels = (state: ReplicaLogState): string[] => state.entries.map(({ seq, epoch }) => `${seq}@${epoch}`);

test("[TXR4] copy: a log of several pages: every entry once", async () => {
  const entries = [entry(5, 2), entry(6, 2), entry(7, 2), entry(8, 3)];
  assert.deepEqual(labels(await readWhole(peer(entries), "g", seqOf(4n))), ["5@2", "6@2", "7@2", "8@3"]);
});

test("[TXR4] copy: a stale entry at the end of a page is replaced before the next page is read: REPLICAS_UNAVAILABLE", async () => {
  const entries = [entry(5, 3), entry(6, 2)];
  const source = peer(entries, (read) => {
    if (read === 1) entries.push(entry(7, 2));
    if (read === 2) entries.splice(1, 2, entry(6, 3), entry(7, 3));
  });
  await assert.rejects(readWhole(source, "g", seqOf(4n)), { code: "REPLICAS_UNAVAILABLE" });
});
