// Rows of objects through the service and its client: the port's promises, refusals, a commit whose answer is lost.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ProxyChannels, StorageProxyMetadata } from "@concord/adapter-storage-proxy";
import { objectMetadataContract } from "@concord/port-contracts";
import type { MetadataCommit, MetadataOutcome, MetadataRange, MetadataRow, ObjectMetadata } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { OBJECT_COMMIT_ROWS_MAX, OBJECT_KEY_BYTES_MAX, OBJECT_PAGE_BYTES, OBJECT_PAGE_ROWS_MAX, OBJECT_READ_KEYS_MAX } from "./limits.ts";
import { COORDINATOR, MemoryRing } from "./test/memory-ring.ts";

/** A gateway's end, on the ring's clock. */
class Remote implements ObjectMetadata {
  readonly #ring: MemoryRing;
  readonly #metadata: StorageProxyMetadata;

  constructor(ring: MemoryRing) {
    this.#ring = ring;
    const proxies = ring.nodes.map(({ name }) => ({ name, address: `${name}:7000`, datacenter: "" }));
    const { network: transport, clock } = ring;
    this.#metadata = new StorageProxyMetadata(
      new ProxyChannels({ proxies, datacenter: "", transport, clock, coordinatorToken: COORDINATOR }),
    );
  }

  read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    return this.#ring.clock.run(this.#metadata.read(partition, keys));
  }

  range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    return this.#ring.clock.run(this.#metadata.range(partition, range));
  }

  readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    return this.#ring.clock.run(this.#metadata.readCounters(partition, key));
  }

  commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.#ring.clock.run(this.#metadata.commit(commit));
  }
}

const rings: MemoryRing[] = [];

async function started(backend: "memory" | "ring" = "memory"): Promise<MemoryRing> {
  const ring = new MemoryRing({ size: 1, backend });
  rings.push(ring);
  await ring.start();
  return ring;
}

after(async () => {
  for (const ring of rings) await ring.stop();
});

objectMetadataContract(
  (name, run) => test(`[OGD15] through a storage-proxy: ${name}`, run),
  async () => {
    const ring = await started();
    return { metadata: new Remote(ring), crash: async () => new Remote(ring) };
  },
);

const KEY = Uint8Array.of(1);
const row = (value: number, bytes = 1): MetadataRow => ({
  key: Uint8Array.of(value >> 8, value & 255),
  version: { commit: 1n, guid: 1n },
  value: new Uint8Array(bytes),
});

test("range: rows larger than an answer: all of them, in both directions", async () => {
  const metadata = new Remote(await started());
  const rows = Array.from({ length: 40 }, (_, at) => row(at, 100_000));
  for (const one of rows) await metadata.commit({ partition: "b", conditions: [], writes: [{ kind: "put", row: one }] });
  const range = { from: Uint8Array.of(0), to: Uint8Array.of(1), limit: 1000 };
  const keys = rows.map(({ key }) => key);
  const found = async (reverse: boolean): Promise<Uint8Array[]> =>
    (await metadata.range("b", { ...range, reverse })).map(({ key }) => Uint8Array.from(key));
  assert.deepEqual(await found(false), keys);
  assert.deepEqual(await found(true), keys.toReversed());
});

test("read: rows by key larger than an answer, absent ones among them: all of them, in the order of the keys", async () => {
  const ring = await started();
  const metadata = new Remote(ring);
  const rows = Array.from({ length: OBJECT_READ_KEYS_MAX }, (_, at) => row(at, 200_000));
  for (const one of rows.slice(1)) await metadata.commit({ partition: "b", conditions: [], writes: [{ kind: "put", row: one }] });
  const found = await metadata.read(
    "b",
    rows.map(({ key }) => key),
  );
  assert.deepEqual(
    found.map((one) => one && Uint8Array.from(one.key)),
    [undefined, ...rows.slice(1).map(({ key }) => key)],
  );
  const answer = await ring.call<{ rows: object[] }>(
    ring.nodes[0]!,
    "ObjectMetadataService/ReadObjectRows",
    { partition: "b", keys: rows.map(({ key }) => key) },
    COORDINATOR,
  );
  assert.equal(answer.rows.length, 1 + Math.floor(OBJECT_PAGE_BYTES / 200_002), "a part of the keys, from the first one on");
});

