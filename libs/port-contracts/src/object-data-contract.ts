import { ConcordError, type Checksum } from "@concord/runtime";
import {
  oidOf,
  parseOid,
  type ObjectData,
  type Oid,
  type BlobDescription,
  type BlobState,
  type BlobWriter,
  type SealedBlob,
} from "@concord/ports";
import { expectCode, expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

/** An empty store of blobs, and what tests can do to it. */
export interface ObjectDataSubject {
  readonly data: ObjectData;
  /** What `SealedBlob.checksum` is computed with. */
  readonly checksum: Checksum;
  /** Opens what a crash at this moment would leave. */
  crash(): Promise<ObjectData>;
  /** Flips a bit of byte `at` of a sealed blob, behind the store's back. */
  damage(oid: Oid, at: number): Promise<void>;
}

type Case = ContractCase<ObjectDataSubject>;

const EPOCH = 42;
const blob = (sequence: number, epoch = EPOCH): Oid => oidOf(epoch, sequence);
const DESCRIPTION: BlobDescription = { bucket: "photos", key: "a/b \u00e4\u{1f600}", part: undefined, guid: 2n ** 63n - 1n };
const PART: BlobDescription = { bucket: "b", key: "\u0000", part: { uploadId: 2n ** 62n + 1n, number: 10_000 }, guid: 0n };

function pattern(length: number, seed = 1): Uint8Array {
  return Uint8Array.from({ length }, (_, at) => (at * 31 + (at >> 8) * 7 + seed) & 255);
}

function simple(name: string, run: (data: ObjectData, subject: ObjectDataSubject) => Promise<void>): Case {
  return {
    name,
    async run(open) {
      const subject = await open();
      await run(subject.data, subject);
    },
  };
}

async function store(data: ObjectData, oid: Oid, bytes: Uint8Array, description = DESCRIPTION): Promise<SealedBlob> {
  const writer = await data.create(oid, description);
  if (bytes.length > 0) await writer.write(bytes);
  return writer.seal();
}

async function bytesOf(data: ObjectData, oid: Oid, offset: number, length: number): Promise<Uint8Array> {
  const whole = new Uint8Array(length);
  let at = 0;
  for await (const chunk of data.read(oid, offset, length)) {
    expectEqual(at + chunk.length <= length, true, "no more bytes than asked for");
    whole.set(chunk, at);
    at += chunk.length;
  }
  expectEqual(at, length, "bytes read");
  return whole;
}

function expectBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  expectEqual(actual.length, expected.length, `${what}: length`);
  const wrong = actual.findIndex((byte, at) => byte !== expected[at]);
  expectEqual(wrong, -1, `${what}: first wrong byte`);
}

/** Reading gives these bytes' prefix and then CORRUPT_DATA, never other bytes. */
async function expectCorrupt(data: ObjectData, oid: Oid, offset: number, expected: Uint8Array): Promise<void> {
  let at = 0;
  const reading = async (): Promise<void> => {
    for await (const chunk of data.read(oid, offset, expected.length)) {
      expectBytes(chunk, expected.subarray(at, at + chunk.length), "bytes before the damage");
      at += chunk.length;
    }
  };
  await expectCode(reading, "CORRUPT_DATA", "read");
}

