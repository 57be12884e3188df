import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  BEAT_BYTES,
  decodeMessage,
  encodeBeat,
  encodeStatement,
  GROUNDED_STATEMENT_BYTES,
  GROUNDS_MS_MAX,
  RING_BEAT_BYTES,
  RING_OBSERVERS,
  STATEMENT_BYTES,
  topologyOf,
  type Beat,
  type Opinion,
  type Statement,
  type Verdict,
} from "./index.ts";

const CLUSTER = 0xc0ffee;
const life = fc.bigInt({ min: 1n, max: (1n << 64n) - 1n });
const sequence = fc.nat(Number.MAX_SAFE_INTEGER);
const opinion = fc.constantFrom<Opinion>("unknown", "hears", "stuck", "lost", "returning");
const report = fc.record({ opinion, incarnation: life, sequence }, { noNullPrototype: true });
const reports = fc.array(report, { minLength: 1, maxLength: 16 });
const beats: fc.Arbitrary<Beat> = reports.chain((list) =>
  fc.record(
    {
      from: fc.nat(list.length - 1),
      list: fc.constant(0),
      incarnation: life,
      sequence,
      health: fc.nat(4),
      loopStalledMs: fc.nat(100_000),
      wantsEcho: fc.boolean(),
      reports: fc.constant(list),
    },
    { noNullPrototype: true },
  ),
);

test("beat format: any beat: the same after decoding, always of one length", () => {
  fc.assert(
    fc.property(beats, (beat) => {
      const mesh = topologyOf(beat.reports.length);
      const bytes = encodeBeat(beat, CLUSTER, mesh);
      assert.equal(bytes.length, BEAT_BYTES);
      assert.deepEqual(decodeMessage(bytes, CLUSTER, mesh), { kind: "beat", beat });
    }),
  );
});

test("beat format: golden bytes of version 1", () => {
  const reports = [
    { opinion: "unknown", incarnation: 0n, sequence: 0 },
    { opinion: "lost", incarnation: 0x0102030405060708n, sequence: 9 },
  ] as const;
  const beat: Beat = { from: 0, list: 0, incarnation: 5n, sequence: 6, health: 1, loopStalledMs: 7, wantsEcho: true, reports };
  const hex = Buffer.from(encodeBeat(beat, CLUSTER, topologyOf(2))).toString("hex");
  assert.equal(
    hex.slice(0, 126),
    "0100c0ffee0002000000000000000500000000000000060100000007010000000000000000000000000000000000" + "0301020304050607080000000000000009",
  );
  assert.match(hex.slice(126), /^0+$/);
});

test("[TX32] beat format: any beat of a changed list: the same after decoding, from a list of another length too; refused where lists do not change", () => {
  const mesh = topologyOf(3);
  fc.assert(
    fc.property(beats, fc.integer({ min: 1, max: 0xffff_ffff }), (unlisted, list) => {
      const beat = { ...unlisted, list };
      const bytes = encodeBeat(beat, CLUSTER, topologyOf(beat.reports.length));
      assert.equal(bytes.length, BEAT_BYTES);
      assert.deepEqual(decodeMessage(bytes, CLUSTER, mesh, true), { kind: "beat", beat });
      assert.throws(() => decodeMessage(bytes, CLUSTER, mesh), { code: "CORRUPT_DATA" });
    }),
  );
});

test("[TX32] beat format: golden bytes of version 4", () => {
  const reports = [{ opinion: "hears", incarnation: 1n, sequence: 2 }] as const;
  const beat: Beat = { from: 0, list: 0x01020304, incarnation: 5n, sequence: 6, health: 1, loopStalledMs: 7, wantsEcho: false, reports };
  const hex = Buffer.from(encodeBeat(beat, CLUSTER, topologyOf(1))).toString("hex");
  assert.equal(hex.slice(0, 92), "0401020304000100000000000000050000000000000006010000000700" + "0100000000000000010000000000000002");
  assert.match(hex.slice(92), /^0+$/);
});