test("the ring has no rows of objects: UNIMPLEMENTED says to keep them in transactions", async () => {
  const metadata = new Remote(await started("ring"));
  await assert.rejects(metadata.read("b", [KEY]), { code: "UNIMPLEMENTED", applied: "no", message: /transactions/ });
});

test("[OGD2] a commit that fails on its way: unknown when it may be carried out, an error when it certainly is not", async () => {
  const ring = await started();
  const metadata = new Remote(ring);
  const { objectMetadata } = ring.nodes[0]!.storage;
  const commit = { partition: "b", conditions: [], writes: [{ kind: "put", row: row(1) }] } as const;
  const fail = (applied: "no" | "unknown"): void => {
    objectMetadata.commit = () => Promise.reject(new ConcordError("STORE_FAILED", "no", { applied }));
  };
  fail("unknown");
  assert.equal((await metadata.commit(commit)).kind, "unknown");
  fail("no");
  await assert.rejects(metadata.commit(commit), { code: "STORE_FAILED", applied: "no" });
});

const many = <Item>(count: number, item: Item): Item[] => Array.from({ length: count }, () => item);
const REFUSED: readonly (readonly [name: string, method: string, request: object, code: string])[] = [
  ["no keys", "ReadObjectRows", { partition: "b", keys: [] }, "MALFORMED_REQUEST"],
  ["too many keys", "ReadObjectRows", { partition: "b", keys: many(OBJECT_READ_KEYS_MAX + 1, KEY) }, "LIMIT_EXCEEDED"],
  ["a key too long", "ReadObjectRows", { partition: "b", keys: [new Uint8Array(OBJECT_KEY_BYTES_MAX + 1)] }, "LIMIT_EXCEEDED"],
  ["a partition too long", "ReadObjectCounters", { partition: "b".repeat(1025), key: KEY }, "LIMIT_EXCEEDED"],
  ["no rows", "ReadObjectRange", { partition: "b", from: KEY, to: KEY, limit: 0 }, "MALFORMED_REQUEST"],
  ["too many rows", "ReadObjectRange", { partition: "b", from: KEY, to: KEY, limit: OBJECT_PAGE_ROWS_MAX + 1 }, "LIMIT_EXCEEDED"],
  ["a write of nothing", "CommitObjectRows", { partition: "b", writes: [{}] }, "MALFORMED_REQUEST"],
  ["a row without a version", "CommitObjectRows", { partition: "b", writes: [{ put: { key: KEY } }] }, "MALFORMED_REQUEST"],
  [
    "too large a commit",
    "CommitObjectRows",
    { partition: "b", writes: many(OBJECT_COMMIT_ROWS_MAX + 1, { delete: KEY }) },
    "LIMIT_EXCEEDED",
  ],
];

describe("refused, nothing changes", () => {
  let ring: MemoryRing;
  before(async () => (ring = await started()));
  for (const [name, method, request, code] of REFUSED) {
    test(`${method}: ${name}: ${code}`, async () => {
      const call = ring.call(ring.nodes[0]!, `ObjectMetadataService/${method}`, request, COORDINATOR);
      await assert.rejects(call, { code, applied: "no" });
    });
  }

  test("a client: PERMISSION_DENIED", async () => {
    const call = ring.call(ring.nodes[0]!, "ObjectMetadataService/CommitObjectRows", { partition: "b" });
    await assert.rejects(call, { code: "PERMISSION_DENIED", applied: "no" });
  });
});