const CREATE_CASES: readonly Case[] = [
  simple("create: an oid whose blob is sealed: PIECE_EXISTS, its bytes stay (OGD5)", async (data) => {
    await store(data, blob(1), pattern(1000));
    await expectCode(() => data.create(blob(1), PART), "PIECE_EXISTS", "create");
    expectBytes(await bytesOf(data, blob(1), 0, 1000), pattern(1000), "bytes");
    expectEqual((await data.inspect(blob(1))).kind, "sealed", "state");
  }),
  simple("create: an oid that is being written: PIECE_EXISTS, the writer goes on", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    await writer.write(pattern(10));
    await expectCode(() => data.create(blob(1), DESCRIPTION), "PIECE_EXISTS", "create");
    await writer.seal();
    expectBytes(await bytesOf(data, blob(1), 0, 10), pattern(10), "bytes");
  }),
  simple("create: ten at once of one oid: one writer", async (data) => {
    const racers = await Promise.allSettled(Array.from({ length: 10 }, () => data.create(blob(1), DESCRIPTION)));
    const winners = racers.flatMap((racer) => (racer.status === "fulfilled" ? [racer.value] : []));
    expectEqual(winners.length, 1, "winners");
    for (const racer of racers) if (racer.status === "rejected") expectEqual((racer.reason as ConcordError).code, "PIECE_EXISTS", "losers");
    await winners[0]!.abandon();
  }),
  simple("create: the same sequence in two epochs: two blobs", async (data) => {
    await store(data, blob(1, 1), pattern(10, 1));
    await store(data, blob(1, 2), pattern(10, 2));
    expectBytes(await bytesOf(data, blob(1, 1), 0, 10), pattern(10, 1), "first");
    expectBytes(await bytesOf(data, blob(1, 2), 0, 10), pattern(10, 2), "second");
  }),
];

const describedAs = async (data: ObjectData, oid: Oid): Promise<BlobDescription | undefined> => {
  const state = await data.inspect(oid);
  return state.kind === "sealed" ? state.description : undefined;
};

const NAME_CASES: readonly Case[] = [
  simple("names: first and last epoch and sequence: blobs of their own, listed", async (data) => {
    const oids = [oidOf(1, 0), oidOf(1, 2 ** 48 - 1), oidOf(2 ** 32 - 1, 0), oidOf(2 ** 32 - 1, 2 ** 48 - 1)];
    for (const [at, oid] of oids.entries()) await store(data, oid, pattern(10, at));
    for (const [at, oid] of oids.entries()) expectBytes(await bytesOf(data, oid, 0, 10), pattern(10, at), oid);
    for (const epoch of [1, 2 ** 32 - 1])
      expectEqual([...(await data.list({ epoch, fromSequence: 1, limit: 10 }))], [oidOf(epoch, 2 ** 48 - 1)], `list of ${epoch}`);
    expectEqual([...(await data.epochs())], [1, 2 ** 32 - 1], "epochs");
  }),
  simple("description: a key of 1024 bytes, every kind of character, the first and last part: round trip", async (data) => {
    const keys = ["k".repeat(1024), "\u00e4".repeat(512), "\u{1f600}".repeat(256), "a\u0308/\u0001\u001f\u007f\n\r\t \"'\\%2F/../."];
    for (const [at, key] of keys.entries()) {
      const description = { ...PART, bucket: "b".repeat(63), key, part: { uploadId: BigInt(at), number: at === 0 ? 1 : 10_000 } };
      await store(data, blob(at), pattern(3), description);
      expectEqual(await describedAs(data, blob(at)), description, `description ${at}`);
    }
  }),
  simple("inspect: of a blob among hundred that were sealed at once: each its own", async (data, { checksum }) => {
    const all = Array.from({ length: 100 }, (_, at) => ({ oid: blob(at), bytes: pattern(at * 13, at), guid: BigInt(at) }));
    await Promise.all(all.map(({ oid, bytes, guid }) => store(data, oid, bytes, { ...DESCRIPTION, guid })));
    for (const { oid, bytes, guid } of all) {
      const sealed = { lengthBytes: bytes.length, checksum: checksum(bytes) };
      expectEqual(await data.inspect(oid), { kind: "sealed", description: { ...DESCRIPTION, guid }, sealed }, oid);
    }
  }),
];

