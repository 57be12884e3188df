// The version of the ring's protocol is raised when what nodes say to each other changes: each version has a fingerprint, recorded once.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { RING_PROTOCOL } from "@concord/adapter-ring";
import { encodeHeader } from "@concord/group-log";
import { encodeEntry } from "@concord/logged-batch";
import type { Mutation } from "@concord/ports";
import { rowsOfEntry, sealMerged } from "@concord/quorum";
import { encodeImage, encodeMutation, encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { epochOf, seqOf, timeIdFromBytes, timestampUsOf, toHex } from "@concord/runtime";

interface RecordedVersion {
  readonly version: number;
  readonly fingerprint: string;
}

const PROTO = join(import.meta.dirname, "../../../../protos/concord/storage/v1/replica.proto");
const RECORDED = JSON.parse(
  readFileSync(join(import.meta.dirname, "../test/protocol-versions.json"), "utf8"),
) as readonly RecordedVersion[];

const checksum = (): number => 7;

/** The contract as the wire sees it: without comments, blanks and options of languages. */
function contractOf(proto: string): string {
  const withoutComments = proto.replaceAll(/\/\/[^\n]*/gu, "").replaceAll(/^option [^\n]*/gmu, "");
  return withoutComments.replaceAll(/\s+/gu, " ").trim();
}

/** One of each format that a message carries as bytes. What coordinators write into entries has a version and a check of its own (Raise). */
function formats(): string[] {
  const write: Mutation = {
    kind: "insert",
    key: { table: "notes", partition: [{ kind: "text", value: "p" }], clustering: [{ kind: "bigint", value: -1n }] },
    columns: [{ column: "t", value: { kind: "text", value: "hi" } }],
    timestampUs: timestampUsOf(1n),
  };
  const rows = encodeRowsPart([imageOf(write)]);
  const stored = rowsOfEntry("g", { seq: seqOf(7n), rows: joinRows([rows]) }, checksum);
  const batch = {
    id: timeIdFromBytes(Uint8Array.of(1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, 16)),
    coordinator: "node-1",
    createdMs: 1000,
    timestampUs: timestampUsOf(7n),
    holders: ["node-2"],
    rowCount: 1,
    mutations: [encodeMutation(write)],
  };
  const header = {
    promisedEpoch: epochOf(7n),
    owner: "node-1",
    appliedSeq: seqOf(3n),
    appliedEpoch: epochOf(6n),
    timestampCeilingUs: timestampUsOf(9n),
    droppedSeq: seqOf(2n),
  };
  const bytes = [encodeMutation(write), sealMerged(encodeImage(imageOf(write)), checksum), rows, encodeEntry(batch, checksum)];
  bytes.push(encodeHeader(header, checksum), ...stored.flatMap((one) => (one.kind === "put" ? [one.key, one.value] : [one.key])));
  return bytes.map(toHex);
}

const fingerprintOf = (contract: string): string =>
  createHash("sha256")
    .update([contract, ...formats()].join("\n"))
    .digest("hex");

test("[OPS18] ring protocol: its messages and formats: as recorded for its version", () => {
  const fingerprint = fingerprintOf(contractOf(readFileSync(PROTO, "utf8")));
  const newest = RECORDED.at(-1)!;
  const toDo = `what nodes of a ring say to each other has changed: raise RING_PROTOCOL (libs/adapter-ring/src/limits.ts) and add {"version": ${newest.version + 1}, "fingerprint": "${fingerprint}"} to protocol-versions.json; nodes of two versions refuse each other`;
  assert.equal(fingerprint, newest.fingerprint, toDo);
  assert.equal(RING_PROTOCOL, newest.version, "the newest recorded version is the one that nodes name");
});

test("ring protocol: recorded versions: each once, each with a fingerprint of its own", () => {
  const versions = RECORDED.map(({ version }) => version);
  assert.deepEqual(
    versions,
    versions.map((_, at) => versions[0]! + at),
  );
  assert.equal(new Set(RECORDED.map((one) => one.fingerprint)).size, RECORDED.length);
});

test("[OPS18] ring protocol: fingerprint: a renumbered field changes it, a comment does not", () => {
  const proto = readFileSync(PROTO, "utf8");
  const original = fingerprintOf(contractOf(proto));
  assert.equal(fingerprintOf(contractOf(proto.replace("message CopyRequest", "// Another comment.\n\nmessage CopyRequest"))), original);
  assert.notEqual(fingerprintOf(contractOf(proto.replace("bool headers_only = 3", "bool headers_only = 4"))), original);
  assert.notEqual(fingerprintOf(contractOf(proto.replace("  bool done = 2;\n", ""))), original);
});
