// A store that lost entries of a group's log, after a repair whose losses were accepted: its logs open again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { closeLogGaps } from "./index.ts";
import { openPlain } from "./test/plain-replica.ts";
import { checksum } from "./test/simulated-ring.ts";
import { decodeHeader, encodeEntry, encodeHeader, ENTRY_RANGE, entryKey, headerKey, readEntryKey } from "./log-format.ts";

const GROUP = "g0";
const NOW_US = timestampUsOf(9n);

async function storeWith(appliedSeq: bigint, seqs: readonly bigint[]): Promise<MemoryKeyValue> {
  const store = new MemoryKeyValue();
  const header = { promisedEpoch: epochOf(1n), owner: "one", appliedSeq: seqOf(appliedSeq), appliedEpoch: epochOf(1n) };
  const rest = { timestampCeilingUs: timestampUsOf(5n), droppedSeq: seqOf(1n) };
  const entries = seqs.map((seq) => {
    const entry = { seq: seqOf(seq), epoch: epochOf(1n), bytes: Uint8Array.of(1), rows: new Uint8Array() };
    return { kind: "put", key: entryKey(GROUP, entry.seq), value: encodeEntry(entry, checksum) } as const;
  });
  await store.batch([{ kind: "put", key: headerKey(GROUP), value: encodeHeader({ ...header, ...rest }, checksum) }, ...entries], {
    sync: true,
  });
  return store;
}

async function held(store: MemoryKeyValue): Promise<readonly [dropped: bigint, seqs: readonly bigint[]]> {
  const { droppedSeq } = decodeHeader((await store.get(headerKey(GROUP)))!, checksum);
  const entries = await store.range({ ...ENTRY_RANGE, limit: 100 });
  return [droppedSeq, entries.map(({ key }) => readEntryKey(key).seq)];
}

const CASES: readonly (readonly [what: string, there: readonly bigint[], dropped: bigint, kept: readonly bigint[], losses: number])[] = [
  ["no gap", [2n, 3n, 4n, 5n], 1n, [2n, 3n, 4n, 5n], 0],
  ["an applied entry", [2n, 4n, 5n], 3n, [4n, 5n], 1],
  ["the newest applied entry", [2n, 3n, 5n], 4n, [5n], 1],
  ["the first entry that is not applied", [2n, 3n, 4n, 6n, 7n], 1n, [2n, 3n, 4n], 1],
  ["both", [2n, 4n, 6n], 3n, [4n], 2],
];

for (const [what, there, dropped, kept, losses] of CASES) {
  test(`close gaps: lost: ${what}`, async () => {
    const store = await storeWith(4n, there);
    assert.equal((await closeLogGaps(store, { checksum, nowUs: NOW_US })).length, losses);
    assert.deepEqual(await held(store), [dropped, kept]);
    assert.deepEqual(await closeLogGaps(store, { checksum, nowUs: NOW_US }), []);
  });
}

const WITHOUT_HEADER: readonly (readonly [
  there: readonly bigint[],
  dropped: bigint,
  applied: bigint,
  kept: readonly bigint[],
  losses: number,
])[] = [
  [[2n, 3n, 4n], 1n, 3n, [2n, 3n, 4n], 1],
  [[7n], 6n, 6n, [7n], 1],
  [[2n, 4n, 5n, 6n], 3n, 5n, [4n, 5n, 6n], 2],
  [[2n, 3n, 5n], 4n, 4n, [5n], 2],
];

for (const [there, dropped, applied, kept, losses] of WITHOUT_HEADER) {
  test(`close gaps: a group's header is lost with the block that held it, entries ${there.join(", ")} are left: the log opens, all but the newest applied`, async () => {
    const store = await storeWith(4n, there);
    await store.batch([{ kind: "delete", key: headerKey(GROUP) }], { sync: true });
    assert.equal((await closeLogGaps(store, { checksum, nowUs: NOW_US })).length, losses);
    assert.deepEqual(await held(store), [dropped, kept]);
    const header = decodeHeader((await store.get(headerKey(GROUP)))!, checksum);
    assert.deepEqual([header.appliedSeq, header.timestampCeilingUs], [applied, NOW_US]);
    assert.deepEqual(await closeLogGaps(store, { checksum, nowUs: NOW_US }), []);
    await assertServes(store, applied);
  });
}

/** The owner that had the promise does not go on with it; the next one finds the newest entry. */
async function assertServes(store: MemoryKeyValue, applied: bigint): Promise<void> {
  const { log, disk } = await openPlain(store);
  const before = await disk.submit(log.raise({ group: GROUP, epoch: epochOf(1n), owner: "one" }));
  assert.equal(before.promised, false);
  const raised = await disk.submit(log.raise({ group: GROUP, epoch: epochOf(2n), owner: "two" }));
  assert.equal(raised.promised, true);
  assert.deepEqual([raised.state.appliedSeq, raised.state.lastSeq], [applied, applied + 1n]);
}