const SEAL_CASES: readonly Case[] = [
  simple("write: byte by byte: one behind the other", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    for (let at = 0; at < 300; at += 1) await writer.write(Uint8Array.of(at & 255));
    await writer.seal();
    expectBytes(
      await bytesOf(data, blob(1), 0, 300),
      Uint8Array.from({ length: 300 }, (_, at) => at & 255),
      "bytes",
    );
  }),
  simple("write: 1 MiB, a byte below and above it, in one call: whole", async (data) => {
    for (const [at, length] of [2 ** 20 - 1, 2 ** 20, 2 ** 20 + 1].entries()) {
      expectEqual((await store(data, blob(at), pattern(length))).lengthBytes, length, "length");
      expectBytes(await bytesOf(data, blob(at), 0, length), pattern(length), `${length} bytes`);
    }
  }),
  simple("seal: one blob while others are written: it is readable at once", async (data) => {
    const open = await Promise.all([11, 12, 13].map((sequence) => data.create(blob(sequence), DESCRIPTION)));
    for (const writer of open) await writer.write(pattern(70_000));
    await store(data, blob(1), pattern(70_000, 5));
    expectBytes(await bytesOf(data, blob(1), 0, 70_000), pattern(70_000, 5), "bytes");
    for (const sequence of [11, 12, 13]) expectOpen(await data.inspect(blob(sequence)));
    for (const writer of open) await writer.abandon();
  }),
  simple("seal: length and checksum: those of the bytes", async (data, { checksum }) => {
    for (const [at, length] of [0, 1, 20_000, 300_000].entries()) {
      const sealed = await store(data, blob(at), pattern(length));
      expectEqual(sealed, { lengthBytes: length, checksum: checksum(pattern(length)) }, `sealed ${length}`);
    }
  }),
  simple("seal: description with and without a part: round trip", async (data, { checksum }) => {
    await store(data, blob(1), pattern(5));
    await store(data, blob(2), pattern(5), PART);
    const sealed = { lengthBytes: 5, checksum: checksum(pattern(5)) };
    expectEqual(await data.inspect(blob(1)), { kind: "sealed", description: DESCRIPTION, sealed }, "object");
    expectEqual(await data.inspect(blob(2)), { kind: "sealed", description: PART, sealed }, "part");
  }),
  simple("seal: an empty blob: readable, nothing in it", async (data) => {
    await store(data, blob(1), new Uint8Array());
    expectBytes(await bytesOf(data, blob(1), 0, 0), new Uint8Array(), "bytes");
  }),
  simple("write: many blobs of different sizes: one behind the other", async (data) => {
    const whole = pattern(700_000);
    const writer = await data.create(blob(1), DESCRIPTION);
    let at = 0;
    for (const size of [1, 7, 65_536, 0, 100_000, 262_144, 3, 200_000, 72_309]) {
      await writer.write(whole.subarray(at, at + size));
      at += size;
    }
    expectEqual((await writer.seal()).lengthBytes, whole.length, "length");
    expectBytes(await bytesOf(data, blob(1), 0, whole.length), whole, "bytes");
  }),
  simple("write: the caller reuses its buffer: the blob keeps what it was given", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    const buffer = new Uint8Array(1000);
    for (let turn = 1; turn <= 5; turn += 1) {
      buffer.fill(turn);
      await writer.write(buffer);
    }
    buffer.fill(99);
    await writer.seal();
    const expected = Uint8Array.from({ length: 5000 }, (_, at) => Math.floor(at / 1000) + 1);
    expectBytes(await bytesOf(data, blob(1), 0, 5000), expected, "bytes");
  }),
  simple("write: several blobs at a time: not mixed", async (data) => {
    const writers = await Promise.all([0, 1, 2, 3].map((sequence) => data.create(blob(sequence), DESCRIPTION)));
    for (let turn = 0; turn < 5; turn += 1) await Promise.all(writers.map((writer, at) => writer.write(pattern(10_000, at * 10 + turn))));
    await Promise.all(writers.map((writer) => writer.seal()));
    for (let at = 0; at < 4; at += 1)
      expectBytes(await bytesOf(data, blob(at), 20_000, 10_000), pattern(10_000, at * 10 + 2), `blob ${at}`);
  }),
  simple("unsealed: open, not readable, described as given or not at all", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    await writer.write(pattern(100));
    expectOpen(await data.inspect(blob(1)));
    await expectCode(() => bytesOf(data, blob(1), 0, 1), "CORRUPT_DATA", "read");
    await writer.abandon();
    expectOpen(await data.inspect(blob(1)));
    expectEqual(await data.remove(blob(1)), true, "remove");
  }),
];

