// A store that lost entries of a group's log, after a repair whose losses were accepted: its logs open again.
import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { closeLogGaps } from "./index.ts";
import { decodeHeader, encodeEntry, encodeHeader, ENTRY_RANGE, entryKey, headerKey, readEntryKey } from "./log-format.ts";

const GROUP = "g0";
const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);

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
    assert.equal((await closeLogGaps(store, checksum)).length, losses);
    assert.deepEqual(await held(store), [dropped, kept]);
    assert.deepEqual(await closeLogGaps(store, checksum), []);
  });
}

test("close gaps: a group's header is lost: refused, nothing changes", async () => {
  const store = await storeWith(4n, [2n]);
  await store.batch([{ kind: "delete", key: headerKey(GROUP) }], { sync: true });
  await assert.rejects(closeLogGaps(store, checksum), { code: "CORRUPT_DATA" });
});
