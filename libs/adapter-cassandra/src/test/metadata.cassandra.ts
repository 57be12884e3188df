// Rows of objects on a real node: the port's promises, also while requests and answers are lost or late: `npm run test:engines`.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { objectMetadataContract } from "@concord/port-contracts";
import type { MetadataCommit, MetadataOutcome, MetadataRow, ObjectMetadata } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { CassandraMetadata } from "../cassandra-metadata.ts";
import { FaultySession, type Fault } from "./faulty-session.ts";
import { clock, newKeyspace } from "./real-cassandra.ts";

const made = newKeyspace();
const random = { bytes: (length: number): Uint8Array => randomBytes(length), below: () => 0, float: () => Math.random() };
const KEY = Uint8Array.of(1);
const OTHER_KEY = Uint8Array.of(2);
const row = (key: Uint8Array, commit: bigint): MetadataRow => ({ key, version: { commit, guid: 1n }, value: Uint8Array.of(7) });
const put = (metadata: ObjectMetadata, of: MetadataRow, held?: bigint): ReturnType<ObjectMetadata["commit"]> => {
  const version = held === undefined ? undefined : { commit: held, guid: 1n };
  return metadata.commit({ partition: "b/0", conditions: [{ key: of.key, version }], writes: [{ kind: "put", row: of }] });
};

/** How a commit ended; "refused" where other commits took all of its time, and nothing of it is applied. */
async function outcomeOf(metadata: ObjectMetadata, commit: MetadataCommit): Promise<MetadataOutcome["kind"] | "refused"> {
  try {
    return (await metadata.commit(commit)).kind;
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.applied === "no") return "refused";
    throw thrown;
  }
}

async function opened(): Promise<{ metadata: () => ObjectMetadata; session: FaultySession }> {
  const { name, session: real, empty } = await made;
  await empty();
  const session = new FaultySession(real);
  return { session, metadata: () => new CassandraMetadata({ session, keyspace: name, clock, random }) };
}

objectMetadataContract(
  (name, run) => test(`[OGD15] ${name}`, run),
  async () => {
    const { metadata } = await opened();
    return { metadata: metadata(), crash: async () => metadata() };
  },
);

/** Request or answer lost, in turn, with a success between that no loop can wait for. */
const LOSSES: readonly (Fault | undefined)[] = ["answer-lost", undefined, "request-lost", undefined, undefined];

objectMetadataContract(
  (name, run) => test(`[OGD15] [TXC2] commits and reads are lost: ${name}`, run),
  async () => {
    const { metadata, session } = await opened();
    for (let round = 0; round < 40; round += 1) {
      session.swapFaults.push(...LOSSES);
      session.serialFaults.push(true, false, false);
    }
    return { metadata: metadata(), crash: async () => metadata() };
  },
);

test("[OGD15] [LBC2] a commit that is held up, then a conflict: it is not carried out when it arrives, though its conditions hold again", async () => {
  const { metadata, session } = await opened();
  const [one, other] = [metadata(), metadata()];
  assert.equal((await put(one, row(OTHER_KEY, 1n))).kind, "committed");
  session.swapFaults.push("held");
  // Between the held try and the next one another process writes the row.
  session.whileHeld = async () => assert.equal((await put(other, row(KEY, 4n))).kind, "committed");
  const outcome = await put(one, row(KEY, 5n));
  const { key, version } = row(KEY, 4n);
  assert.equal(
    (await other.commit({ partition: "b/0", conditions: [{ key, version }], writes: [{ kind: "delete", key }] })).kind,
    "committed",
  );
  assert.deepEqual(await session.releaseHeld(), [false]);
  const [found] = await other.read("b/0", [KEY]);
  assert.equal(found, undefined);
  assert.ok(outcome.kind === "conflict" && outcome.rows[0]?.version.commit === 4n, outcome.kind);
});

test("[OGD15] two processes commit to one partition at once, answers are lost: each acknowledged add counts once", async () => {
  const { metadata, session } = await opened();
  const counter = Uint8Array.of(9);
  for (let round = 0; round < 20; round += 1) session.swapFaults.push(...LOSSES);
  let [acknowledged, unknown] = [0n, 0n];
  const worker = async (own: ObjectMetadata, first: number): Promise<void> => {
    for (let at = first; at < first + 8; at += 1) {
      const key = Uint8Array.of(3, at);
      const kind = await outcomeOf(own, {
        partition: "b/0",
        conditions: [{ key, version: undefined }],
        writes: [
          { kind: "put", row: row(key, 1n) },
          { kind: "add", key: counter, amounts: [1n] },
        ],
      });
      if (kind === "committed") acknowledged += 1n;
      else if (kind === "unknown") unknown += 1n;
    }
  };
  await Promise.all([worker(metadata(), 0), worker(metadata(), 100)]);
  const [count = 0n] = await metadata().readCounters("b/0", counter);
  const rows = await metadata().range("b/0", { from: Uint8Array.of(3), to: Uint8Array.of(4), limit: 100 });
  assert.equal(count, BigInt(rows.length));
  assert.ok(acknowledged > 0n, "some adds are acknowledged");
  assert.ok(count >= acknowledged && count <= acknowledged + unknown, `${count}: ${acknowledged} acknowledged, ${unknown} unknown`);
});