function expectOpen(state: BlobState): void {
  expectEqual(state.kind, "open", "state");
  if (state.kind === "open" && state.description !== undefined) expectEqual(state.description, DESCRIPTION, "description");
}

const BOUNDS = [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 262_143, 262_144, 262_145, 524_288, 599_999, 600_000];

const READ_CASES: readonly Case[] = [
  simple("read: ranges at every boundary: their bytes", async (data) => {
    const whole = pattern(600_000);
    await store(data, blob(1), whole);
    for (const from of BOUNDS)
      for (const to of BOUNDS)
        if (from <= to) expectBytes(await bytesOf(data, blob(1), from, to - from), whole.subarray(from, to), `${from} to ${to}`);
  }),
  simple("read: beyond the end: CORRUPT_DATA", async (data) => {
    await store(data, blob(1), pattern(1000));
    await expectCode(() => bytesOf(data, blob(1), 0, 1001), "CORRUPT_DATA", "one more");
    await expectCode(() => bytesOf(data, blob(1), 1001, 1), "CORRUPT_DATA", "behind");
  }),
  simple("read: an absent blob: CORRUPT_DATA", async (data) => {
    await expectCode(() => bytesOf(data, blob(1), 0, 1), "CORRUPT_DATA", "read");
    expectEqual(await data.inspect(blob(1)), { kind: "absent" }, "inspect");
  }),
  simple("read: the caller changes what it got: the blob does not", async (data) => {
    await store(data, blob(1), pattern(1000));
    for await (const chunk of data.read(blob(1), 0, 1000)) chunk.fill(0);
    expectBytes(await bytesOf(data, blob(1), 0, 1000), pattern(1000), "bytes");
  }),
  simple("read: ended early by the reader: others go on", async (data) => {
    await store(data, blob(1), pattern(600_000));
    for await (const _ of data.read(blob(1), 0, 600_000)) break;
    expectBytes(await bytesOf(data, blob(1), 0, 600_000), pattern(600_000), "bytes");
  }),
  simple("read: several ranges of one blob at once: each its own bytes", async (data) => {
    const whole = pattern(600_000);
    await store(data, blob(1), whole);
    const starts = [0, 65_000, 262_000, 300_000, 599_000];
    const read = await Promise.all(starts.map((from) => bytesOf(data, blob(1), from, 1000)));
    for (const [at, from] of starts.entries()) expectBytes(read[at]!, whole.subarray(from, from + 1000), `from ${from}`);
  }),
  simple("read: several at once, chunk by chunk in turn: each chunk stays until its reader asks for the next one", async (data) => {
    const wholes = [1, 2, 3].map((from) => pattern(3_300_000 + from).subarray(from));
    for (const [at, whole] of wholes.entries()) await store(data, blob(at + 1), whole);
    const readers = wholes.map((whole, at) => ({ whole, at: 0, chunks: data.read(blob(at + 1), 0, whole.length)[Symbol.asyncIterator]() }));
    for (let open = readers; open.length > 0;) {
      const given = await Promise.all(open.map(async (reader) => ({ reader, next: await reader.chunks.next() })));
      open = given.flatMap(({ reader, next }) => {
        if (next.done === true) return [];
        expectBytes(next.value, reader.whole.subarray(reader.at, reader.at + next.value.length), `chunk at ${reader.at}`);
        reader.at += next.value.length;
        return [reader];
      });
    }
    for (const { whole, at } of readers) expectEqual(at, whole.length, "bytes read");
  }),
  simple("read: no bytes, at the start, inside and at the end: none", async (data) => {
    await store(data, blob(1), pattern(1000));
    for (const from of [0, 500, 1000]) expectBytes(await bytesOf(data, blob(1), from, 0), new Uint8Array(), `at ${from}`);
  }),
  simple("damage: of one blob: its neighbours are read as before", async (data, { damage }) => {
    for (const sequence of [1, 2, 3]) await store(data, blob(sequence), pattern(5000, sequence));
    await damage(blob(2), 2500);
    await expectCorrupt(data, blob(2), 0, pattern(5000, 2));
    for (const sequence of [1, 3]) expectBytes(await bytesOf(data, blob(sequence), 0, 5000), pattern(5000, sequence), `blob ${sequence}`);
    expectEqual(await data.remove(blob(2)), true, "remove");
  }),
  simple("damage: a flipped bit, first to last byte: CORRUPT_DATA, never wrong bytes", async (data, { damage }) => {
    const whole = pattern(300_000);
    for (const [at, position] of [0, 1, 262_143, 262_144, 299_999].entries()) {
      await store(data, blob(at), whole);
      await damage(blob(at), position);
      await expectCorrupt(data, blob(at), 0, whole);
      await expectCorrupt(data, blob(at), position, whole.subarray(position, position + 1));
    }
  }),
  simple("damage: a range without the flipped bit: right bytes or CORRUPT_DATA", async (data, { damage }) => {
    const whole = pattern(600_000);
    await store(data, blob(1), whole);
    await damage(blob(1), 300_000);
    try {
      expectBytes(await bytesOf(data, blob(1), 0, 1000), whole.subarray(0, 1000), "bytes");
    } catch (thrown) {
      expectEqual(thrown instanceof ConcordError && thrown.code, "CORRUPT_DATA", "refusal");
    }
  }),
];