test("[TXD15] beat format: any beat and any statement of a ring: the same after decoding, always of one length; refused in a mesh", () => {
  const ring = topologyOf(1_000);
  const ringBeats = fc.record(
    {
      from: fc.nat(999),
      list: fc.constant(0),
      incarnation: life,
      sequence,
      health: fc.nat(4),
      loopStalledMs: fc.nat(100_000),
      wantsEcho: fc.boolean(),
      reports: fc.array(report, { minLength: 13, maxLength: 13 }),
    },
    { noNullPrototype: true },
  );
  const verdict = fc.constantFrom<Verdict>("unknown", "works", "stuck", "gone");
  const grounds = fc.record(
    {
      madeMs: sequence,
      echoMs: fc.option(fc.nat(Number.MAX_SAFE_INTEGER - 1), { nil: undefined }),
      agesMs: fc.array(fc.nat(GROUNDS_MS_MAX), { minLength: RING_OBSERVERS, maxLength: RING_OBSERVERS }),
    },
    { noNullPrototype: true },
  );
  const statements: fc.Arbitrary<Statement> = fc.record(
    {
      from: fc.nat(999),
      incarnation: life,
      sequence,
      to: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
      wantsAnswer: fc.boolean(),
      verdicts: fc.array(verdict, { minLength: RING_OBSERVERS, maxLength: RING_OBSERVERS }),
      grounds: fc.option(grounds, { nil: undefined }),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(ringBeats, statements, (beat, statement) => {
      const [beatBytes, statementBytes] = [encodeBeat(beat, CLUSTER, ring), encodeStatement(statement, CLUSTER)];
      const bytes = statement.grounds === undefined ? STATEMENT_BYTES : GROUNDED_STATEMENT_BYTES;
      assert.deepEqual([beatBytes.length, statementBytes.length], [RING_BEAT_BYTES, bytes]);
      assert.deepEqual(decodeMessage(beatBytes, CLUSTER, ring), { kind: "beat", beat });
      assert.deepEqual(decodeMessage(statementBytes, CLUSTER, ring), { kind: "statement", statement });
      for (const bytes of [beatBytes, statementBytes])
        assert.throws(() => decodeMessage(bytes, CLUSTER, topologyOf(13)), { code: "CORRUPT_DATA" });
    }),
  );
});

test("[TXD15] beat format: golden bytes of versions 3 and 5, statements without grounds and with them", () => {
  const verdicts = ["unknown", "works", "stuck", "gone", "works", "gone"] as const;
  const said: Statement = { from: 258, incarnation: 5n, sequence: 6, to: 7n, wantsAnswer: true, verdicts, grounds: undefined };
  const body = "00c0ffee00000102000000000000000500000000000000060000000000000007" + "01" + "000102030103";
  const hexOf = (statement: Statement): string => Buffer.from(encodeStatement(statement, CLUSTER)).toString("hex");
  assert.equal(hexOf(said), `03${body}`);
  const grounds = { madeMs: 8, echoMs: 9, agesMs: [GROUNDS_MS_MAX, GROUNDS_MS_MAX, 10, 11, GROUNDS_MS_MAX, 12] };
  const ages = "0000ffff0000ffff0000000a0000000b0000ffff0000000c";
  assert.equal(hexOf({ ...said, grounds }), `05${body}0000000000000008000000000000000a${ages}`);
  assert.equal(hexOf({ ...said, grounds: { ...grounds, echoMs: undefined } }), `05${body}00000000000000080000000000000000${ages}`);
});

test("beat format: any bytes: a message, or CORRUPT_DATA", () => {
  const isRefused = (bytes: Uint8Array): void => {
    try {
      decodeMessage(bytes, CLUSTER, topologyOf((bytes[0] ?? 0) % 2 === 0 ? 5 : 100));
    } catch (thrown) {
      assert.equal((thrown as { code?: string }).code, "CORRUPT_DATA");
    }
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 2 * BEAT_BYTES }), isRefused));
  for (const length of [BEAT_BYTES, RING_BEAT_BYTES, STATEMENT_BYTES, GROUNDED_STATEMENT_BYTES]) {
    fc.assert(fc.property(fc.uint8Array({ minLength: length, maxLength: length }), isRefused));
  }
});

test("beat format: other length, version, cluster, or a sender that is not in the list: CORRUPT_DATA", () => {
  const bytes = encodeBeat(
    {
      from: 0,
      list: 0,
      incarnation: 1n,
      sequence: 1,
      health: 0,
      loopStalledMs: 0,
      wantsEcho: false,
      reports: [{ opinion: "hears", incarnation: 1n, sequence: 1 }],
    },
    CLUSTER,
    topologyOf(1),
  );
  const changed = (at: number, value: number): Uint8Array => bytes.map((byte, index) => (index === at ? value : byte));
  const refused = [bytes.subarray(1), changed(0, 2), changed(4, 0), changed(5, 1), changed(6, 17), changed(29, 5)];
  for (const one of refused) assert.throws(() => decodeMessage(one, CLUSTER, topologyOf(1)), { code: "CORRUPT_DATA" });
});