const LIST_CASES: readonly Case[] = [
  simple("list: no blobs: none", async (data) => {
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [], "list");
  }),
  simple("list: sealed and open ones: in order of their sequence, the epoch's only", async (data) => {
    const sequences = [70_000, 3, 255, 256, 1, 2 ** 47, 65_536, 17];
    for (const sequence of sequences) await store(data, blob(sequence), pattern(1));
    const open = await data.create(blob(2), DESCRIPTION);
    await store(data, blob(5, EPOCH + 1), pattern(1));
    const expected = [...sequences, 2].sort((left, right) => left - right).map((sequence) => blob(sequence));
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 100 }))], expected, "list");
    await open.abandon();
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 100 }))], expected, "after abandon");
  }),
  simple("list: from a sequence, with a limit: pages give all", async (data) => {
    const oids = Array.from({ length: 40 }, (_, at) => blob(at * 37));
    for (const oid of oids) await store(data, oid, pattern(1));
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 37, limit: 3 }))], oids.slice(1, 4), "inclusive");
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 38, limit: 3 }))], oids.slice(2, 5), "between");
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 40 * 37, limit: 3 }))], [], "behind");
    const seen: Oid[] = [];
    for (let page = 0; page < 6; page += 1) {
      const last = seen.at(-1);
      seen.push(...(await data.list({ epoch: EPOCH, fromSequence: last === undefined ? 0 : parseOid(last).sequence + 1, limit: 7 })));
    }
    expectEqual(seen, oids, "pages");
  }),
  simple("epochs: at least those with blobs, ascending", async (data) => {
    for (const epoch of [300, 2, 1_000_000]) await store(data, blob(0, epoch), pattern(1));
    expectEqual([...(await data.epochs())], [2, 300, 1_000_000], "epochs");
    await data.closeEpoch(300);
    await data.closeEpoch(7);
    await data.remove(blob(0, 2));
    const left = (await data.epochs()).filter((epoch) => ![2, 7].includes(epoch));
    expectEqual(left, [300, 1_000_000], "after close and remove");
  }),
];

const REMOVE_CASES: readonly Case[] = [
  simple("remove: between two pages: the others are listed once each", async (data) => {
    for (const sequence of [1, 2, 3, 4, 5]) await store(data, blob(sequence), pattern(1));
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 2 }))], [blob(1), blob(2)], "first page");
    for (const sequence of [2, 3]) await data.remove(blob(sequence));
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 3, limit: 2 }))], [blob(4), blob(5)], "second page");
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [blob(1), blob(4), blob(5)], "all");
  }),
  simple("remove: an abandoned blob: true, then false; absent", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    await writer.write(pattern(300_000));
    await writer.abandon();
    expectEqual([await data.remove(blob(1)), await data.remove(blob(1))], [true, false], "remove");
    expectEqual(await data.inspect(blob(1)), { kind: "absent" }, "inspect");
  }),
  simple("remove: a sealed blob: true, then false; absent and not listed", async (data) => {
    await store(data, blob(1), pattern(10));
    expectEqual(await data.remove(blob(1)), true, "first");
    expectEqual(await data.remove(blob(1)), false, "second");
    expectEqual(await data.inspect(blob(1)), { kind: "absent" }, "inspect");
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [], "list");
    await expectCode(() => bytesOf(data, blob(1), 0, 1), "CORRUPT_DATA", "read");
  }),
  simple("remove: never created: false", async (data) => expectEqual(await data.remove(blob(1)), false, "remove")),
  simple("remove: one of two: the other stays", async (data) => {
    await store(data, blob(1), pattern(10));
    await store(data, blob(257), pattern(10, 2));
    await data.remove(blob(1));
    expectBytes(await bytesOf(data, blob(257), 0, 10), pattern(10, 2), "bytes");
  }),
  simple("remove: while it is written: it does not come back", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    await writer.write(pattern(10));
    expectEqual(await data.remove(blob(1)), true, "remove");
    await sealAnyhow(writer);
    expectEqual(await data.inspect(blob(1)), { kind: "absent" }, "inspect");
  }),
];

/** EPOCH_FENCED is an answer, too. */
async function sealAnyhow(writer: BlobWriter): Promise<"sealed" | "fenced"> {
  try {
    await writer.seal();
    return "sealed";
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    expectEqual([thrown.code, thrown.applied], ["EPOCH_FENCED", "no"], "refusal of a seal");
    return "fenced";
  }
}

const CLOSE_CASES: readonly Case[] = [
  simple("close: create afterwards: EPOCH_FENCED; also with no blob before, also closed twice (OGD3)", async (data) => {
    await store(data, blob(1), pattern(10));
    for (const epoch of [EPOCH, 7]) {
      await data.closeEpoch(epoch);
      await expectCode(() => data.create(blob(2, epoch), DESCRIPTION), "EPOCH_FENCED", "create");
      await data.closeEpoch(epoch);
      await expectCode(() => data.create(blob(1000, epoch), DESCRIPTION), "EPOCH_FENCED", "create after two");
    }
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [blob(1)], "list");
  }),
  simple("close: another epoch: works on", async (data) => {
    await data.closeEpoch(EPOCH);
    await store(data, blob(1, EPOCH + 1), pattern(10));
    expectBytes(await bytesOf(data, blob(1, EPOCH + 1), 0, 10), pattern(10), "bytes");
  }),
  simple("close: sealed blobs: read, listed, inspected and removed as before", async (data) => {
    await store(data, blob(1), pattern(1000));
    await store(data, blob(300), pattern(10));
    await data.closeEpoch(EPOCH);
    expectBytes(await bytesOf(data, blob(1), 5, 100), pattern(1000).subarray(5, 105), "bytes");
    expectEqual((await data.inspect(blob(1))).kind, "sealed", "inspect");
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [blob(1), blob(300)], "list");
    expectEqual([...(await data.epochs())], [EPOCH], "epochs");
    expectEqual(await data.remove(blob(1)), true, "remove");
    expectEqual([...(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [blob(300)], "list after remove");
  }),
  simple("close: while a blob is written: it was found with its description, or its seal is refused (OGD3)", async (data) => {
    for (const [at, bytes] of [0, 100, 300_000, 2_500_000].entries()) {
      const epoch = EPOCH + at;
      const writer = await data.create(blob(1, epoch), DESCRIPTION);
      if (bytes > 0) await writer.write(pattern(bytes));
      await data.closeEpoch(epoch);
      const found = (await data.list({ epoch, fromSequence: 0, limit: 10 })).length === 1 ? await data.inspect(blob(1, epoch)) : undefined;
      const described = found?.kind === "open" && found.description !== undefined;
      const answer = await sealAnyhow(writer);
      if (!described) expectEqual(answer, "fenced", `seal of a blob without a description, ${bytes} bytes`);
      if (answer === "sealed") expectEqual((await data.inspect(blob(1, epoch))).kind, "sealed", "state after seal");
    }
  }),
  simple("close: a blob removed after it, then sealed: it does not come back", async (data) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    await writer.write(pattern(10));
    await data.closeEpoch(EPOCH);
    await data.remove(blob(1));
    await sealAnyhow(writer);
    expectEqual(await data.inspect(blob(1)), { kind: "absent" }, "inspect");
  }),
  simple("release: epochs below are closed, with and without blobs; blobs stay, the others go on", async (data) => {
    await store(data, blob(1, 3), pattern(10));
    await store(data, blob(1, 4), pattern(20));
    for (const epoch of [3, 4, 5]) await data.closeEpoch(epoch);
    await data.remove(blob(1, 3));
    await store(data, blob(1, 6), pattern(30));
    for (let pass = 0; pass < 2; pass += 1) {
      await data.releaseEpochs(6);
      for (const epoch of [3, 4, 5]) await expectCode(() => data.create(blob(2, epoch), DESCRIPTION), "EPOCH_FENCED", `create in ${epoch}`);
      expectEqual((await data.inspect(blob(1, 3))).kind, "absent", "inspect");
      expectEqual(await data.remove(blob(1, 3)), false, "remove");
      await expectCode(() => bytesOf(data, blob(1, 3), 0, 1), "CORRUPT_DATA", "read");
      expectEqual([...(await data.list({ epoch: 3, fromSequence: 0, limit: 10 }))], [], "list");
      expectBytes(await bytesOf(data, blob(1, 4), 0, 20), pattern(20), "bytes of a closed epoch");
      await store(data, blob(2 + pass, 6), pattern(5));
    }
    await data.remove(blob(1, 4));
    for (let sequence = 1; sequence <= 3; sequence += 1) await data.remove(blob(sequence, 6));
    await data.closeEpoch(6);
    await data.releaseEpochs(7);
    await data.closeEpoch(5);
    await data.releaseEpochs(7);
    for (const epoch of [3, 4, 5, 6])
      await expectCode(() => data.create(blob(9, epoch), DESCRIPTION), "EPOCH_FENCED", `create in ${epoch}`);
  }),
  simple("close: at once with ten creates: each was made before it and is listed, or is refused", async (data) => {
    const creating = Array.from({ length: 10 }, (_, at) => data.create(blob(at), DESCRIPTION));
    const closing = data.closeEpoch(EPOCH);
    const made = await Promise.allSettled(creating);
    await closing;
    const listed = await data.list({ epoch: EPOCH, fromSequence: 0, limit: 100 });
    for (const [at, outcome] of made.entries()) {
      if (outcome.status === "fulfilled") expectEqual(listed.includes(blob(at)), true, `blob ${at} is listed`);
      else expectEqual((outcome.reason as ConcordError).code, "EPOCH_FENCED", "refusal");
      if (outcome.status === "fulfilled") await outcome.value.abandon();
    }
  }),
];

const CRASH_CASES: readonly Case[] = [
  simple("crash: after seals and removes, one after the other: every answer holds", async (data, subject) => {
    for (const sequence of [1, 2, 3]) await store(data, blob(sequence), pattern(20_000, sequence));
    await data.remove(blob(2));
    await store(data, blob(4), pattern(300_000));
    await data.remove(blob(1));
    const left = await subject.crash();
    expectEqual([...(await left.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [blob(3), blob(4)], "list");
    expectBytes(await bytesOf(left, blob(3), 0, 20_000), pattern(20_000, 3), "third");
    expectBytes(await bytesOf(left, blob(4), 0, 300_000), pattern(300_000), "fourth");
  }),
  simple("crash: after seal: sealed, listed, every byte there", async (data, subject) => {
    await store(data, blob(1), pattern(20_000));
    await store(data, blob(2), pattern(700_000));
    const left = await subject.crash();
    expectBytes(await bytesOf(left, blob(1), 0, 20_000), pattern(20_000), "small");
    expectBytes(await bytesOf(left, blob(2), 0, 700_000), pattern(700_000), "large");
    expectEqual([...(await left.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }))], [blob(1), blob(2)], "list");
  }),
  simple("crash: after several seals at once: all are there", async (data, subject) => {
    await Promise.all(Array.from({ length: 12 }, (_, at) => store(data, blob(at), pattern(20_000, at))));
    const left = await subject.crash();
    for (let at = 0; at < 12; at += 1) expectBytes(await bytesOf(left, blob(at), 0, 20_000), pattern(20_000, at), `blob ${at}`);
  }),
  simple("crash: before seal: absent or open, never sealed; can be removed", async (data, subject) => {
    const writer = await data.create(blob(1), DESCRIPTION);
    await writer.write(pattern(1_500_000));
    const left = await subject.crash();
    const state = await left.inspect(blob(1));
    if (state.kind !== "absent") expectOpen(state);
    expectEqual(await left.remove(blob(1)), state.kind === "open", "remove");
    await writer.abandon();
  }),
  simple("crash: after remove: absent", async (data, subject) => {
    await store(data, blob(1), pattern(10));
    await data.remove(blob(1));
    expectEqual(await (await subject.crash()).inspect(blob(1)), { kind: "absent" }, "inspect");
  }),
  simple("crash: after several removes at once: those are absent, the others whole", async (data, subject) => {
    await Promise.all(Array.from({ length: 12 }, (_, at) => store(data, blob(at), pattern(20_000, at))));
    const removed = await Promise.all([1, 4, 5, 9].map((at) => data.remove(blob(at))));
    expectEqual(removed, [true, true, true, true], "removed");
    const left = await subject.crash();
    const others = [0, 2, 3, 6, 7, 8, 10, 11];
    expectEqual(
      [...(await left.list({ epoch: EPOCH, fromSequence: 0, limit: 100 }))],
      others.map((at) => blob(at)),
      "list",
    );
    for (const at of others) expectBytes(await bytesOf(left, blob(at), 0, 20_000), pattern(20_000, at), `blob ${at}`);
  }),
  simple("crash: after release: closed, its blobs there (OGD3)", async (data, subject) => {
    await store(data, blob(1, 1), pattern(10));
    for (const epoch of [1, 2]) await data.closeEpoch(epoch);
    await data.releaseEpochs(3);
    await data.releaseEpochs(3);
    const left = await subject.crash();
    for (const epoch of [1, 2]) await expectCode(() => left.create(blob(2, epoch), DESCRIPTION), "EPOCH_FENCED", `create in ${epoch}`);
    expectBytes(await bytesOf(left, blob(1, 1), 0, 10), pattern(10), "bytes");
  }),
  simple("crash: after close: closed, its blobs there (OGD3)", async (data, subject) => {
    await store(data, blob(1), pattern(10));
    await data.closeEpoch(EPOCH);
    await data.closeEpoch(9);
    const left = await subject.crash();
    await expectCode(() => left.create(blob(2), DESCRIPTION), "EPOCH_FENCED", "create");
    await expectCode(() => left.create(blob(2, 9), DESCRIPTION), "EPOCH_FENCED", "create in the empty one");
    expectBytes(await bytesOf(left, blob(1), 0, 10), pattern(10), "bytes");
  }),
];

export const OBJECT_DATA_CASES: readonly Case[] = [
  ...CREATE_CASES,
  ...NAME_CASES,
  ...SEAL_CASES,
  ...READ_CASES,
  ...LIST_CASES,
  ...REMOVE_CASES,
  ...CLOSE_CASES,
  ...CRASH_CASES,
];

/** Registers one test per promise of the ObjectData port. `open` gives an empty store each time. */
export function objectDataContract(test: TestFunction, open: () => Promise<ObjectDataSubject>): void {
  registerContract(test, "ObjectData", OBJECT_DATA_CASES, open);
}
